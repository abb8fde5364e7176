"""Expiry of queued inputs while their session has no actor, whose own timer would do it."""

from __future__ import annotations

from collections.abc import Callable

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.ids import SessionId
from supervisor.core.state import SessionState

from .services import Services
from .timers import Timer


class InputExpiry:
    """Timers for queued inputs with a time to live, of sessions without an actor.

    `tell` sends the session an event, and starts its actor for that.
    """

    def __init__(self, services: Services, tell: Callable[[SessionId, ev.Event], None]) -> None:
        self._services = services
        self._tell = tell
        self._timers: dict[SessionId, Timer] = {}

    def schedule(self, session: SessionState) -> None:
        """Set the timer for queued inputs of an inactive session, whose actor exits."""
        times = [waiting.expires_at for waiting in session.inputs if waiting.expires_at is not None]
        old = self._timers.pop(session.id, None)
        if old is not None:
            self._services.timers.drop(old)
        if times:
            timer = self._timers[session.id] = Timer(session.id, self._expire)
            after_seconds = max(0.0, min(times) - self._services.clock.steady())
            self._services.timers.set(timer, after_seconds)

    def _expire(self, session_id: str) -> None:
        self._timers.pop(SessionId(session_id), None)
        self._tell(SessionId(session_id), agent_events.InputsExpired(**self._services.stamp()))
