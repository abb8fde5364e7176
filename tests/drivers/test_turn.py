"""The turn of a Python agent: output, calls, permissions, usage, and after its end."""
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
from supervisor.core import agent_events
from supervisor.drivers.port import DriverRuntime
from tests.support.driver_context import DriverHarness, FakeDriverContext
from tests.support.function_agents import Function, Run, only_its_turn, outcome_of, python_harness


async def open_turn(harness: DriverHarness, function_began: list[Turn]) -> Turn:
    """Return the turn of an agent that stores it in a list and goes on."""
    harness.order("go")
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
async def test_every_method_of_an_ended_turn_raises_turn_over(
    runtime: DriverRuntime, way: str
) -> None:
    leaked: list[tuple[Turn, Call]] = []

    async def leaky(turn: Turn) -> None:
        leaked.append((turn, turn.tool("bash")))

    harness = python_harness(leaky, runtime)
    harness.order("go")
    await harness.context.heard(agent_events.TurnEnded)

    assert await is_refused(way, *leaked[0])
    assert (harness.context.kinds(), harness.context.output) == (["TurnEnded"], [])


@pytest.mark.parametrize("way", WAYS)
async def test_every_method_of_an_abandoned_turn_raises_turn_over(
    runtime: DriverRuntime, way: str
) -> None:
    refused: list[bool] = []

    async def deaf(turn: Turn) -> None:
        call = turn.tool("bash")
        with trio.CancelScope(shield=True):
            await trio.sleep(5.0)
            refused.append(await is_refused(way, turn, call))

    harness = python_harness(deaf, runtime)
    turn = harness.order("go")
    await settle()
    harness.driver.abandon_turn(turn)
    await harness.context.heard(agent_events.ZombieEnded)

    assert refused == [True]
    assert (harness.context.kinds(), harness.context.output) == (["ZombieEnded"], [])


async def test_a_task_that_outlives_its_turn_gets_turn_over(
    runtime: DriverRuntime, nursery: trio.Nursery
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

    harness = python_harness(leaky, runtime)
    turn = harness.order("go")
    await learnt.wait()

    assert harness.context.received_text(turn) == "blah blah blah "
    assert trio.current_time() == 3.0


async def test_a_call_that_outlives_its_turn_reports_nothing(
    runtime: DriverRuntime, nursery: trio.Nursery
) -> None:
    left = trio.Event()

    async def linger(turn: Turn) -> None:
        async with turn.tool("bash"):
            await trio.sleep(10.0)
        left.set()

    async def leaky(turn: Turn) -> None:
        nursery.start_soon(linger, turn)
        await trio.sleep(1.0)

    harness = python_harness(leaky, runtime)
    harness.order("go")
    await left.wait()

    assert harness.context.kinds() == ["CallStarted", "TurnEnded"]


async def test_the_repr_of_an_ended_turn_shows_that_it_is_over(runtime: DriverRuntime) -> None:
    turns: list[Turn] = []

    async def leaky(turn: Turn) -> None:
        turns.append(turn)
        await trio.sleep(1.0)

    harness = python_harness(leaky, runtime)
    turn = await open_turn(harness, turns)
    before = repr(turn)
    await harness.context.heard(agent_events.TurnEnded)

    assert (before, repr(turn)) == ("<Turn turn_1 of s_1>", "<Turn turn_1 of s_1 (over)>")


# Tool calls ------------------------------------------------------------------------------


async def test_an_interrupted_call_is_marked_and_the_turn_goes_on(
    runtime: DriverRuntime,
) -> None:
    async def agent(turn: Turn) -> str:
        async with turn.tool("bash") as call:
            await trio.sleep_forever()
        return f"interrupted: {call.interrupted}"

    harness = python_harness(agent, runtime)
    turn = harness.order("go")
    began = await harness.context.heard(agent_events.CallStarted)
    await settle()
    harness.driver.cancel_call(turn, began.call)

    assert (await harness.context.heard(agent_events.TurnEnded)).text == "interrupted: True"


async def test_a_call_whose_block_raises_has_failed(run: Run) -> None:
    async def agent(turn: Turn) -> str:
        with suppress(ZeroDivisionError):
            async with turn.tool("bash"):
                _ = 1 / 0
        return "went on"

    context = FakeDriverContext()
    ended = await run(agent, context)

    assert [over.outcome for over in context.all(agent_events.CallEnded)] == ["failed"]
    assert (ended.outcome, ended.text) == ("completed", "went on")


async def test_a_call_with_several_tasks_ends_as_interrupted_with_its_turn(
    runtime: DriverRuntime,
) -> None:
    async def many_hands(turn: Turn) -> None:
        async with turn.tool("bash"), trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(trio.sleep_forever)

    harness = python_harness(many_hands, runtime)
    turn = harness.order("go")
    await settle()
    harness.driver.cancel_turn(turn, "ask")

    assert (await harness.context.heard(agent_events.CallEnded)).outcome == "interrupted"


async def test_a_call_cancelled_at_its_start_ends_before_its_turn(run: Run) -> None:
    async def hasty(turn: Turn) -> str:
        with trio.move_on_after(0.0):
            async with turn.tool("bash"):
                await trio.sleep_forever()
        return "went on"

    context = FakeDriverContext()
    await run(hasty, context)

    assert context.kinds() in (["TurnEnded"], ["CallStarted", "CallEnded", "TurnEnded"])


async def test_a_call_cannot_be_entered_twice(run: Run) -> None:
    async def twice(turn: Turn) -> str:
        call = turn.tool("bash")
        async with call:
            pass
        with pytest.raises((RuntimeError, supervisor.SupervisorError)):
            await call.__aenter__()
        return "went on"

    context = FakeDriverContext()
    await run(twice, context)

    assert context.kinds() == ["CallStarted", "CallEnded", "TurnEnded"]


async def test_a_call_records_its_input_progress_and_result(run: Run) -> None:
    async def agent(turn: Turn) -> None:
        async with turn.tool("bash", {"cmd": ("ls", math.inf)}) as call:
            call.update({"lines": 3})
            call.result({"files": {"a"}})

    context = FakeDriverContext()
    await run(agent, context)
    began, over = context.all(agent_events.CallStarted)[0], context.all(agent_events.CallEnded)[0]

    assert began.input == {"cmd": ["ls", "inf"]}
    assert context.output[0][1:] == (
        "tool_update",
        {"call_id": began.call, "name": "bash", "update": {"lines": 3}},
    )
    assert over.result == {"files": ["a"]}


@pytest.mark.parametrize("given", ["text", ["cmd"], 7])
async def test_a_tool_input_must_be_a_mapping(run: Run, given: Any) -> None:
    async def agent(turn: Turn) -> None:
        async with turn.tool("bash", given):
            pass

    context = FakeDriverContext()
    ended = await run(agent, context)

    assert (ended.outcome, context.kinds()) == ("failed", ["TurnEnded"])
    assert "ConfigError" in (ended.error or "")


@pytest.mark.parametrize("name", ["", " ", None, 7])
async def test_a_tool_without_a_name_is_refused(run: Run, name: Any) -> None:
    async def agent(turn: Turn) -> None:
        with pytest.raises(ConfigError):
            turn.tool(name)
        with pytest.raises(ConfigError):
            await turn.ask("May I?", tool=name)
        with pytest.raises(ConfigError):
            await turn.ask(name, tool="bash")

    assert (await run(agent)).outcome == "completed"


def test_a_lone_surrogate_in_a_tool_name_does_not_crash_the_session() -> None:
    async def agent(turn: Turn) -> None:
        async with turn.tool("bash \ud800"):
            pass

    assert outcome_of(only_its_turn(agent)) in ("completed", "failed")


def test_a_lone_surrogate_in_a_question_does_not_crash_the_session() -> None:
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
async def test_everything_that_a_turn_records_counts_towards_its_output(
    function: Function,
) -> None:
    async with supervisor.open(":memory:", agents=[PythonAgent("large", function)]) as sup:
        permissions = Permissions(mode="approve_all")
        session = await sup.create("large", max_turn_bytes=1000, permissions=permissions)
        await session.prompt("go")
        turns = await session.history()

    assert len(str(turns)) < 50_000


# What a session may do ---------------------------------------------------------------------


async def test_a_forbidden_tool_is_refused_before_it_starts(run: Run) -> None:
    async def agent(turn: Turn) -> str:
        with pytest.raises(PermissionDenied):
            turn.tool("rm")
        async with turn.tool("ls"):
            pass
        return "went on"

    context = FakeDriverContext(permissions=Permissions(tools=["ls"]))
    ended = await run(agent, context)

    assert ended.text == "went on"
    assert [began.name for began in context.all(agent_events.CallStarted)] == ["ls"]


async def test_an_empty_tool_list_forbids_all_tools(run: Run) -> None:
    async def agent(turn: Turn) -> None:
        turn.tool("ls")

    ended = await run(agent, FakeDriverContext(permissions=Permissions(tools=frozenset())))

    assert "PermissionDenied" in (ended.error or "")


async def answers(session_options: dict[str, Any], **question: Any) -> tuple[bool, int]:
    """Return whether it was allowed, and the number of requests, all of them rejected."""
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
async def test_reading_inside_the_workspace_needs_no_decision(kind: str, path: str) -> None:
    options = {"workspace": "/home/me/work"}

    assert await answers(options, tool="cat", kind=kind, path=path) == (True, 0)


@pytest.mark.parametrize("path", OUTSIDE)
async def test_reading_outside_the_workspace_needs_a_decision(path: str | None) -> None:
    options = {"workspace": "/home/me/work"}

    assert await answers(options, tool="cat", kind="read", path=path) == (False, 1)


@pytest.mark.parametrize("kind", [None, "edit", "READ", "", 7])
async def test_other_kinds_than_reading_need_a_decision(kind: Any) -> None:
    options = {"workspace": "/home/me/work"}

    assert await answers(options, tool="tee", kind=kind, path="a.txt") == (False, 1)


async def test_reading_without_a_workspace_needs_a_decision() -> None:
    assert await answers({}, tool="cat", kind="read", path="a.txt") == (False, 1)


async def test_every_absolute_path_is_inside_the_root_workspace() -> None:
    options = {"workspace": "/"}

    assert await answers(options, tool="cat", kind="read", path="/etc/hosts") == (True, 0)


async def test_a_forbidden_tool_is_rejected_without_a_request() -> None:
    permissions = Permissions(tools=frozenset({"ls"}), mode="approve_all")

    assert await answers({"permissions": permissions}, tool="rm") == (False, 0)


# What an agent is given --------------------------------------------------------------------


async def test_a_turn_has_its_input_and_ids(runtime: DriverRuntime) -> None:
    turns: list[Turn] = []

    async def agent(turn: Turn) -> None:
        turns.append(turn)

    harness = python_harness(agent, runtime, workspace="/home/me/work")
    turn = await open_turn(harness, turns)

    assert (turn.id, turn.session_id, turn.input_id) == ("turn_1", "s_1", "in_1")
    assert (turn.text, turn.workspace, turn.attachments) == ("go", "/home/me/work", ())


async def test_the_history_is_loaded_before_the_agent_runs(run: Run) -> None:
    past = [Message("user", "hello", 0.0), Message("agent", "hi", 0.0)]

    async def agent(turn: Turn) -> str:
        return ", ".join(f"{said.role}: {said.text}" for said in turn.history)

    ended = await run(agent, FakeDriverContext(past=past))

    assert ended.text == "user: hello, agent: hi"


async def test_the_history_has_earlier_messages_without_thoughts() -> None:
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
async def test_say_refuses_values_that_are_not_text(run: Run, rubbish: Any) -> None:
    async def agent(turn: Turn) -> None:
        with pytest.raises(OutputTooLarge):
            await turn.say(rubbish)
        with pytest.raises(OutputTooLarge):
            await turn.think(rubbish)

    context = FakeDriverContext()

    assert (await run(agent, context)).outcome == "completed"
    assert context.output == []


async def test_a_plan_is_recorded_as_plain_data(run: Run) -> None:
    async def agent(turn: Turn) -> None:
        await turn.plan([{"step": "look", "done": True}, ("think", math.nan)])

    context = FakeDriverContext()
    await run(agent, context)

    entries = [{"step": "look", "done": True}, ["think", "nan"]]
    assert context.output == [("turn_1", "plan", {"entries": entries})]


@pytest.mark.parametrize("field", ["input_tokens", "output_tokens", "cost"])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "7", None, True, 2**53, 10**400])
async def test_invalid_usage_is_refused(run: Run, field: str, value: Any) -> None:
    async def agent(turn: Turn) -> None:
        with pytest.raises(ConfigError):
            turn.usage(**{field: value})

    context = FakeDriverContext()

    assert (await run(agent, context)).outcome == "completed"
    assert context.all(agent_events.UsageReported) == []


@pytest.mark.parametrize("field", ["input_tokens", "output_tokens"])
async def test_a_fraction_of_a_token_is_refused(run: Run, field: str) -> None:
    async def agent(turn: Turn) -> None:
        turn.usage(**{field: 1.5})  # type: ignore[arg-type] # that is the point

    assert "ConfigError" in ((await run(agent)).error or "")


async def test_each_usage_is_reported_at_once(run: Run) -> None:
    async def agent(turn: Turn) -> None:
        turn.usage(input_tokens=1, cost=0.5)
        turn.usage(output_tokens=2)
        turn.usage()

    context = FakeDriverContext()
    await run(agent, context)

    assert [report.usage for report in context.all(agent_events.UsageReported)] == [
        Usage(1, 0, 0.5),
        Usage(0, 2, 0.0),
    ]


async def test_usage_that_could_not_be_reported_joins_the_next_report(
    runtime: DriverRuntime,
) -> None:
    async def agent(turn: Turn) -> None:
        turn.usage(input_tokens=1)
        await trio.sleep(1.0)
        turn.usage(input_tokens=2)

    harness = python_harness(agent, runtime)
    harness.context.fill()
    harness.order("go")
    await settle()
    harness.context.make_room()
    await harness.context.heard(agent_events.TurnEnded)

    assert [report.usage for report in harness.context.all(agent_events.UsageReported)] == [
        Usage(3)
    ]


async def test_usage_is_not_lost_when_a_turn_ends_with_a_full_mailbox(
    runtime: DriverRuntime,
) -> None:
    async def agent(turn: Turn) -> None:
        turn.usage(input_tokens=1)

    harness = python_harness(agent, runtime)
    harness.context.fill()
    harness.order("go")
    await settle()
    harness.context.make_room()
    await harness.context.heard(agent_events.TurnEnded)

    assert harness.context.kinds() == ["UsageReported", "TurnEnded"]


# What it is ---------------------------------------------------------------------------------------

FOR_AGENTS: Final = {
    *("id", "input_id", "session_id", "text", "attachments", "workspace", "history"),
    *("say", "think", "plan", "tool", "steering", "ask", "usage", "news"),
    *("spawn", "descendant", "requests", "answer_request", "hang", "raise_if_over"),
}


async def test_a_turn_has_no_public_names_for_its_driver(runtime: DriverRuntime) -> None:
    began: list[Turn] = []

    async def agent(turn: Turn) -> None:
        began.append(turn)

    turn = await open_turn(python_harness(agent, runtime), began)
    public = {name for name in dir(turn) if not name.startswith("_")}

    assert public == FOR_AGENTS


async def test_a_call_has_no_public_names_for_its_driver(runtime: DriverRuntime) -> None:
    calls: list[Call] = []

    async def agent(turn: Turn) -> None:
        calls.append(turn.tool("bash"))

    python_harness(agent, runtime).order("go")
    await settle()
    public = {name for name in dir(calls[0]) if not name.startswith("_")}

    assert public == {"id", "name", "interrupted", "result", "update"}
