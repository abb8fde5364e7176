"""Timers for the expiry of sessions."""

from __future__ import annotations

from supervisor.core.ids import SessionId
from supervisor.core.tree.node import TreeNode

from .clock import Clock
from .services import StopSession
from .timers import Timer, Timers


class Expiries:
    """Timers that stop each session at its expires_at."""

    __slots__ = ("_clock", "_pending", "_stop", "_timers")

    def __init__(self, timers: Timers, clock: Clock, *, stop: StopSession) -> None:
        self._timers = timers
        self._clock = clock
        self._stop = stop
        self._pending: dict[SessionId, Timer] = {}

    def update(self, member: TreeNode) -> None:
        """Set the timer of a live session that expires; cancel that of a stopped one."""
        if member.expires_at is None:
            return
        if member.state == "over":
            self.cancel(member.id)
        elif member.id not in self._pending:
            timer = self._pending[member.id] = Timer(member.id, self._expire)
            after_seconds = max(0.0, member.expires_at - self._clock.now())
            self._timers.set(timer, after_seconds)

    def cancel(self, session_id: SessionId) -> None:
        """Drop the timer of a stopped or deleted session."""
        timer = self._pending.pop(session_id, None)
        if timer is not None:
            self._timers.drop(timer)

    def _expire(self, session_id: str) -> None:
        self._pending.pop(SessionId(session_id), None)
        self._stop(SessionId(session_id), "ttl_expired", None)
