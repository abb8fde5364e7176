"""Index of session keys: the holder of each key."""

from __future__ import annotations

from collections.abc import Iterable

from supervisor.core.errors import KeyTaken
from supervisor.core.ids import SessionId, SessionKey
from supervisor.core.state import SessionState
from supervisor.store.port import SuspendedRow


class KeyIndex:
    """Maps the text form of each key to the session that holds it."""

    __slots__ = ("_holders",)

    def __init__(self) -> None:
        # Invariant: a key is listed from the reservation for its session until that session is
        # archived or deleted, or its creation has failed; so a key has at most one holder.
        # The check and the change are one synchronous step.
        self._holders: dict[str, SessionId] = {}

    def holder(self, key: SessionKey | str) -> SessionId | None:
        """Return the session that holds the key, or None."""
        return self._holders.get(str(key))

    def reserve(self, key: SessionKey, session_id: SessionId) -> None:
        """Reserve the key for the session; raise KeyTaken if another session holds it."""
        if self._holders.setdefault(str(key), session_id) != session_id:
            raise self._taken(key)

    def assign(self, key: SessionKey, session_id: SessionId) -> None:
        """Assign the key to the session, which replaces the previous holder."""
        self._holders[str(key)] = session_id

    def release(self, key: SessionKey | str | None, session_id: SessionId) -> None:
        """Remove the key from the index if the session holds it."""
        if key is not None and self._holders.get(str(key)) == session_id:
            del self._holders[str(key)]

    def refuse_if_taken(self, row: SessionState) -> None:
        """Raise KeyTaken if another session holds the session's key."""
        if row.key is not None and self._holders.get(str(row.key), row.id) != row.id:
            raise self._taken(row.key)

    def restore(self, rows: Iterable[SessionState], suspended: Iterable[SuspendedRow]) -> None:
        """Add the keys of stored sessions, after a restart of the supervisor."""
        for row in rows:
            if row.key is not None and not row.archived:
                self._holders[str(row.key)] = row.id
        for one in suspended:
            if one.key is not None:
                self._holders[one.key] = one.id

    def _taken(self, key: SessionKey) -> KeyTaken:
        return KeyTaken(
            f"key {key} is held by session {self._holders[str(key)]}",
            hint="use that session, or replace it with new()",
        )
