"""A command that performs the actions of the contract, without a process.

Use `command("obedient", [PLAY, "{prompt}"])` with the action itself as the prompt.
"""

from __future__ import annotations

from typing import Final

from supervisor.drivers.process.processes import Launch
from supervisor.drivers.scripted import ProcessAction

from .agent_actions import AgentAction

PLAY: Final = "play"
ACTIONS: Final[tuple[AgentAction, ...]] = ("greet", "wait", "fail", "flood")


class FakeCommand:
    """One run: performs its action when it is started, and ignores its input."""

    overlaps = 0

    def __init__(self, launch: Launch) -> None:
        self._now = self._next_at = 0.0
        action = launch.command[1]
        self._output = {"greet": [b"hello"], "flood": [b"x" * 100] * 50}.get(action, [])
        self._actions = [] if action == "wait" else [ProcessAction("exit", 0)]
        if action == "fail":
            self._actions = [ProcessAction("log", text="no luck\n"), ProcessAction("exit", 1)]

    def tick(self, now: float) -> None:
        self._now = now

    def receive_line(self, line: bytes) -> None:
        """Ignore the line."""

    def receive_eof(self) -> None:
        """Ignore the end of the input."""

    def action_done(self, action: ProcessAction, output: str = "") -> None:
        """Do nothing: no action is waited for."""

    def take_output(self) -> list[bytes]:
        """Return one chunk per second, so that each is read separately."""
        if not self._output or self._now < self._next_at:
            return []
        self._next_at = self._now + 1.0
        output, self._output = self._output[:1], self._output[1:]
        return output

    def take_actions(self) -> list[ProcessAction]:
        if self._output:
            return []
        actions, self._actions = self._actions, []
        return actions

    def next_deadline(self) -> float | None:
        return self._next_at if self._output else None
