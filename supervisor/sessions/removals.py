"""Sessions that are about to be replaced or deleted."""

from __future__ import annotations

from collections.abc import Iterable

from supervisor.core.errors import SessionNotActive
from supervisor.core.ids import SessionId


class Removals:
    """Set of sessions under removal, which no event may resume."""

    __slots__ = ("_sessions",)

    def __init__(self) -> None:
        self._sessions: set[SessionId] = set()

    def __contains__(self, session_id: SessionId) -> bool:
        return session_id in self._sessions

    def add(self, *session_ids: SessionId) -> None:
        """Mark the sessions, which cannot be resumed until `discard`."""
        self._sessions.update(session_ids)

    def discard(self, session_ids: Iterable[SessionId]) -> None:
        """Unmark the sessions."""
        self._sessions.difference_update(session_ids)

    def problem(self, session_id: SessionId) -> SessionNotActive | None:
        """Return the error for a resume of a marked session; None if it is not marked."""
        return _being_removed(session_id) if session_id in self._sessions else None

    def refuse(self, session_id: SessionId) -> None:
        """Raise SessionNotActive if the session is marked."""
        if session_id in self._sessions:
            raise _being_removed(session_id)


def _being_removed(session_id: SessionId) -> SessionNotActive:
    return SessionNotActive(
        f"session {session_id} is being replaced or deleted",
        hint="send the input to the new session of the key, if there is one",
    )
