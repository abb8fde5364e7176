"""What a python agent may do with its turn, and what no longer when that is over."""

# ruff: noqa: ANN401 - rubbish has every type

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    Call,
    ConfigError,
    Message,
    OutputTooLarge,
    PermissionDenied,
    Permissions,
    PythonAgent,
    Session,
    Turn,
    TurnOver,
    Usage,
)
from supervisor.core import events as ev
from supervisor.drivers.port import Workshop
from tests.drivers.functions import Function, Run, desk_of, only_its_turn, outcome_of
from tests.drivers.office import Desk, StandInOffice


async def open_turn(desk: Desk, function_began: list[Turn]) -> Turn:
    """The turn of an agent that puts it into a list and goes on."""
    desk.order("go")
    await settle()
    return function_began[-1]


# A turn that is over ----------------------------------------------------------------------


WAYS: Final[dict[str, Callable[[Turn, Call], object]]] = {
    "say": lambda turn, _: turn.say("late"),
    "think": lambda turn, _: turn.think("late"),
    "plan": lambda turn, _: turn.plan(["late"]),
    "ask": lambda turn, _: turn.ask("late?", tool="bash"),
    "hang": lambda turn, _: turn.hang(),
    "tool": lambda turn, _: turn.tool("bash"),
    "enter a tool": lambda _, call: call.__aenter__(),
    "steering": lambda turn, _: turn.steering(),
    "usage": lambda turn, _: turn.usage(output_tokens=1),
    "result": lambda _, call: call.result("late"),
    "update": lambda _, call: call.update("late"),
}


async def is_refused(way: str, turn: Turn, call: Call) -> bool:
    try:
        used = WAYS[way](turn, call)
        if isinstance(used, Awaitable):
            await used
    except TurnOver:
        return True
    return False


@pytest.mark.parametrize("way", WAYS)
async def test_whoever_was_left_with_a_turn_that_has_ended_can_do_nothing_with_it(
    workshop: Workshop, way: str
) -> None:
    leaked: list[tuple[Turn, Call]] = []

    async def leaky(turn: Turn) -> None:
        leaked.append((turn, turn.tool("bash")))

    desk = desk_of(leaky, workshop)
    desk.order("go")
    await desk.office.heard(ev.TurnEnded)

    assert await is_refused(way, *leaked[0])
    assert (desk.office.kinds(), desk.office.output) == (["TurnEnded"], [])


@pytest.mark.parametrize("way", WAYS)
async def test_a_turn_that_was_given_up_can_do_nothing_any_more(
    workshop: Workshop, way: str
) -> None:
    refused: list[bool] = []

    async def deaf(turn: Turn) -> None:
        call = turn.tool("bash")
        with trio.CancelScope(shield=True):
            await trio.sleep(5.0)
            refused.append(await is_refused(way, turn, call))

    desk = desk_of(deaf, workshop)
    turn = desk.order("go")
    await settle()
    desk.driver.abandon_turn(turn)
    await desk.office.heard(ev.ZombieEnded)

    assert refused == [True]
    assert (desk.office.kinds(), desk.office.output) == (["ZombieEnded"], [])


async def test_a_task_that_outlives_its_turn_learns_so_from_its_next_word(
    workshop: Workshop, nursery: trio.Nursery
) -> None:
    learnt = trio.Event()

    async def chatter(turn: Turn) -> None:
        try:
            while True:
                await turn.say("blah ")
                await trio.sleep(1.0)
        except TurnOver:
            learnt.set()

    async def leaky(turn: Turn) -> None:
        nursery.start_soon(chatter, turn)
        await trio.sleep(2.5)

    desk = desk_of(leaky, workshop)
    turn = desk.order("go")
    await learnt.wait()

    assert desk.office.said(turn) == "blah blah blah "
    assert trio.current_time() == 3.0


async def test_a_call_that_outlives_its_turn_ends_in_silence(
    workshop: Workshop, nursery: trio.Nursery
) -> None:
    left = trio.Event()

    async def linger(turn: Turn) -> None:
        async with turn.tool("bash"):
            await trio.sleep(10.0)
        left.set()

    async def leaky(turn: Turn) -> None:
        nursery.start_soon(linger, turn)
        await trio.sleep(1.0)

    desk = desk_of(leaky, workshop)
    desk.order("go")
    await left.wait()

    assert desk.office.kinds() == ["CallStarted", "TurnEnded"]


async def test_a_turn_says_in_its_repr_that_it_is_over(workshop: Workshop) -> None:
    turns: list[Turn] = []

    async def leaky(turn: Turn) -> None:
        turns.append(turn)
        await trio.sleep(1.0)

    desk = desk_of(leaky, workshop)
    turn = await open_turn(desk, turns)
    before = repr(turn)
    await desk.office.heard(ev.TurnEnded)

    assert (before, repr(turn)) == ("<Turn turn_1 of s_1>", "<Turn turn_1 of s_1 (over)>")


# Tool calls ------------------------------------------------------------------------------


async def test_an_interrupted_call_knows_it_and_what_follows_its_block_runs(
    workshop: Workshop,
) -> None:
    async def agent(turn: Turn) -> str:
        async with turn.tool("bash") as call:
            await trio.sleep_forever()
        return f"interrupted: {call.interrupted}"

    desk = desk_of(agent, workshop)
    turn = desk.order("go")
    began = await desk.office.heard(ev.CallStarted)
    await settle()
    desk.driver.cancel_call(turn, began.call)

    assert (await desk.office.heard(ev.TurnEnded)).text == "interrupted: True"


async def test_a_call_whose_block_raises_has_failed(run: Run) -> None:
    async def agent(turn: Turn) -> str:
        with suppress(ZeroDivisionError):
            async with turn.tool("bash"):
                _ = 1 / 0
        return "went on"

    office = StandInOffice()
    ended = await run(agent, office)

    assert [over.outcome for over in office.all(ev.CallEnded)] == ["failed"]
    assert (ended.outcome, ended.text) == ("completed", "went on")


async def test_a_call_with_many_hands_in_it_ends_as_interrupted_with_its_turn(
    workshop: Workshop,
) -> None:
    async def many_hands(turn: Turn) -> None:
        async with turn.tool("bash"), trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(trio.sleep_forever)

    desk = desk_of(many_hands, workshop)
    turn = desk.order("go")
    await settle()
    desk.driver.cancel_turn(turn, "ask")

    assert (await desk.office.heard(ev.CallEnded)).outcome == "interrupted"


async def test_a_call_that_is_given_up_as_it_begins_is_over_before_its_turn(run: Run) -> None:
    async def hasty(turn: Turn) -> str:
        with trio.move_on_after(0.0):
            async with turn.tool("bash"):
                await trio.sleep_forever()
        return "went on"

    office = StandInOffice()
    await run(hasty, office)

    assert office.kinds() in (["TurnEnded"], ["CallStarted", "CallEnded", "TurnEnded"])


async def test_a_call_cannot_be_made_twice(run: Run) -> None:
    async def twice(turn: Turn) -> str:
        call = turn.tool("bash")
        async with call:
            pass
        with pytest.raises((RuntimeError, supervisor.SupervisorError)):
            await call.__aenter__()
        return "went on"

    office = StandInOffice()
    await run(twice, office)

    assert office.kinds() == ["CallStarted", "CallEnded", "TurnEnded"]


async def test_a_call_shows_what_it_was_given_how_it_goes_and_what_came_of_it(run: Run) -> None:
    async def agent(turn: Turn) -> None:
        async with turn.tool("bash", {"cmd": ("ls", math.inf)}) as call:
            call.update({"lines": 3})
            call.result({"files": {"a"}})

    office = StandInOffice()
    await run(agent, office)
    began, over = office.all(ev.CallStarted)[0], office.all(ev.CallEnded)[0]

    assert began.input == {"cmd": ["ls", "inf"]}
    assert office.output[0][1:] == (
        "tool_update",
        {"call_id": began.call, "name": "bash", "update": {"lines": 3}},
    )
    assert over.result == {"files": ["a"]}


@pytest.mark.parametrize("given", ["text", ["cmd"], 7])
async def test_the_input_of_a_tool_is_a_mapping(run: Run, given: Any) -> None:
    async def agent(turn: Turn) -> None:
        async with turn.tool("bash", given):
            pass

    office = StandInOffice()
    ended = await run(agent, office)

    assert (ended.outcome, office.kinds()) == ("failed", ["TurnEnded"])
    assert "ConfigError" in (ended.error or "")


@pytest.mark.parametrize("name", ["", " ", None, 7])
async def test_a_tool_has_a_name(run: Run, name: Any) -> None:
    async def agent(turn: Turn) -> None:
        with pytest.raises(ConfigError):
            turn.tool(name)
        with pytest.raises(ConfigError):
            await turn.ask("May I?", tool=name)
        with pytest.raises(ConfigError):
            await turn.ask(name, tool="bash")

    assert (await run(agent)).outcome == "completed"


def test_half_a_character_in_the_name_of_a_tool_costs_nobody_the_session() -> None:
    async def agent(turn: Turn) -> None:
        async with turn.tool("bash \ud800"):
            pass

    assert outcome_of(only_its_turn(agent)) in ("completed", "failed")


def test_half_a_character_in_what_is_asked_for_costs_nobody_the_session() -> None:
    async def agent(turn: Turn) -> None:
        await turn.ask("May I \udfff?", tool="bash \ud800", kind="\ud800", path="\ud800")

    assert outcome_of(only_its_turn(agent)) in ("completed", "failed")


LARGE: Final = "x" * 100_000


async def _large_input(turn: Turn) -> None:
    async with turn.tool("bash", {"cmd": LARGE}):
        pass


async def _large_result(turn: Turn) -> None:
    async with turn.tool("bash") as call:
        call.result(LARGE)


async def _large_name(turn: Turn) -> None:
    async with turn.tool(LARGE):
        pass


async def _large_update(turn: Turn) -> None:
    async with turn.tool("bash") as call:
        call.update(LARGE)


async def _large_question(turn: Turn) -> None:
    await turn.ask(LARGE, tool="bash")


@pytest.mark.parametrize(
    "function", [_large_input, _large_result, _large_name, _large_update, _large_question]
)
async def test_all_that_a_turn_leaves_on_record_counts_towards_its_output(
    function: Function,
) -> None:
    async with supervisor.open(":memory:", agents=[PythonAgent("large", function)]) as sup:
        permissions = Permissions(mode="approve_all")
        session = await sup.create("large", max_turn_bytes=1000, permissions=permissions)
        await session.prompt("go")
        turns = await session.history()

    assert len(str(turns)) < 50_000


# What a session may do ---------------------------------------------------------------------


async def test_a_tool_that_the_session_may_not_use_is_refused_before_it_begins(run: Run) -> None:
    async def agent(turn: Turn) -> str:
        with pytest.raises(PermissionDenied):
            turn.tool("rm")
        async with turn.tool("ls"):
            pass
        return "went on"

    office = StandInOffice(permissions=Permissions(tools=["ls"]))
    ended = await run(agent, office)

    assert ended.text == "went on"
    assert [began.name for began in office.all(ev.CallStarted)] == ["ls"]


async def test_no_tools_means_no_tools(run: Run) -> None:
    async def agent(turn: Turn) -> None:
        turn.tool("ls")

    ended = await run(agent, StandInOffice(permissions=Permissions(tools=frozenset())))

    assert "PermissionDenied" in (ended.error or "")


async def answers(session_options: dict[str, Any], **question: Any) -> tuple[bool, int]:
    """Whether it was allowed, and how many people had to be asked, all of whom said no."""
    allowed: list[bool] = []

    async def agent(turn: Turn) -> None:
        allowed.append(await turn.ask("May I?", **question))

    async with supervisor.open(":memory:", agents=[PythonAgent("curious", agent)]) as sup:
        session = await sup.create("curious", **session_options)
        await session.send("go")
        await settle()
        asked = await sup.permissions()
        for request in asked:
            await sup.answer(request.id, "reject_once")
        await settle()
    return allowed[0], len(asked)


INSIDE = ["/home/me/work", "/home/me/work/a.txt", "a.txt", "deep/down/a.txt", "./a.txt", "..a/b.."]
OUTSIDE = [
    None,
    "",
    "/",
    "/etc/passwd",
    "/home/me/workshop/a.txt",
    "/home/me",
    "..",
    "../a.txt",
    "a/../../../etc/passwd",
    "/home/me/work/../secret",
    "//home/me/work/a.txt",
    "~/secret",
]


@pytest.mark.parametrize("path", INSIDE)
@pytest.mark.parametrize("kind", ["read", "search"])
async def test_reading_inside_the_workspace_needs_nobody(kind: str, path: str) -> None:
    options = {"workspace": "/home/me/work"}

    assert await answers(options, tool="cat", kind=kind, path=path) == (True, 0)


@pytest.mark.parametrize("path", OUTSIDE)
async def test_reading_what_is_not_plainly_inside_the_workspace_is_asked(path: str | None) -> None:
    options = {"workspace": "/home/me/work"}

    assert await answers(options, tool="cat", kind="read", path=path) == (False, 1)


@pytest.mark.parametrize("kind", [None, "edit", "READ", "", 7])
async def test_what_is_not_reading_is_asked(kind: Any) -> None:
    options = {"workspace": "/home/me/work"}

    assert await answers(options, tool="tee", kind=kind, path="a.txt") == (False, 1)


async def test_without_a_workspace_all_reading_is_asked() -> None:
    assert await answers({}, tool="cat", kind="read", path="a.txt") == (False, 1)


async def test_everything_absolute_is_inside_a_workspace_that_is_the_root() -> None:
    options = {"workspace": "/"}

    assert await answers(options, tool="cat", kind="read", path="/etc/hosts") == (True, 0)


async def test_a_tool_that_the_session_may_not_use_is_not_even_asked_for() -> None:
    permissions = Permissions(tools=frozenset({"ls"}), mode="approve_all")

    assert await answers({"permissions": permissions}, tool="rm") == (False, 0)


# What an agent is given --------------------------------------------------------------------


async def test_a_turn_knows_what_it_is_about(workshop: Workshop) -> None:
    turns: list[Turn] = []

    async def agent(turn: Turn) -> None:
        turns.append(turn)

    desk = desk_of(agent, workshop, workspace="/home/me/work")
    turn = await open_turn(desk, turns)

    assert (turn.id, turn.session_id, turn.input_id) == ("turn_1", "s_1", "in_1")
    assert (turn.text, turn.workspace, turn.attachments) == ("go", "/home/me/work", ())


async def test_the_history_is_there_before_the_agent_runs(run: Run) -> None:
    past = [Message("user", "hello", 0.0), Message("agent", "hi", 0.0)]

    async def agent(turn: Turn) -> str:
        return ", ".join(f"{said.role}: {said.text}" for said in turn.history)

    ended = await run(agent, StandInOffice(past=past))

    assert ended.text == "user: hello, agent: hi"


async def test_the_history_is_what_was_said_before_this_turn_and_not_what_was_thought() -> None:
    histories: list[list[tuple[str, str]]] = []

    async def agent(turn: Turn) -> str:
        histories.append([(said.role, said.text) for said in turn.history])
        await turn.think("hm")
        await turn.say("I heard ")
        await turn.say(turn.text)
        histories[-1] += [("now", said.text) for said in turn.history[len(histories[-1]) :]]
        return "done"

    async with supervisor.open(":memory:", agents=[PythonAgent("listener", agent)]) as sup:
        session: Session = await sup.create("listener")
        await session.prompt("one")
        await session.prompt("two")

    assert histories == [
        [],
        [("user", "one"), ("agent", "I heard one"), ("agent", "done")],
    ]


# What an agent says and spends -------------------------------------------------------------


@pytest.mark.parametrize("rubbish", [None, 7, b"bytes", ["text"]])
async def test_what_is_no_text_cannot_be_said(run: Run, rubbish: Any) -> None:
    async def agent(turn: Turn) -> None:
        with pytest.raises(OutputTooLarge):
            await turn.say(rubbish)
        with pytest.raises(OutputTooLarge):
            await turn.think(rubbish)

    office = StandInOffice()

    assert (await run(agent, office)).outcome == "completed"
    assert office.output == []


async def test_a_plan_is_shown_as_plain_data(run: Run) -> None:
    async def agent(turn: Turn) -> None:
        await turn.plan([{"step": "look", "done": True}, ("think", math.nan)])

    office = StandInOffice()
    await run(agent, office)

    entries = [{"step": "look", "done": True}, ["think", "nan"]]
    assert office.output == [("turn_1", "plan", {"entries": entries})]


@pytest.mark.parametrize("field", ["input_tokens", "output_tokens", "cost"])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "7", None, True, 2**53, 10**400])
async def test_spending_that_cannot_be_meant_is_refused(run: Run, field: str, value: Any) -> None:
    async def agent(turn: Turn) -> None:
        with pytest.raises(ConfigError):
            turn.usage(**{field: value})

    office = StandInOffice()

    assert (await run(agent, office)).outcome == "completed"
    assert office.all(ev.UsageReported) == []


@pytest.mark.parametrize("field", ["input_tokens", "output_tokens"])
async def test_there_is_no_half_token(run: Run, field: str) -> None:
    async def agent(turn: Turn) -> None:
        turn.usage(**{field: 1.5})  # type: ignore[arg-type] # that is the point

    assert "ConfigError" in ((await run(agent)).error or "")


async def test_each_spending_is_reported_as_it_comes(run: Run) -> None:
    async def agent(turn: Turn) -> None:
        turn.usage(input_tokens=1, cost=0.5)
        turn.usage(output_tokens=2)
        turn.usage()

    office = StandInOffice()
    await run(agent, office)

    assert [report.usage for report in office.all(ev.UsageReported)] == [
        Usage(1, 0, 0.5),
        Usage(0, 2, 0.0),
    ]


async def test_spending_that_could_not_be_reported_goes_with_the_next_report(
    workshop: Workshop,
) -> None:
    async def agent(turn: Turn) -> None:
        turn.usage(input_tokens=1)
        await trio.sleep(1.0)
        turn.usage(input_tokens=2)

    desk = desk_of(agent, workshop)
    desk.office.fill()
    desk.order("go")
    await settle()
    desk.office.make_room()
    await desk.office.heard(ev.TurnEnded)

    assert [report.usage for report in desk.office.all(ev.UsageReported)] == [Usage(3)]


async def test_spending_is_not_lost_when_a_turn_ends_while_the_session_has_no_room(
    workshop: Workshop,
) -> None:
    async def agent(turn: Turn) -> None:
        turn.usage(input_tokens=1)

    desk = desk_of(agent, workshop)
    desk.office.fill()
    desk.order("go")
    await settle()
    desk.office.make_room()
    await desk.office.heard(ev.TurnEnded)

    assert desk.office.kinds() == ["UsageReported", "TurnEnded"]


# What it is ---------------------------------------------------------------------------------------

FOR_AGENTS: Final = {
    *("id", "input_id", "session_id", "text", "attachments", "workspace", "history"),
    *("say", "think", "plan", "tool", "steering", "ask", "usage", "news"),
    *("spawn", "descendant", "requests", "answer_request", "hang", "refuse_if_over"),
}


async def test_a_turn_has_nothing_that_is_for_its_driver(workshop: Workshop) -> None:
    began: list[Turn] = []

    async def agent(turn: Turn) -> None:
        began.append(turn)

    turn = await open_turn(desk_of(agent, workshop), began)
    public = {name for name in dir(turn) if not name.startswith("_")}

    assert public == FOR_AGENTS


async def test_a_call_has_nothing_that_is_for_its_driver(workshop: Workshop) -> None:
    calls: list[Call] = []

    async def agent(turn: Turn) -> None:
        calls.append(turn.tool("bash"))

    desk_of(agent, workshop).order("go")
    await settle()
    public = {name for name in dir(calls[0]) if not name.startswith("_")}

    assert public == {"id", "name", "interrupted", "result", "update"}
