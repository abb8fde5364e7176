"""Cache of the epoch and last seq of each session, held by the writing connection."""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

from supervisor.core.ids import SessionId

from .bulk import Values

# Sessions cached at once: some MB, and more than are ever busy together.
_MAX_CACHED: Final = 16_384

_SELECT_EPOCH_AND_SEQ: Final = """
    SELECT
        epoch,
        (
            SELECT max(seq) FROM records
            WHERE session_id = sessions.id AND typeof(seq) = 'integer'
        )
    FROM sessions WHERE id = ?
"""


class CachedSession(NamedTuple):
    """Epoch, last seq and names of one session, as stored."""

    epoch: int
    last_seq: int
    # The values from which its label and tags were computed; None if they were not read.
    names: Values | None = None


class SessionCache:
    """Cache of the writing connection, because a lookup for each write took 10 % of a commit.

    Invariant: every entry is in the file or in the open transaction. The cache is dropped after a
    rollback, and when another connection has written.
    """

    def __init__(self) -> None:
        # None for a session that does not exist.
        self._states: dict[SessionId, CachedSession | None] = {}
        self._version: int | None = None

    def check(self, connection: sqlite3.Connection) -> None:
        """Drop the cache if another connection has written; called in each transaction."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._version or len(self._states) > _MAX_CACHED:
            self._states.clear()
            self._version = version

    def find(self, connection: sqlite3.Connection, session_id: SessionId) -> CachedSession | None:
        """Return the stored state of a session, with the writes of the open transaction."""
        try:
            return self._states[session_id]
        except KeyError:
            found = connection.execute(_SELECT_EPOCH_AND_SEQ, (session_id,)).fetchone()
            state = None if found is None else CachedSession(found[0], found[1] or 0)
            self._states[session_id] = state
            return state

    def put(self, session_id: SessionId, state: CachedSession | None) -> None:
        """Record the session's current epoch and last seq; None means that it is deleted."""
        self._states[session_id] = state

    def forget(self, *session_ids: SessionId) -> None:
        """Drop the entries of sessions that other statements change."""
        for session_id in session_ids:
            self._states.pop(session_id, None)

    def forget_all(self) -> None:
        """Drop the cache after a rollback or an unknown outcome."""
        self._states.clear()
