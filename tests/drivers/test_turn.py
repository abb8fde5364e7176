"""The turn of a Python agent: output, calls, permissions, usage, and after its end."""

# ruff: noqa: ANN401 - rubbish has every type
from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
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
    PythonAgent,
    Session,
    Turn,
    TurnOver,
    Usage,
)
from supervisor.core import agent_events
from supervisor.drivers.runtime import DriverRuntime
from tests.support.driver_context import DriverHarness, FakeDriverContext
from tests.support.function_agents import Run, python_harness


async def open_turn(harness: DriverHarness, function_began: list[Turn]) -> Turn:
    """Return the turn of an agent that stores it in a list and goes on."""
    harness.order("go")
    await settle()
    return function_began[-1]


# A turn that is over --------------------------------------------------------------------


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


# What an agent is given -----------------------------------------------------------------


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


# What an agent says and spends ----------------------------------------------------------


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


# What it is -----------------------------------------------------------------------------


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
