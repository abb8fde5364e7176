"""A command that does the deeds of the contract, without a process; see `in_memory.Agent`.

command("obedient", [PLAY, "{prompt}"]) with the deed itself as the text
"""

from __future__ import annotations

from typing import Final

from supervisor.drivers.process.port import Launch
from supervisor.drivers.scripted import Want
from tests.drivers.deeds import Deed

PLAY: Final = "play"
DEEDS: Final[tuple[Deed, ...]] = ("greet", "wait", "fail", "flood")


class PlayedCommand:
    """One turn of it: it does its deed when it is started, and hears nothing."""

    overlaps = 0

    def __init__(self, launch: Launch) -> None:
        self._now = self._next_at = 0.0
        deed = launch.command[1]
        self._output = {"greet": [b"hello"], "flood": [b"x" * 100] * 50}.get(deed, [])
        self._wants = [] if deed == "wait" else [Want("exit", 0)]
        if deed == "fail":
            self._wants = [Want("log", text="no luck\n"), Want("exit", 1)]

    def tick(self, now: float) -> None:
        self._now = now

    def hear(self, line: bytes) -> None:
        """What it is told means nothing to it."""

    def hear_end(self) -> None:
        """It has its prompt."""

    def done(self, want: Want, said: str = "") -> None:
        """It goes on anyway."""

    def take_output(self) -> list[bytes]:
        """One piece a second, so that each is read as one."""
        if not self._output or self._now < self._next_at:
            return []
        self._next_at = self._now + 1.0
        output, self._output = self._output[:1], self._output[1:]
        return output

    def take_wants(self) -> list[Want]:
        if self._output:
            return []
        wants, self._wants = self._wants, []
        return wants

    def next_deadline(self) -> float | None:
        return self._next_at if self._output else None
