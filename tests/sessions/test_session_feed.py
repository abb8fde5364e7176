"""The feed of rows: a snapshot, then what changed; records of the named sessions, each once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pytest
import trio

from actors.testing import settle
from supervisor import Session, Supervisor
from supervisor.handles.live_rows import COALESCE_SECONDS
from supervisor.handles.session_rows import (
    SessionGone,
    SessionRow,
    Snapshot,
    WatchItem,
)
from tests.support.fake_agents import AgentRun

# Longer than any coalescing: everything that changed has been sent.
QUIET_SECONDS = 3.0

WatchRows: TypeAlias = Callable[..., "trio.MemoryReceiveChannel[WatchItem]"]


class SeenItems:
    """What a feed has returned so far, with the position after each item."""

    def __init__(self) -> None:
        self.items: list[WatchItem] = []
        self.positions: list[int] = []

    @property
    def rows(self) -> dict[str, SessionRow]:
        """The rows as a reader has them now."""
        known: dict[str, SessionRow] = {}
        for item in self.items:
            if isinstance(item, Snapshot):
                known = {row.id: row for row in item.rows}
            elif isinstance(item, SessionRow):
                known[item.id] = item
            elif isinstance(item, SessionGone):
                known.pop(item.id, None)
        return known

    def of(self, *kinds: type) -> list[WatchItem]:
        """Return the items of these classes."""
        return [item for item in self.items if isinstance(item, kinds)]

    async def follow(self, sup: Supervisor, sessions: Sequence[str] = (), after: int = 0) -> None:
        """Read a feed until cancelled."""
        async with sup.watch_sessions(sessions, after) as feed:
            async for item in feed:
                self.items.append(item)
                self.positions.append(feed.position)


@pytest.fixture
async def seen(sup: Supervisor, session: Session, nursery: trio.Nursery) -> SeenItems:
    """What a feed has returned that was opened when `session` was idle."""
    found = SeenItems()
    nursery.start_soon(found.follow, sup)
    await settle()
    return found


async def quiet() -> None:
    """Wait until no row is coalesced any more."""
    await trio.sleep(QUIET_SECONDS)
    await settle()


async def test_a_feed_begins_with_the_rows_of_all_live_sessions(
    sup: Supervisor, session: Session, seen: SeenItems
) -> None:
    assert isinstance(seen.items[0], Snapshot)
    assert [row.id for row in seen.items[0].rows] == [session.id]
    assert seen.items[0].position == (await sup.stats()).last_position


async def test_a_turn_changes_the_row_and_names_its_last_line(
    run: AgentRun, session: Session, seen: SeenItems
) -> None:
    await run.do(run.turn.say("first\nsecond li"))
    await quiet()
    running = seen.rows[session.id]
    await run.do(run.turn.say("ne\n"))
    run.finish()
    await quiet()

    assert (running.badge, running.last_text) == ("running", "second li")
    assert seen.rows[session.id].last_text == "second line"
    assert seen.rows[session.id].badge == "idle"
    assert seen.rows[session.id].last_seq == (await session.info()).last_seq


async def test_a_stream_of_text_is_coalesced_to_four_rows_a_second(
    run: AgentRun, seen: SeenItems
) -> None:
    await quiet()
    before = len(seen.of(SessionRow))
    for number in range(100):
        await run.do(run.turn.say(f"{number}\n"))
        await trio.sleep(0.05)

    rows = len(seen.of(SessionRow)) - before
    assert 15 <= rows <= 5.0 / COALESCE_SECONDS + 1
