"""The driver contract with agents that are real processes, in real time.

One speaks our own scripted language, the other was written with the protocol's official SDK. The
tests are those of tests/drivers/test_contract.py and test_contract_calls.py; here `settle` takes a
short time, because a process does not show when it is idle.
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
from supervisor.drivers.process.contained import open_processes
from supervisor.drivers.runtime import DriverRuntime
from tests.drivers import test_contract, test_contract_calls
from tests.support.agent_actions import AgentAction
from tests.support.agent_kinds import PROCESS_SCRIPTS, Kind, for_able_kinds
from tests.support.driver_contract import Contract, agent_at_work

WHILE_SECONDS: Final = 0.1

SDK_AGENT: Final = Path(__file__).parents[2] / "support" / "sdk_agent.py"
SDK_ACTIONS: Final[tuple[AgentAction, ...]] = (
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
        {action: action for action in SDK_ACTIONS},
    ),
)


@pytest.fixture
async def runtime(nursery: trio.Nursery) -> AsyncIterator[DriverRuntime]:
    """Yield a runtime with real processes; none is left after the test."""
    async with open_processes() as processes:
        runtime = DriverRuntime(nursery, processes=processes)
        yield runtime
        runtime.shutdown_started.set()


@pytest.fixture
async def harness(kind: Kind, runtime: DriverRuntime) -> Contract:
    """Return a harness whose agent is attached."""
    return await agent_at_work(kind, runtime)


async def settle() -> None:
    """Wait a while, and as long as a process takes to start and end: more on a loaded machine."""
    await trio.sleep(WHILE_SECONDS)
    await trio.run_process([sys.executable, "-I", "-S", "-c", ""])


def with_real_settle(function: FunctionType) -> Callable[..., Any]:
    """Return the same test with the `settle` of this module."""
    here = {**function.__globals__, "settle": settle}
    test = FunctionType(function.__code__, here, function.__name__, function.__defaults__)
    test.__kwdefaults__ = function.__kwdefaults__
    test.__annotations__ = function.__annotations__
    test.__doc__ = function.__doc__
    return test


def _repeat_contract() -> None:
    for name, function in (vars(test_contract) | vars(test_contract_calls)).items():
        if not name.startswith("test_"):
            continue
        test: Any = with_real_settle(function)
        test.actions = function.actions
        for mark in function.pytestmark:
            if mark.args[0] != "kind":
                test = pytest.mark.parametrize(*mark.args, **mark.kwargs)(test)
        if any(set(function.actions) <= kind.texts.keys() for kind in KINDS):
            globals()[name] = for_able_kinds(test, KINDS)


_repeat_contract()
