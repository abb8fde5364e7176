"""Agents that are functions of a test, and their results."""
# ruff: noqa: ANN401 - tests let an agent return anything

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import trio

import supervisor
from actors.testing import VirtualClock
from supervisor import Permissions, PythonAgent
from supervisor.core import agent_events
from supervisor.drivers.runtime import DriverRuntime

from .driver_context import DriverHarness, FakeDriverContext

Function: TypeAlias = Callable[..., Awaitable[Any]]
Run: TypeAlias = Callable[..., Awaitable[agent_events.TurnEnded]]


def python_harness(function: Function, runtime: DriverRuntime, **context: Any) -> DriverHarness:
    return DriverHarness(PythonAgent("mine", function), runtime, FakeDriverContext(**context))


async def _prompt_beside_echo(function: Function) -> supervisor.TurnResult:
    async with supervisor.open(":memory:", agents=[PythonAgent("mine", function)]) as sup:
        bystander = await sup.create("echo")
        session = await sup.create("mine", permissions=Permissions(mode="approve_all"))
        result = await session.prompt("go")
        assert (await session.info()).phase == "idle"
        assert (await session.info()).epoch == 1, "the session's actor crashed"
        assert (await bystander.prompt("still here")).text == "still here"
    return result


def only_its_turn(function: Function) -> supervisor.TurnResult | str:
    """Return the result of a turn, or the exception that ended the supervisor with it.

    In a trio run of its own, because an exception that ends a supervisor may also end a test.
    """
    try:
        return trio.run(_prompt_beside_echo, function, clock=VirtualClock())
    except BaseException as error:  # noqa: BLE001 - reported; its traceback is too deep for pytest
        return f"{type(error).__name__}: {str(error)[:200]}"


def outcome_of(result: supervisor.TurnResult | str) -> str:
    return result if isinstance(result, str) else result.outcome
