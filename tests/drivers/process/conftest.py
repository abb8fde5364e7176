"""Fixtures of the tests with real processes, which run in real time."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest

from supervisor.drivers.process.contained import ContainedProcesses, SentSignal
from supervisor.drivers.process.fork_server import ForkServer, open_fork_server
from tests.support.process_programs import PATIENCE_SECONDS

if sys.platform != "linux":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def signals() -> list[SentSignal]:
    """Return the list to which `processes` adds each signal that it sends."""
    return []


@pytest.fixture
async def fork_server() -> AsyncIterator[ForkServer]:
    async with open_fork_server() as server:
        yield server


@pytest.fixture
async def processes(fork_server: ForkServer, signals: list[SentSignal]) -> ContainedProcesses:
    # A loaded machine may need longer than the default to kill 200 processes.
    return ContainedProcesses(fork_server, on_signal=signals.append, kill_seconds=PATIENCE_SECONDS)
