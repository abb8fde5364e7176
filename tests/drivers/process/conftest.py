"""What the tests of real processes share: they run in real time, and wait for facts."""

from __future__ import annotations

import sys

import pytest

from supervisor.drivers.process.contained import ContainedProcesses, Signalled

if sys.platform != "linux":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def signals() -> list[Signalled]:
    """What was sent to whom, as far as `processes` did it."""
    return []


@pytest.fixture
async def processes(signals: list[Signalled]) -> ContainedProcesses:
    return ContainedProcesses(on_signal=signals.append)
