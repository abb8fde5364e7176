"""The feed: records after their commit, for watchers of every speed and in every phase."""

from __future__ import annotations

import pytest
import trio

import supervisor
from actors.testing import explore, settle
from supervisor import (
    ConfigError,
    Gap,
    Record,
    Reset,
    Session,
    SessionNotFound,
    Supervisor,
    Watcher,
)
from tests.support.fake_agents import (
    AgentRun,
    FakeAgent,
    Follow,
    Item,
    deltas,
    last_seq,
    numbers,
    records,
    write_records,
)


async def read(feed: Watcher, count: int) -> list[Item]:
    return [await feed.__anext__() for _ in range(count)]


# Records --------------------------------------------------------------------------------


async def test_a_watcher_sees_each_record_once_and_in_order(
    session: Session, fake_agent: FakeAgent, follow: Follow
) -> None:
    seen = await follow(session)
    for text in "abc":
        await session.send(text)
    await fake_agent.finish_all()

    found = [item for item in seen if isinstance(item, Record)]
    assert found == await records(session)
    assert numbers(seen) == list(range(1, len(found) + 1))


async def watch_and_look_up() -> None:
    """See every record, and look at once whether it can be read, while a lot is written."""
    checked: list[int] = []

    async def check(session: Session) -> None:
        async with session.watch() as feed:
            async for item in feed:
                if isinstance(item, Record):
                    assert item in await records(session)
                    checked.append(item.seq)

    async with supervisor.open() as sup, trio.open_nursery() as nursery:
        session = await sup.create("scripted")
        nursery.start_soon(check, session)
        nursery.start_soon(session.prompt, "flood 150\ntool bash 0\nflood 100")
        for _ in range(3):
            await session.send("say more")
        await settle()
        await session.prompt("say last")
        await settle()
        assert checked == list(range(1, await last_seq(session) + 1))
        nursery.cancel_scope.cancel()


def test_a_record_is_published_only_after_its_commit() -> None:
    assert explore(watch_and_look_up, seeds=range(12)) == []


async def test_a_record_is_the_same_seen_live_and_read_back(
    session: Session, fake_agent: FakeAgent, follow: Follow
) -> None:
    seen = await follow(session)
    await session.stop()
    await session.send("again", attachments=[{"path": "a"}])
    run = await fake_agent.next_run()
    call = await run.open_call("bash", {"args": ("a", 1)})
    call.call.update(("half", {"done": True}))
    await call.close()
    run.finish()
    await settle()

    assert [item for item in seen if isinstance(item, Record)] == await records(session)


@pytest.mark.parametrize("after", [0, 1, 5, 8])
async def test_a_watcher_continues_from_any_record_number(
    session: Session, run: AgentRun, follow: Follow, after: int
) -> None:
    seen = await follow(session, after=after)
    await session.send("second")
    await settle()

    assert numbers(seen) == list(range(after + 1, await last_seq(session) + 1))
    assert not run.over.is_set()


async def test_a_reconnected_watcher_misses_no_record(
    session: Session, fake_agent: FakeAgent, follow: Follow
) -> None:
    async with session.watch() as feed:
        before = await read(feed, 3)
    await session.send("while it was away")
    await fake_agent.finish_all()

    after = await follow(session, after=numbers(before)[-1])

    assert [*before, *after] == await records(session)


async def test_a_cancelled_read_of_a_feed_loses_nothing(
    session: Session, fake_agent: FakeAgent
) -> None:
    async with session.watch(after=await last_seq(session)) as feed:
        with trio.move_on_after(1) as patience:
            await feed.__anext__()
        assert patience.cancelled_caught

        await session.send("hello")
        await fake_agent.next_run()
        first = await feed.__anext__()

    assert isinstance(first, Record)
    assert first.kind == "input_accepted"


async def test_several_watchers_each_see_everything(
    session: Session, fake_agent: FakeAgent, follow: Follow
) -> None:
    seen = [await follow(session) for _ in range(3)]
    await session.send("hello")
    run = await fake_agent.next_run()
    await run.do(run.turn.say("one"))
    run.finish()
    await settle()

    assert seen[0] == seen[1] == seen[2]
    assert len(deltas(seen[0])) == 1


async def test_a_watcher_sees_its_own_session_only(
    sup: Supervisor, session: Session, fake_agent: FakeAgent, follow: Follow
) -> None:
    seen = await follow(session)
    other = await sup.create("fake")
    await other.send("other")
    run = await fake_agent.next_run()
    await run.do(run.turn.say("other"))
    await settle()

    assert {item.session_id for item in seen if not isinstance(item, Gap | Reset)} == {session.id}


# Slow watchers --------------------------------------------------------------------------


async def test_a_watcher_may_leave_a_thousand_unread(session: Session, run: AgentRun) -> None:
    before = await last_seq(session)
    async with session.watch(after=before) as feed:
        await write_records(run, 1000)

        seen = await read(feed, 1000)

    assert numbers(seen) == list(range(before + 1, before + 1001))


async def test_a_watcher_with_too_many_unread_items_gets_a_gap(
    session: Session, run: AgentRun
) -> None:
    before = await last_seq(session)
    async with session.watch(after=before) as feed:
        await write_records(run, 1005)

        gap, *seen = await read(feed, 1001)

    assert gap == Gap(before + 1, before + 5)
    assert numbers(seen) == list(range(before + 6, before + 1006))


async def test_a_watcher_that_caught_up_sees_everything_again(
    session: Session, run: AgentRun
) -> None:
    before = await last_seq(session)
    async with session.watch(after=before) as feed:
        await write_records(run, 1005)
        await read(feed, 1001)

        await write_records(run, 3)
        seen = await read(feed, 3)

    assert numbers(seen) == [before + 1006, before + 1007, before + 1008]


async def test_records_of_a_gap_can_be_read_again(session: Session, run: AgentRun) -> None:
    async with session.watch(after=await last_seq(session)) as feed:
        await write_records(run, 1005)
        gap = await feed.__anext__()
    assert isinstance(gap, Gap)

    async with session.watch(after=gap.first - 1) as feed:
        seen = await read(feed, 5)

    assert numbers(seen) == list(range(gap.first, gap.last + 1))


async def test_any_number_of_old_records_is_not_a_gap(session: Session, run: AgentRun) -> None:
    await write_records(run, 2500)
    last = await last_seq(session)

    async with session.watch() as feed:
        seen = await read(feed, last)

    assert numbers(seen) == list(range(1, last + 1))


async def test_a_gap_in_the_deltas_is_not_a_gap_in_the_records(
    session: Session, run: AgentRun
) -> None:
    before = await last_seq(session)
    async with session.watch(after=before) as feed:
        for _ in range(1500):
            await run.turn.say("x")
        await trio.sleep(1)

        seen = await read(feed, 1000)

    (record,) = [item for item in seen if isinstance(item, Record)]
    assert record.seq == before + 1
    assert record.body["text"] == "x" * 1500
    assert not any(isinstance(item, Gap) for item in seen)


async def test_a_watcher_that_never_reads_delays_no_session(
    session: Session, run: AgentRun, follow: Follow
) -> None:
    seen = await follow(session)
    async with session.watch():
        await write_records(run, 1500)
        run.finish("done")
        await settle()

    assert [r.body["outcome"] for r in await records(session, "turn_ended")] == ["completed"]
    assert numbers(seen) == list(range(1, await last_seq(session) + 1))


# Every phase ----------------------------------------------------------------------------


async def test_a_watcher_stays_over_sleep_and_waking(
    sup: Supervisor, fake_agent: FakeAgent, follow: Follow
) -> None:
    session = await sup.create("fake", suspend_after_seconds=60)
    seen = await follow(session)
    await trio.sleep(61)
    assert (await session.info()).phase == "suspended"

    await session.send("wake up")
    await fake_agent.finish_all()

    kinds = [item.kind for item in seen if isinstance(item, Record)]
    assert kinds == [record.kind for record in await records(session)]
    assert kinds.index("session_suspended") < kinds.index("session_resumed")


async def test_a_watcher_stays_over_a_stop_and_a_resume(
    session: Session, fake_agent: FakeAgent, follow: Follow
) -> None:
    seen = await follow(session)
    await session.stop()
    await settle()
    await session.resume()
    await session.send("again")
    await fake_agent.finish_all()

    kinds = [item.kind for item in seen if isinstance(item, Record)]
    assert kinds == [record.kind for record in await records(session)]
    assert kinds.index("session_stopped") < kinds.index("session_resumed")
    assert kinds[-1] == "turn_ended"


async def test_a_watcher_stays_over_a_new_chapter(
    session: Session, fake_agent: FakeAgent, follow: Follow
) -> None:
    seen = await follow(session)
    await session.send("old")
    await fake_agent.finish_all()
    await session.clear()
    await session.send("new")
    await fake_agent.finish_all()

    assert numbers(seen) == list(range(1, await last_seq(session) + 1))
    assert "session_cleared" in [item.kind for item in seen if isinstance(item, Record)]


@pytest.mark.parametrize("phase", ["suspended", "stopped", "archived"])
async def test_watching_a_suspended_session_does_not_wake_it(
    sup: Supervisor, follow: Follow, phase: str
) -> None:
    session = await sup.create("fake", suspend_after_seconds=60)
    await trio.sleep(61)
    if phase != "suspended":
        await session.stop()
    if phase == "archived":
        await session.archive()
    before = await session.info()

    seen = await follow(session)

    assert numbers(seen) == list(range(1, before.last_seq + 1))
    assert await session.info() == before


async def test_a_watcher_of_a_stopped_session_sees_its_resume(
    session: Session, follow: Follow
) -> None:
    await session.stop()
    seen = await follow(session, after=await last_seq(session))
    assert seen == []

    await session.resume()
    await settle()

    kinds = [item.kind for item in seen if isinstance(item, Record)]
    assert "session_resumed" in kinds
    assert kinds[-1] == "session_started"


async def test_watching_ends_when_the_session_is_deleted(
    sup: Supervisor, session: Session, nursery: trio.Nursery
) -> None:
    async def watch() -> None:
        async with session.watch() as feed:
            async for _ in feed:
                pass
        ended.set()

    ended = trio.Event()
    nursery.start_soon(watch)
    await settle()
    await sup.delete(session.id)

    await ended.wait()
    assert not await sup.exists(session.id)


async def test_watching_ends_when_the_supervisor_leaves() -> None:
    kinds: list[str] = []

    async def watch(session: Session) -> None:
        async with session.watch() as feed:
            kinds.extend([item.kind async for item in feed if isinstance(item, Record)])

    async with trio.open_nursery() as nursery, supervisor.open() as sup:
        session = await sup.create("echo")
        nursery.start_soon(watch, session)
        await session.prompt("hello")

    assert kinds[-1] == "session_suspended"
    assert "turn_ended" in kinds


async def test_watching_an_unknown_session_raises_session_not_found(sup: Supervisor) -> None:
    with pytest.raises(SessionNotFound):
        async with sup.session("s_nobody").watch():
            pytest.fail("it was not there")


@pytest.mark.parametrize("after", [-1, True, "3", 1.5, None])
async def test_an_invalid_after_is_refused(sup: Supervisor, session: Session, after: int) -> None:
    with pytest.raises(ConfigError):
        async with session.watch(after=after):
            pytest.fail("it was no number")
    with pytest.raises(ConfigError):
        async with sup.watch(after=after):
            pytest.fail("it was no number")
