"""Reads of a `Store` for feeds over some sessions: by position, and the end of what agents said."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

from supervisor.core.ids import SessionId
from supervisor.core.records import Record

# The end of a session's text is in its last records: how many of them are searched for it, and how
# many that continue one message are joined.
SEARCHED_RECORDS: Final = 200
JOINED_RECORDS: Final = 8


class FeedReads(Protocol):
    """The reads of a `Store` that name several sessions."""

    async def records_by_position(
        self, after: Mapping[SessionId, int], *, limit: int
    ) -> list[tuple[int, Record]]:
        """Return the next records of some sessions in commit order, each with its position.

        `after` has the number of the last known record of each session.
        """

    async def numbers_at(
        self, position: int, session_ids: Collection[SessionId]
    ) -> dict[SessionId, int]:
        """Return the number of the last record of each session at or before a position, or 0."""

    async def latest_texts(self, session_ids: Collection[SessionId]) -> dict[SessionId, str]:
        """Return the end of the last message of each agent; without it where there is none."""


def joined_text(newest_first: Iterable[Record]) -> str:
    """Return the end of a message, from the last `agent_text` records of a session."""
    pieces: list[str] = []
    for record in newest_first:
        pieces.append(str(record.body.get("text") or ""))
        if not record.body.get("continues") or len(pieces) == JOINED_RECORDS:
            break
    return "".join(reversed(pieces))
