"""Signs of progress of one session, for the detection of silence."""

from __future__ import annotations

import math
from collections.abc import Callable

from supervisor.core.ids import SessionId
from supervisor.drivers.port import BlockedOn

from .clock import ActiveClock


class Progress:
    """The things that a session's turn waits for, and the end of its last turn."""

    __slots__ = (
        "_active_clock",
        "awaited_sessions",
        "awaiting_agents",
        "blocked_on",
        "is_asking_hooks",
        "turn_ended_at",
    )

    def __init__(self, active_clock: ActiveClock) -> None:
        self._active_clock = active_clock
        # End of the last turn, by the active clock: progress for a session that waits for it.
        self.turn_ended_at = -math.inf
        # Whether the turn waits for blocking hooks.
        self.is_asking_hooks = False
        # Sessions whose turns the agent waits for inside its own; None for none.
        self.awaited_sessions: list[SessionId] | None = None
        # Number of agents that wait for this session inside their turns.
        self.awaiting_agents = 0
        # Returns the reason why the agent's process cannot work; None without a process.
        self.blocked_on: Callable[[], BlockedOn | None] | None = None

    def mark_turn_ended(self) -> None:
        """Record that the turn has ended, or that its end has been reported."""
        self.turn_ended_at = self._active_clock.now()

    def add_awaited(self, other: SessionId) -> None:
        """Record that the agent waits for another session."""
        if self.awaited_sessions is None:
            self.awaited_sessions = []
        self.awaited_sessions.append(other)

    def remove_awaited(self, other: SessionId) -> None:
        """Record that the agent no longer waits for the other session."""
        assert self.awaited_sessions is not None
        self.awaited_sessions.remove(other)
