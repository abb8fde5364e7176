"""Feeds, with the embedding API and with the client."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio

import supervisor
from supervisor import Delta, Record, Reset
from tests.support.served_supervisor import (
    Connect,
    Kind,
    Session,
    Sup,
    busy,
    connect_in_thread,
    opened,
    seen,
    served,
)


async def numbers(session: Session, after: int, last: int) -> list[int]:
    found = []
    async with session.watch(after=after) as feed:
        async for item in feed:
            if isinstance(item, Record):
                found.append(item.seq)
                if item.seq >= last:
                    break
    return found


async def test_records_come_once_each_and_in_order(sup: Sup) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    last = (await session.info()).last_seq

    assert await numbers(session, 0, last) == list(range(1, last + 1))
    assert await numbers(session, 3, last) == list(range(4, last + 1))


async def test_deltas_arrive_while_the_turn_runs(kind: Kind, folder: Path) -> None:
    may_end = trio.Event()

    @supervisor.agent("talker")
    async def talker(turn: supervisor.Turn) -> None:
        await turn.say("hel")
        await may_end.wait()
        await turn.say("lo")

    async with opened(kind, folder, agents=[talker]) as sup:
        session = await sup.create("talker")
        async with session.watch() as feed:
            await session.send("go")
            async for item in feed:
                if isinstance(item, Delta):
                    assert (item.kind, item.offset, item.text) == ("agent_text", 0, "hel")
                    may_end.set()
                    break
        assert (await seen(session, "turn_ended")).body["text"] == "hello"


async def test_a_watch_continues_after_a_stop(sup: Sup) -> None:
    session = await sup.create("echo")
    async with session.watch() as feed:
        await session.stop()
        await session.resume()
        await session.prompt("again")

        kinds = []
        async for item in feed:
            if isinstance(item, Record):
                kinds.append(item.kind)
                if item.kind == "turn_ended":
                    break

    assert kinds.index("session_stopped") < kinds.index("turn_ended")


async def test_a_watch_ends_with_its_session(sup: Sup) -> None:
    session = await sup.create("echo")
    async with session.watch() as feed:
        await sup.delete(session.id)

        async for _ in feed:
            pass

    with pytest.raises(supervisor.SessionNotFound):
        async with session.watch():
            pass


async def test_a_cancelled_wait_loses_no_record(sup: Sup) -> None:
    session = await busy(sup)
    async with session.watch() as feed:
        found = []
        while True:
            with trio.move_on_after(0.05) as patience:
                item = await anext(feed)
                if isinstance(item, Record):
                    found.append(item.seq)
            if patience.cancelled_caught:
                break
        await session.interrupt()
        async for item in feed:
            if isinstance(item, Record):
                found.append(item.seq)
                if item.kind == "turn_ended":
                    break

    assert found == list(range(1, len(found) + 1))


async def test_all_sessions_can_be_watched_after_a_position(sup: Sup) -> None:
    first, second = [await sup.create("echo") for _ in range(2)]
    async with sup.watch() as feed:
        seen_of = set()
        async for record in feed:
            seen_of.add(record.session_id)
            if len(seen_of) == 2:
                break
        position = feed.position
    await first.stop()

    async with sup.watch(after=position) as feed:
        async for record in feed:
            if record.kind == "session_stopped":
                break
        assert feed.position > position

    assert seen_of == {first.id, second.id}
    assert record.session_id == first.id


async def test_a_watch_after_a_number_not_given_yet_starts_again(sup: Sup) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    last, position = (await session.info()).last_seq, (await sup.stats()).last_position

    async with session.watch(after=last + 1) as feed:
        items = [await anext(feed) for _ in range(1 + last)]
    async with sup.watch(after=position + 1) as everything:
        with pytest.raises(supervisor.RecordNotFound, match=f"ends at {position}"):
            await anext(everything)
        await anext(everything)
        assert everything.position == 1

    assert items[0] == Reset(last)
    assert [one.seq for one in items if isinstance(one, Record)] == list(range(1, last + 1))


async def test_a_deleted_session_does_not_reset_a_watch(sup: Sup) -> None:
    await sup.create("echo")
    session = await sup.create("echo")
    position = (await sup.stats()).last_position
    await sup.delete(session.id)

    async with sup.watch(after=position) as feed:
        created = await sup.create("echo")
        first = await anext(feed)

    assert first.session_id == created.id


async def test_a_feed_starts_again_when_an_older_backup_is_served(
    folder: Path, connect: Connect
) -> None:
    if connect is connect_in_thread:
        pytest.skip("it has no feeds")
    with trio.fail_after(20):
        async with AsyncExitStack() as newer:
            sup = await newer.enter_async_context(supervisor.open(folder / "new.db"))
            session = await sup.create("echo")
            await sup.backup(folder / "old.db")
            await session.prompt("hello")
            path = await newer.enter_async_context(served(sup, folder / "s"))
            async with connect(path) as remote, remote.session(session.id).watch() as feed:
                async for item in feed:
                    if isinstance(item, Record) and item.kind == "turn_ended":
                        break
                await newer.aclose()
                async with supervisor.open(folder / "old.db") as older, served(older, path):
                    after_restart = [await anext(feed) for _ in range(2)]

    assert isinstance(after_restart[0], Reset)
    assert isinstance(after_restart[1], Record)
    assert after_restart[1].seq == 1


@pytest.mark.parametrize("after", [-1, "1", True, None])
async def test_an_invalid_number_is_refused(sup: Sup, after: object) -> None:
    session = await sup.create("echo")

    with pytest.raises(supervisor.ConfigError, match="after is"):
        async with session.watch(after=after):  # type: ignore[arg-type] # that is the point
            pass
    with pytest.raises(supervisor.ConfigError, match="after is"):
        async with sup.watch(after=after):  # type: ignore[arg-type] # that is the point
            pass


async def test_exceptions_of_a_watch_block_are_raised_bare(sup: Sup) -> None:
    session = await sup.create("echo")

    with pytest.raises(KeyError):
        async with session.watch():
            raise KeyError("mine")
