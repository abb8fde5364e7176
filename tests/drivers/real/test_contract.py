"""The contract of all drivers, kept by agents that are real processes, in real time.

One speaks our own scripted language, the other was written with the protocol's official SDK. The
tests are those of tests/drivers/test_contract.py, word for word; here "until nobody does anything"
is a short while, since a process does not say when it does nothing.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import pytest
import trio

import supervisor
from supervisor.drivers.port import Workshop
from supervisor.drivers.process.contained import ContainedProcesses
from tests.drivers import test_contract
from tests.drivers.deeds import Deed
from tests.drivers.kinds import PROCESS_SCRIPTS, Kind, of_those_able

WHILE_SECONDS: Final = 0.1

SDK_AGENT: Final = Path(__file__).parent / "sdk_agent.py"
SDK_DEEDS: Final[tuple[Deed, ...]] = (
    "greet",
    "wait",
    "fail",
    "die",
    "use a tool",
    "ask",
    "flood",
)

KINDS: Final = (
    Kind("scripted-process", supervisor.scripted_process(), PROCESS_SCRIPTS),
    Kind(
        "sdk",
        supervisor.acp("sdk", [sys.executable, "-P", str(SDK_AGENT)]),
        {deed: deed for deed in SDK_DEEDS},
    ),
)


@pytest.fixture
async def workshop(nursery: trio.Nursery) -> AsyncIterator[Workshop]:
    """Its agents are processes; none is left after the test."""
    workshop = Workshop(nursery, processes=ContainedProcesses())
    yield workshop
    workshop.closing.set()


@pytest.fixture
async def desk(kind: Kind, workshop: Workshop) -> test_contract.Contract:
    """Its agent is up."""
    return await test_contract.agent_at_work(kind, workshop)


async def settle() -> None:
    await trio.sleep(WHILE_SECONDS)


def retold(function: FunctionType) -> Callable[..., Any]:
    """The same test, in this world."""
    here = {**function.__globals__, "settle": settle}
    test = FunctionType(function.__code__, here, function.__name__, function.__defaults__)
    test.__kwdefaults__ = function.__kwdefaults__
    test.__annotations__ = function.__annotations__
    test.__doc__ = function.__doc__
    return test


def _retell_all() -> None:
    for name, function in vars(test_contract).items():
        if not name.startswith("test_"):
            continue
        test: Any = retold(function)
        test.deeds = function.deeds
        for mark in function.pytestmark:
            if mark.args[0] != "kind":
                test = pytest.mark.parametrize(*mark.args, **mark.kwargs)(test)
        if any(set(function.deeds) <= kind.texts.keys() for kind in KINDS):
            globals()[name] = of_those_able(test, KINDS)


_retell_all()
