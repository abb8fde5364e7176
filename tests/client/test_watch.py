"""The feed of rows, with the embedding API and with the client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

import supervisor
from supervisor import ConfigError, Delta, Record, SessionNotFound
from supervisor.handles.session_rows import (
    RequestClosed,
    RequestOpened,
    SessionGone,
    SessionRow,
    Snapshot,
    WatchItem,
)
from tests.support.served_supervisor import Kind, Sup, opened


async def read_until(
    sup: Sup, is_last: Callable[[WatchItem], bool], *named: str
) -> list[WatchItem]:
    """Return what a new feed has, up to the first item that is the last."""
    found: list[WatchItem] = []
    async with sup.watch_sessions(named) as feed:
        async for item in feed:
            found.append(item)
            if is_last(item):
                break
    return found


async def test_a_feed_has_rows_records_and_deltas(sup: Sup) -> None:
    session = await sup.create("echo", name="first", tags=["a"])
    await session.prompt("hello")
    info = await session.info()

    def is_last(item: WatchItem) -> bool:
        return isinstance(item, Record) and item.seq == info.last_seq

    snapshot, *others = await read_until(sup, is_last, session.id)

    assert isinstance(snapshot, Snapshot)
    (row,) = snapshot.rows
    assert (row.id, row.name, row.tags, row.last_text) == (info.id, "first", ("a",), "hello")
    assert (row.phase, row.badge, row.last_seq) == (info.phase, info.badge, info.last_seq)
    seqs = [item.seq for item in others if isinstance(item, Record)]
    assert seqs == list(range(1, info.last_seq + 1))


async def test_a_feed_shows_changes_requests_and_deletions(kind: Kind, folder: Path) -> None:
    @supervisor.agent("asker")
    async def asker(turn: supervisor.Turn) -> str:
        return str(await turn.ask("May I?", tool="shell"))

    async with opened(kind, folder, agents=[asker]) as sup:
        session = await sup.create("asker")
        seen: list[WatchItem] = []
        async with sup.watch_sessions() as feed:
            assert isinstance(await anext(feed), Snapshot)
            await session.send("go")
            async for item in feed:
                seen.append(item)
                if isinstance(item, RequestOpened):
                    await sup.answer(item.request.id, "allow_once")
                elif isinstance(item, SessionRow) and item.last_text:
                    await sup.delete(session.id)
                elif isinstance(item, SessionGone):
                    break

    opened_, closed = [one for one in seen if isinstance(one, RequestOpened | RequestClosed)]
    assert isinstance(opened_, RequestOpened)
    assert closed == RequestClosed(opened_.request.id, session.id, "allow_once")
    assert seen[-1] == SessionGone(session.id)


async def test_a_stopped_session_with_a_failed_turn_is_in_the_snapshot(
    kind: Kind, folder: Path
) -> None:
    @supervisor.agent("breaker")
    async def breaker(turn: supervisor.Turn) -> None:
        raise ValueError("wrong")

    async with opened(kind, folder, agents=[breaker]) as sup:
        session, quiet = await sup.create("breaker"), await sup.create("breaker")
        await session.prompt("go")
        await session.stop()
        await quiet.stop()
        info = await session.info()
        (snapshot,) = await read_until(sup, lambda _: True)

    assert isinstance(snapshot, Snapshot)
    (row,) = snapshot.rows
    assert (row.id, row.attention) == (session.id, info.attention)
    assert row.last_outcome == info.last_outcome
    assert [item.kind for item in row.attention] == ["failed_turn"]


async def test_wrong_arguments_are_refused(sup: Sup) -> None:
    with pytest.raises(SessionNotFound):
        await read_until(sup, lambda _: True, "s_0_1")
    with pytest.raises(ConfigError, match="17"):
        await read_until(sup, lambda _: True, *(f"s_0_{number}" for number in range(17)))
    with pytest.raises(ConfigError, match="after"):
        async with sup.watch_sessions(after=-1):
            pass


async def test_streamed_text_reaches_a_named_feed_before_its_record(
    kind: Kind, folder: Path
) -> None:
    may_end = trio.Event()

    @supervisor.agent("talker")
    async def talker(turn: supervisor.Turn) -> None:
        await turn.say("hello")
        await may_end.wait()

    async with opened(kind, folder, agents=[talker]) as sup:
        session = await sup.create("talker")
        async with sup.watch_sessions([session.id]) as feed:
            await session.send("go")
            async for item in feed:
                if isinstance(item, Delta):
                    assert item.text == "hello"
                    may_end.set()
                    break
