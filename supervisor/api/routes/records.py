"""Every record of a session, one after the other, whoever is too slow."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from supervisor.core.records import Record
from supervisor.sessions.shell.feed import Gap
from supervisor.sessions.surface.handle import Session


async def records_after(session: Session, after: int) -> AsyncGenerator[Record]:
    """The records after a number, without gaps; then those that come, until there can be none.

    To be closed by whoever is done with it.
    """
    while True:
        async with session.watch(after=after) as feed:
            async for item in feed:
                if isinstance(item, Gap):
                    break  # what was missed is in the store: begin again after what was seen
                if isinstance(item, Record):
                    after = item.seq
                    yield item
            else:
                return
