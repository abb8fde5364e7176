"""Full-text search in some sessions only, for the tools of agents."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest

from supervisor.core.ids import SessionId
from supervisor.store.port import Hit, Store


async def search_sessions(
    store: Store, words: str, session_ids: Sequence[SessionId], *, before: int | None, limit: int
) -> list[Hit]:
    """Return the hits in these sessions, the newest first; none of any other is read."""
    found: list[Hit] = []
    for one in session_ids:
        hits = await store.search(words, session_id=one, before=before, limit=limit)
        found = nlargest(limit, [*found, *hits], key=lambda hit: hit.position)
    return found
