"""Cache of the number, epoch and last seq of each session, held by the writing connection."""

from __future__ import annotations

import sqlite3
from typing import Final

import attrs

from supervisor.core.ids import SessionId

from .bulk import Values

# Sessions cached at once: some MB, and more than are ever busy together.
_MAX_CACHED: Final = 16_384

_SELECT_STATE: Final = """
    SELECT
        number,
        epoch,
        (
            SELECT max(seq) FROM records
            WHERE session_id = sessions.id AND typeof(seq) = 'integer'
        ),
        name
    FROM sessions WHERE id = ?
"""


@attrs.define(eq=False)
class CachedSession:
    """Creation number, epoch, last seq, held name and names of one session, as stored."""

    number: int
    epoch: int
    last_seq: int
    held_name: str | None
    # The values from which its label and tags were computed; None if they were not read.
    names: Values | None = None


class SessionCache(dict[SessionId, CachedSession | None]):
    """Cache of the writing connection, because a lookup for each write took 10 % of a commit.

    A session that is not cached is looked up in the file; None means that it does not exist.

    Invariant: every entry is in the file or in the open transaction. The cache is dropped after a
    rollback, and when another connection has written.
    """

    def __init__(self, connection: sqlite3.Connection | None = None) -> None:
        super().__init__()
        self._connection = connection
        self._version: int | None = None

    def check(self, connection: sqlite3.Connection) -> None:
        """Drop the cache if another connection has written; called in each transaction."""
        self._connection = connection
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._version or len(self) > _MAX_CACHED:
            self.clear()
            self._version = version

    def __missing__(self, session_id: SessionId) -> CachedSession | None:
        """Read the stored state of a session, with the writes of the open transaction."""
        assert self._connection is not None
        found = self._connection.execute(_SELECT_STATE, (session_id,)).fetchone()
        state = None
        if found is not None:
            number, epoch, last_seq, name = found
            state = CachedSession(number, epoch, last_seq or 0, name)
        self[session_id] = state
        return state

    def forget(self, *session_ids: SessionId) -> None:
        """Drop the entries of sessions that other statements change."""
        for session_id in session_ids:
            self.pop(session_id, None)
