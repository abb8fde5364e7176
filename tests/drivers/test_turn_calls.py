"""Tool calls of a turn, and the rights of its session."""

# ruff: noqa: ANN401 - rubbish has every type
from __future__ import annotations

import math
from contextlib import suppress
from typing import Any, Final

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import ConfigError, PermissionDenied, Permissions, PythonAgent, Turn
from supervisor.core import agent_events
from supervisor.drivers.runtime import DriverRuntime
from tests.support.driver_context import FakeDriverContext
from tests.support.function_agents import Function, Run, only_its_turn, outcome_of, python_harness

# Tool calls -----------------------------------------------------------------------------


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


async def test_a_call_fails_when_its_block_raises(run: Run) -> None:
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


# What a session may do ------------------------------------------------------------------


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
