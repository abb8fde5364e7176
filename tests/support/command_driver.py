"""A harness for the driver of a command with fake processes; see fake_processes.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from supervisor.core import agent_events
from supervisor.drivers.command.agent import command
from supervisor.drivers.process.processes import ProcessExit
from supervisor.drivers.runtime import DriverRuntime

from .driver_context import DriverHarness, FakeDriverContext

DONE: Final = ProcessExit(0)
JSON: Final[Mapping[str, Any]] = {"output": "json_lines", "text": "result"}


def command_harness(
    runtime: DriverRuntime,
    *words: str,
    context: FakeDriverContext | None = None,
    **options: Any,  # noqa: ANN401 - of `command`
) -> DriverHarness:
    return DriverHarness(command("tool", words or ("tool",), **options), runtime, context)


async def turn(harness: DriverHarness, text: str = "go") -> agent_events.TurnEnded:
    """Run one turn to its end."""
    harness.order(text)
    before = len(harness.context.all(agent_events.TurnEnded))
    return await harness.context.heard(agent_events.TurnEnded, times=before + 1)
