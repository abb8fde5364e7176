"""Agents that are functions of a test, and what comes of them."""

# ruff: noqa: ANN401 - an agent may return anything, that is what is tested

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import trio

import supervisor
from actors.testing import VirtualClock
from supervisor import Permissions, PythonAgent
from supervisor.core import events as ev
from supervisor.drivers.port import Workshop
from tests.drivers.office import Desk, StandInOffice

Function: TypeAlias = Callable[..., Awaitable[Any]]
Run: TypeAlias = Callable[..., Awaitable[ev.TurnEnded]]


def desk_of(function: Function, workshop: Workshop, **office: Any) -> Desk:
    return Desk(PythonAgent("mine", function), workshop, StandInOffice(**office))


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
    """The result of a turn that harmed nobody else, or what else it harmed.

    In a run of its own, for what can kill a supervisor might also pass for the end of a test.
    """
    try:
        return trio.run(_prompt_beside_echo, function, clock=VirtualClock())
    except BaseException as death:  # noqa: BLE001 - and too deep for pytest to look at
        return f"{type(death).__name__}: {str(death)[:200]}"


def outcome_of(came_of_it: supervisor.TurnResult | str) -> str:
    return came_of_it if isinstance(came_of_it, str) else came_of_it.outcome
