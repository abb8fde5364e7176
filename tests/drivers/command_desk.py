"""A desk for a command whose processes are played; see process_fake.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from supervisor.core import events as ev
from supervisor.drivers.command.agent import command
from supervisor.drivers.port import Workshop
from supervisor.drivers.process.port import Exit
from tests.drivers.office import Desk, StandInOffice

DONE: Final = Exit(0)
JSON: Final[Mapping[str, Any]] = {"output": "json_lines", "text": "result"}


def at_desk(
    workshop: Workshop,
    *words: str,
    office: StandInOffice | None = None,
    **options: Any,  # noqa: ANN401 - of `command`
) -> Desk:
    return Desk(command("tool", words or ("tool",), **options), workshop, office)


async def turn(desk: Desk, text: str = "go") -> ev.TurnEnded:
    """Run one to its end."""
    desk.order(text)
    before = len(desk.office.all(ev.TurnEnded))
    return await desk.office.heard(ev.TurnEnded, times=before + 1)
