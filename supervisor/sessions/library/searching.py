"""What was said, by the words in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from supervisor.core.errors import NotStorable
from supervisor.core.ids import SessionId, TurnId
from supervisor.store.port import Stored

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House


@attrs.frozen(kw_only=True)
class SearchHit:
    """Something that was said, and where; the words are marked with `[` and `]` in the snippet."""

    session_id: SessionId
    seq: int
    at: float
    turn_id: TurnId | None
    kind: str
    snippet: str
    title: str | None
    agent: str


async def search(
    house: House, words: str, *, session_id: SessionId | None, before: int | None, limit: int
) -> tuple[tuple[SearchHit, ...], int | None]:
    """Hits, the last said first, and before which position the next page begins."""
    found = await house.store.search(words, session_id=session_id, before=before, limit=limit + 1)
    hits: list[SearchHit] = []
    rows = {one: await _read(house, one) for one in {hit.session_id for hit in found[:limit]}}
    for hit in found[:limit]:
        stored = rows[hit.session_id]
        if stored is not None:  # else it was deleted since, or is damaged
            hits.append(
                SearchHit(
                    session_id=hit.session_id,
                    seq=hit.seq,
                    at=hit.at,
                    turn_id=hit.turn_id,
                    kind=hit.kind,
                    snippet=hit.snippet,
                    title=stored.row.title,
                    agent=stored.row.agent_name,
                )
            )
    return tuple(hits), found[limit - 1].position if len(found) > limit else None


async def _read(house: House, session_id: SessionId) -> Stored | None:
    try:
        return await house.store.read(session_id)
    except NotStorable:
        return None
