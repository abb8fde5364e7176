"""Reads of a `Store` for feeds over some sessions: by position, and the end of what agents said."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

from supervisor.core.ids import SessionId
from supervisor.core.records import Record

# The end of a session's text is in its last records: how many of them are searched for it, and how
# many with text are joined.
SEARCHED_RECORDS: Final = 200
JOINED_RECORDS: Final = 32


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
        """Return the end of what each agent said; nothing for a session without text."""


def joined_text(newest_first: Iterable[Record]) -> str:
    """Return the end of what an agent said, from its last `agent_text` records.

    That is the last message that is not blank, and what follows it.
    """
    pieces: list[str] = []
    for record in itertools.islice(newest_first, JOINED_RECORDS):
        pieces.append(str(record.body.get("text") or ""))
        if not record.body.get("continues"):
            if any(not piece.isspace() and piece for piece in pieces):
                break
            pieces.append("\n")
    return "".join(reversed(pieces))
