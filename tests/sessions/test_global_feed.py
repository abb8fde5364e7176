"""The feed of all sessions, and two readers of one feed."""

from __future__ import annotations

import trio

import supervisor
from actors.testing import settle
from supervisor import (
    GlobalFeed,
    Record,
    Session,
    Supervisor,
    Watcher,
)
from tests.support.fake_agents import (
    AgentRun,
    FakeAgent,
    last_seq,
    records,
    write_records,
)

# All sessions ---------------------------------------------------------------------------


async def read_all(sup: Supervisor, *, after: int = 0) -> list[tuple[int, Record]]:
    """All that there is to be read, with the positions."""
    found: list[tuple[int, Record]] = []
    async with sup.watch(after=after) as feed:
        with trio.move_on_after(1):
            async for record in feed:
                found.append((feed.position, record))  # noqa: PERF401 - it is cut short
    return found


async def test_a_global_feed_has_the_records_of_all_sessions(sup: Supervisor) -> None:
    sessions = [await sup.create("echo") for _ in range(3)]
    for session in sessions:
        await session.prompt("hello")

    found = [record for _, record in await read_all(sup)]

    for session in sessions:
        assert [r for r in found if r.session_id == session.id] == await records(session)
    assert len(found) == sum([await last_seq(session) for session in sessions])


async def test_positions_rise_over_all_sessions(sup: Supervisor) -> None:
    one, two = await sup.create("echo"), await sup.create("echo")
    await one.prompt("hello")
    await two.prompt("hello")
    await one.prompt("again")

    positions = [position for position, _ in await read_all(sup)]

    assert positions == sorted(set(positions))
    assert positions[0] > 0


async def test_a_global_feed_continues_from_any_position(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    everything = await read_all(sup)
    position, _ = everything[4]

    assert await read_all(sup, after=position) == everything[5:]


async def test_a_global_feed_shows_new_records(
    sup: Supervisor, session: Session, fake_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    seen: list[Record] = []

    async def watch() -> None:
        async with sup.watch() as feed:
            async for record in feed:
                seen.append(record)  # noqa: PERF401 - the test looks at it meanwhile

    nursery.start_soon(watch)
    await settle()
    assert seen == await records(session)

    other = await sup.create("fake")
    await other.send("hello")
    await fake_agent.next_run()

    assert seen == [*await records(session), *await records(other)]


async def test_a_global_feed_that_is_never_read_delays_no_session(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    async with sup.watch() as feed:
        await write_records(run, 1500)
        run.finish("done")
        await settle()

        seen = [(await feed.__anext__()).seq for _ in range(await last_seq(session))]

    assert seen == list(range(1, len(seen) + 1))


async def test_a_global_feed_ends_when_the_supervisor_leaves() -> None:
    kinds: list[str] = []

    async def watch(sup: Supervisor) -> None:
        async with sup.watch() as feed:
            kinds.extend([record.kind async for record in feed])

    async with trio.open_nursery() as nursery, supervisor.open() as sup:
        nursery.start_soon(watch, sup)
        await (await sup.create("echo")).prompt("hello")

    assert kinds[-1] == "session_suspended"


async def test_a_global_feed_has_no_record_of_a_deleted_session(sup: Supervisor) -> None:
    gone, left = await sup.create("echo"), await sup.create("echo")
    await gone.prompt("hello")
    await left.prompt("hello")

    await sup.delete(gone.id)

    assert {record.session_id for _, record in await read_all(sup)} == {left.id}


# Two readers of one feed ----------------------------------------------------------------


async def read_into(feed: Watcher, seen: list[object]) -> None:
    async for item in feed:
        seen.append(item)  # noqa: PERF401 - others look at it meanwhile


async def test_two_readers_of_a_feed_lose_no_stored_record(session: Session) -> None:
    for number in range(5):
        await session.append("user", f"message {number}")
    seen: list[object] = []

    async with session.watch() as feed, trio.open_nursery() as readers:
        readers.start_soon(read_into, feed, seen)
        readers.start_soon(read_into, feed, seen)
        await settle()
        readers.cancel_scope.cancel()

    assert seen == await records(session)


async def test_two_readers_of_a_feed_lose_no_new_record(session: Session) -> None:
    seen: list[object] = []
    before = await last_seq(session)

    async with session.watch(after=before) as feed, trio.open_nursery() as readers:
        readers.start_soon(read_into, feed, seen)
        readers.start_soon(read_into, feed, seen)
        await settle()
        for number in range(5):
            await session.append("user", f"message {number}")
        await settle()
        readers.cancel_scope.cancel()

    assert seen == (await records(session))[before:]


async def test_two_readers_of_a_feed_both_see_its_end(sup: Supervisor, session: Session) -> None:
    seen: list[object] = []

    async with session.watch() as feed, trio.open_nursery() as readers:
        readers.start_soon(read_into, feed, seen)
        readers.start_soon(read_into, feed, seen)
        await settle()
        await sup.delete(session.id)
        await settle()
        left = len(readers.child_tasks)
        readers.cancel_scope.cancel()

    assert left == 0


async def read_all_into(feed: GlobalFeed, seen: list[object]) -> None:
    async for item in feed:
        seen.append(item)  # noqa: PERF401 - others look at it meanwhile


async def test_two_readers_of_a_global_feed_lose_nothing(sup: Supervisor, session: Session) -> None:
    seen: list[object] = []

    async with sup.watch() as feed, trio.open_nursery() as readers:
        readers.start_soon(read_all_into, feed, seen)
        readers.start_soon(read_all_into, feed, seen)
        await settle()
        for number in range(5):
            await session.append("user", f"message {number}")
            await settle()
        readers.cancel_scope.cancel()

    assert seen == await records(session)
