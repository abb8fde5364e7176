"""The feed of rows: a snapshot, then what changed; records of the named sessions, each once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import Delta, Limits, Record, Session, StoreDegraded, Supervisor
from supervisor.handles import session_feed
from supervisor.handles.live_rows import COALESCE_SECONDS, LINGER_SECONDS, SWEEP_SECONDS
from supervisor.handles.named_records import MAX_UNREAD_DELTAS
from supervisor.handles.session_rows import (
    RequestClosed,
    RequestOpened,
    SessionGone,
    SessionRow,
    Snapshot,
    StoreChanged,
    TightestBudget,
    WatchItem,
)
from tests.support.fake_agents import AgentRun, FakeAgent

# Longer than any coalescing: everything that changed has been sent.
QUIET_SECONDS = 3.0


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


async def until_record(feed: session_feed.SessionFeed) -> AsyncIterator[Record]:
    """Yield the next record of the feed."""
    async for item in feed:
        if isinstance(item, Record):
            yield item
            return


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


async def test_a_change_of_progress_alone_is_sent_every_two_seconds(
    run: AgentRun, seen: SeenItems
) -> None:
    await quiet()
    before = len(seen.of(SessionRow))
    for _ in range(100):
        await run.do(run.turn.think("hm"))
        await trio.sleep(0.1)

    assert 4 <= len(seen.of(SessionRow)) - before <= 6


async def test_a_stopped_session_is_reported_and_a_deleted_one_is_gone(
    sup: Supervisor, session: Session, seen: SeenItems
) -> None:
    await session.stop()
    await quiet()
    stopped = seen.rows[session.id]
    await sup.delete(session.id)
    await quiet()

    assert (stopped.phase, stopped.stop_reason) == ("stopped", "user_cancelled")
    assert seen.of(SessionGone) == [SessionGone(session.id)]


async def test_a_snapshot_has_failed_sessions_and_no_stopped_ones(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    await sup.delete(session.id)
    stopped, archived = await sup.create("fake"), await sup.create("fake")
    failed = await sup.create("fake", permissions=None, limits=Limits(turns=1))
    await stopped.stop()
    await archived.stop()
    await archived.archive()
    await failed.send("one")
    run.finish()
    async with sup.watch_sessions() as feed:
        snapshot = await anext(feed)

    assert isinstance(snapshot, Snapshot)
    assert [row.id for row in snapshot.rows] == [failed.id]


async def test_an_open_request_is_announced_and_its_end_too(
    sup: Supervisor, run: AgentRun, seen: SeenItems, session: Session
) -> None:
    run.begin(run.turn.ask("May I?", tool="shell"))
    await quiet()
    (request,) = await sup.permissions()
    waiting = seen.rows[session.id]
    await sup.answer(request.id, "reject_once")
    await quiet()

    assert seen.of(RequestOpened, RequestClosed) == [
        RequestOpened(request),
        RequestClosed(request.id, session.id, "reject_once"),
    ]
    assert (waiting.badge, waiting.waiting_for) == ("waiting-for-you", "person")
    assert waiting.waiting_since == request.asked_at


async def test_a_budget_of_an_ancestor_is_shown_in_every_row_below_it(
    sup: Supervisor, fake_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    root = await sup.create("fake", limits=Limits(tokens=1000, turns=100))
    one, two = [await root.spawn("fake", "work") for _ in range(2)]
    seen = SeenItems()
    nursery.start_soon(seen.follow, sup)
    run = await fake_agent.next_run()
    run.turn.usage(input_tokens=400)
    await quiet()

    assert {seen.rows[known].budget for known in (root.id, one.id, two.id)} == {
        TightestBudget(root.id, "tokens", 400, 1000)
    }


async def test_a_health_change_of_the_store_is_announced(sup: Supervisor, seen: SeenItems) -> None:
    sup._services.health.set_read_only(StoreDegraded("the disk is full", hint="make room"))
    await quiet()

    (change,) = seen.of(StoreChanged)
    assert isinstance(change, StoreChanged)
    assert (change.store.degraded, change.store.hint) == (True, "make room")


# Named sessions ---------------------------------------------------------------------------


async def test_records_of_named_sessions_come_once_over_any_number_of_readers(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    named = [await sup.create("fake") for _ in range(3)]
    other = await sup.create("fake")
    found: list[Record] = []
    position = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_talk, [*named, other], fake_agent)
        while len(found) < 3 * 30:
            async with sup.watch_sessions([one.id for one in named], position) as feed:
                async for item in feed:
                    if isinstance(item, Record):
                        found.append(item)
                        position = feed.position
                        if len(found) % 7 == 0:
                            break
        nursery.cancel_scope.cancel()

    for session in named:
        assert [one.seq for one in found if one.session_id == session.id] == list(
            range(1, sum(one.session_id == session.id for one in found) + 1)
        )
    assert {one.session_id for one in found} == {one.id for one in named}


async def _talk(sessions: list[Session], agent: FakeAgent) -> None:
    while True:
        for session in sessions:
            await session.send("go on")
            run = await agent.next_run()
            await run.do(run.turn.say("text"))
            run.finish()
            await trio.sleep(0.1)


async def test_a_reader_that_comes_late_gets_all_records_and_the_latest_row(
    sup: Supervisor, run: AgentRun, session: Session
) -> None:
    async with sup.watch_sessions([session.id]) as feed:
        await anext(feed)
        for number in range(MAX_UNREAD_DELTAS + 500):
            await run.do(run.turn.say(f"{number}\n"))
            await trio.sleep(0.1)
        await quiet()
        items = []
        with trio.move_on_after(1.0):
            async for item in feed:
                items.append(item)  # noqa: PERF401 - it is cut short

    numbers = [item.seq for item in items if isinstance(item, Record)]
    assert numbers == list(range(1, (await session.info()).last_seq + 1))
    assert len([item for item in items if isinstance(item, SessionRow)]) == 1
    assert len([item for item in items if isinstance(item, Delta)]) <= MAX_UNREAD_DELTAS


async def test_a_reader_far_behind_begins_again_with_a_snapshot(
    sup: Supervisor, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_feed, "MAX_UNREAD_ROWS", 3)
    async with sup.watch_sessions() as feed:
        await anext(feed)
        created = [await sup.create("fake") for _ in range(5)]
        await quiet()
        item = await anext(feed)

    assert isinstance(item, Snapshot)
    assert {row.id for row in item.rows} == {session.id, *(one.id for one in created)}


async def test_a_position_beyond_the_last_is_answered_as_a_reset(
    sup: Supervisor, session: Session
) -> None:
    async with sup.watch_sessions([session.id], 1_000_000) as feed:
        snapshot = await anext(feed)
        await session.set(title="new")
        news = [item async for item in until_record(feed)]

    assert isinstance(snapshot, Snapshot)
    assert snapshot.is_reset
    assert [item.seq for item in news] == [(await session.info()).last_seq]


async def test_a_feed_ends_with_the_supervisor(fake_agent: FakeAgent) -> None:
    seen = SeenItems()
    async with (
        trio.open_nursery() as nursery,
        supervisor.open(":memory:", agents=[fake_agent.agent]) as sup,
    ):
        nursery.start_soon(seen.follow, sup)
        await settle()

    assert isinstance(seen.items[0], Snapshot)


async def test_rows_are_kept_only_while_somebody_watches(sup: Supervisor, session: Session) -> None:
    rows = sup._parts.rows
    async with sup.watch_sessions() as feed:
        await anext(feed)
        kept = len(rows._entries)
    await trio.sleep(LINGER_SECONDS + 2 * SWEEP_SECONDS)

    assert (kept, rows._entries, sup._services.instruments.change_callbacks) == (1, {}, [])
