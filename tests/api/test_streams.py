"""Streams: each record once and in order, for readers of every speed, until nothing can follow."""

from __future__ import annotations

import contextlib
import random

import pytest
import trio
from starlette.types import ASGIApp

from actors.testing import settle
from supervisor import Item, Session, Supervisor
from supervisor.api.doors import Doors
from supervisor.api.streaming import events
from supervisor.api.streaming.events import write_event
from supervisor.api.streaming.feeds import session_events
from supervisor.api.streaming.stream import (
    BURST,
    KEEPALIVE_SECONDS,
    PACE_SECONDS,
    SHARE_SECONDS,
    WRITE_SECONDS,
)
from tests.api.asgi import LOCALHOST, Watch, ask
from tests.sessions.cast import Player, Scene, records

# So many that each waits its full time.
MANY = round(PACE_SECONDS / SHARE_SECONDS)


@pytest.fixture
def target(session: Session) -> str:
    return f"/v1/sessions/{session.id}/stream"


# What comes ------------------------------------------------------------------------------------


async def test_every_record_comes_once_in_order_with_its_number_and_kind(
    session: Session, player: Player, watch: Watch, target: str
) -> None:
    stream = await watch(target)
    for text in "abc":
        await session.send(text)
    await player.play_all()

    known = await records(session)
    assert stream.status == 200
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.ids == [record.seq for record in known]
    assert stream.kinds == [record.kind for record in known]
    assert [event.data["seq"] for event in stream.events] == stream.ids


async def test_deltas_come_as_they_are_said_and_have_no_id(
    scene: Scene, watch: Watch, target: str
) -> None:
    stream = await watch(target)

    await scene.do(scene.turn.say("hel"))
    await scene.do(scene.turn.say("lo"))
    await settle()

    deltas = [event for event in stream.events if event.name == "delta"]
    assert [event.data["text"] for event in deltas] == ["hel", "lo"]
    assert {event.id for event in deltas} == {None}


async def test_who_comes_back_goes_on_after_the_last_event_that_was_seen(
    session: Session, watch: Watch, target: str
) -> None:
    last = (await session.info()).last_seq
    headers = (LOCALHOST, (b"Last-Event-ID", b"2"))

    by_query = await watch(f"{target}?after=2")
    by_header = await watch(target, headers=headers)
    by_both = await watch(f"{target}?after=0", headers=headers)

    for stream in (by_query, by_header, by_both):
        assert stream.ids == list(range(3, last + 1))


@pytest.mark.parametrize("said", [b"x", b"-1", b"1.5", b"9" * 30, b"\xb2", b"1 2"])
async def test_a_last_event_that_is_no_number_is_refused(
    app: ASGIApp, target: str, said: bytes
) -> None:
    answer = await ask(app, "GET", target, headers=(LOCALHOST, (b"last-event-id", said)))

    assert answer.status == 422
    assert answer.json["paths"][0]["path"] == "Last-Event-ID"


async def test_a_silent_stream_says_that_it_is_still_there(watch: Watch, target: str) -> None:
    stream = await watch(target)
    before = len(stream.all_events)

    await trio.sleep(4 * KEEPALIVE_SECONDS + 1)

    comments = [event.comment for event in stream.all_events[before:]]
    assert comments == [" still here"] * 4


async def test_a_keepalive_costs_nobody_an_event(
    session: Session, player: Player, watch: Watch, target: str
) -> None:
    stream = await watch(target)
    for number in range(20):
        await trio.sleep(KEEPALIVE_SECONDS)  # exactly when the next keepalive is due
        await session.send(str(number))
        await player.play_all()

    assert stream.ids == [record.seq for record in await records(session)]


async def test_what_is_there_already_goes_along_in_one_chunk(
    session: Session, app: ASGIApp, target: str
) -> None:
    for number in range(300):
        await session.append("user", f"message {number}")
    await session.stop()

    stream = await ask(app, "GET", target)

    assert stream.ids == [record.seq for record in await records(session)]
    assert len(stream.chunks) < 10


async def test_a_wait_that_is_cancelled_at_any_moment_loses_nothing(
    session: Session, nursery: trio.Nursery
) -> None:
    chance, seen = random.Random(5), list[bytes]()

    async def talk() -> None:
        for number in range(60):
            await session.append("user", str(number))
            await trio.sleep(chance.choice([0.0, 0.0, 1.0]))
        await session.stop()

    nursery.start_soon(talk)
    info = await session.info()
    async with session_events(session, info, after=0, to_the_end=True) as events:
        with contextlib.suppress(StopAsyncIteration):
            while True:
                with trio.move_on_after(chance.choice([0.0, 0.0, 0.5, 1.0])):
                    seen.append(await anext(events))

    found = [int(line[4:]) for line in b"".join(seen).split(b"\n") if line.startswith(b"id: ")]
    assert found == [record.seq for record in await records(session)]


# How it ends -----------------------------------------------------------------------------------


async def test_it_ends_when_the_session_has_stopped(
    session: Session, watch: Watch, target: str
) -> None:
    stream = await watch(target)

    await session.stop()
    await settle()

    assert stream.is_complete
    assert stream.kinds[-1] == "session_stopped"


async def test_what_a_stopped_session_left_is_shown_and_then_it_ends(
    session: Session, app: ASGIApp, target: str
) -> None:
    await session.stop()
    await session.archive()

    stream = await ask(app, "GET", target)

    assert stream.ids == [record.seq for record in await records(session)]
    assert stream.kinds[-1] == "session_archived"


async def test_nothing_can_follow_the_last_record_of_a_stopped_session(
    session: Session, app: ASGIApp, target: str
) -> None:
    await session.stop()
    last = (await session.info()).last_seq

    for after in (last, last + 5):
        answer = await ask(app, "GET", f"{target}?after={after}")
        assert (answer.status, answer.body) == (204, b"")


async def test_who_follows_stays_over_a_stop_and_sees_the_session_come_back(
    session: Session, watch: Watch, target: str
) -> None:
    stream = await watch(f"{target}?follow=1")

    await session.stop()
    await session.resume()
    await settle()

    assert not stream.is_complete
    assert stream.ids == [record.seq for record in await records(session)]


async def test_a_session_that_came_back_at_once_goes_on_being_shown(
    session: Session, watch: Watch, target: str
) -> None:
    stream = await watch(target)
    stream.stall()

    await session.stop()
    await session.resume()
    stream._may_write.set()
    await settle()

    assert not stream.is_complete
    assert stream.kinds[-1] == "session_started"


async def test_one_who_begins_beyond_the_end_still_hears_of_it(
    session: Session, watch: Watch, target: str
) -> None:
    stream = await watch(f"{target}?after=1000")

    await session.stop()
    await trio.sleep(KEEPALIVE_SECONDS + 1)

    assert stream.is_complete


async def test_it_ends_when_the_session_is_deleted(
    sup: Supervisor, session: Session, watch: Watch, target: str
) -> None:
    followed = await watch(f"{target}?follow=1")
    plain = await watch(target)

    await sup.delete(session.id)
    await settle()

    assert followed.is_complete
    assert plain.is_complete


async def test_a_session_that_is_not_there_is_no_stream(app: ASGIApp) -> None:
    answer = await ask(app, "GET", "/v1/sessions/s_none/stream")

    assert (answer.status, answer.json["code"]) == (404, "session_not_found")


async def test_closing_the_doors_ends_streams_and_refuses_new_ones(
    watch: Watch, target: str, doors: Doors, app: ASGIApp
) -> None:
    one, other = await watch(target), await watch("/v1/stream")

    doors.close()
    await settle()
    late = await ask(app, "GET", target)

    assert one.is_complete
    assert other.is_complete
    assert (late.status, late.json["code"]) == (503, "draining")
    assert late.headers["retry-after"] == "5"
    assert doors.streams == 0


async def test_draining_leaves_streams_open_to_show_how_it_ends(
    scene: Scene, sup: Supervisor, watch: Watch, target: str, doors: Doors
) -> None:
    stream = await watch(target)
    doors.drain()
    scene.finish("done")
    await sup.drain()
    await settle()

    assert not stream.is_complete
    assert "turn_ended" in stream.kinds


# Who reads -------------------------------------------------------------------------------------


async def test_one_who_hangs_up_is_forgotten_at_once(
    sup: Supervisor, session: Session, watch: Watch, target: str, doors: Doors
) -> None:
    one, other = await watch(target), await watch("/v1/stream")
    seat = sup._house.tree.find_seat(session.id)
    assert seat is not None
    assert (doors.streams, len(sup._house.readers)) == (2, 1)

    one.hang_up()
    other.hang_up()
    await settle()

    assert one.is_over.is_set()
    assert (doors.streams, len(sup._house.readers)) == (0, 0)
    assert not seat._watchers


async def test_one_who_hangs_up_while_stalled_is_forgotten_too(
    session: Session, watch: Watch, target: str, doors: Doors
) -> None:
    stream = await watch(target)
    stream.stall()
    await session.set(title="something to be written")
    await settle()

    stream.hang_up()
    await settle()

    assert stream.is_over.is_set()
    assert doors.streams == 0


async def test_one_who_takes_nothing_is_let_go_after_a_bound(
    session: Session, watch: Watch, target: str, doors: Doors
) -> None:
    stream = await watch(target)
    stream.stall()
    await session.set(title="something to be written")
    began = trio.current_time()

    await stream.is_over.wait()

    assert trio.current_time() == began + WRITE_SECONDS
    assert doors.streams == 0


async def test_a_slow_reader_is_told_what_it_missed_and_slows_nobody(
    scene: Scene, session: Session, watch: Watch, target: str
) -> None:
    slow, quick = await watch(target), await watch(target)
    slow.stall()
    for number in range(1_200):
        async with scene.turn.tool("bash", {"n": number}):
            pass
        if number % 100 == 0:
            await trio.sleep(PACE_SECONDS)
    await trio.sleep(1)
    assert len(quick.ids) > 2_000
    slow._may_write.set()
    await settle()

    gap = next(event for event in slow.events if event.name == "gap")
    missed = range(gap.data["first"], gap.data["last"] + 1)
    assert gap.id is None
    assert sorted([*slow.ids, *missed]) == quick.ids


async def test_a_hundred_stalled_readers_cost_a_healthy_one_nothing(
    session: Session, player: Player, watch: Watch, target: str
) -> None:
    for _ in range(100):
        (await watch(target)).stall()
    healthy = await watch(target)
    began = trio.current_time()

    for text in "abc":
        await session.send(text)
    await player.play_all()

    assert healthy.ids == [record.seq for record in await records(session)]
    assert trio.current_time() == began


async def test_a_flood_is_written_once_however_many_stand_still(
    scene: Scene, watch: Watch, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Item] = []

    def count(item: Item) -> bytes:
        written.append(item)
        return write_event(item)

    monkeypatch.setattr(events, "write_event", count)
    stalled = [await watch(target) for _ in range(100)]
    for reader in stalled:
        reader.stall()
    healthy = await watch(target)
    before = len(healthy.events)
    written.clear()

    for number in range(3_000):
        await scene.do(scene.turn.say(f"word {number} "))
        if number % 100 == 0:
            await trio.sleep(PACE_SECONDS)
    await trio.sleep(1)

    seen = healthy.events[before:]
    said = "".join(event.data["text"] for event in seen if event.name == "delta")
    assert said == "".join(f"word {number} " for number in range(3_000))
    assert "gap" not in healthy.kinds
    assert len(written) == len(seen)
    assert max(len(reader.events) for reader in stalled) == before


async def test_who_is_told_much_gets_it_in_few_pieces(
    scene: Scene, watch: Watch, target: str
) -> None:
    stream, *_ = [await watch(target) for _ in range(MANY)]
    before = len(stream.chunks)

    for number in range(400):
        await scene.do(scene.turn.say(f"word {number} "))
        await settle()
    first = len(stream.chunks) - before
    await trio.sleep(1.5 * PACE_SECONDS)

    assert first == BURST
    assert len(stream.chunks) - before == BURST + 1
    assert stream.events[-1].data["text"] == "word 399 "


async def test_one_reader_alone_is_hardly_held_up(scene: Scene, watch: Watch, target: str) -> None:
    stream = await watch(target)
    before, began = len(stream.chunks), trio.current_time()

    for number in range(400):
        await scene.do(scene.turn.say(f"word {number} "))
        await trio.sleep(SHARE_SECONDS)

    assert len(stream.chunks) - before >= 400
    assert trio.current_time() - began < 0.1


async def test_one_word_now_and_then_comes_at_once(scene: Scene, watch: Watch, target: str) -> None:
    stream, *_ = [await watch(target) for _ in range(MANY)]
    for number in range(100):
        await scene.do(scene.turn.say(f"word {number} "))
        await settle()
        assert stream.events[-1].data["text"] == f"word {number} "
        await trio.sleep(PACE_SECONDS)


# All sessions ----------------------------------------------------------------------------------


async def test_the_stream_of_all_has_positions_and_can_be_gone_on_with(
    sup: Supervisor, watch: Watch
) -> None:
    one, other = await sup.create("echo"), await sup.create("echo")
    stream = await watch("/v1/stream")
    await one.prompt("hello")
    await other.prompt("hello")
    await settle()

    half = stream.ids[len(stream.ids) // 2]
    rest = await watch(f"/v1/stream?after={half}")

    assert stream.ids == sorted(set(stream.ids))
    assert {event.data["session_id"] for event in stream.events} == {one.id, other.id}
    assert rest.ids == [number for number in stream.ids if number > half]


async def test_a_stream_has_no_head(app: ASGIApp, target: str) -> None:
    answer = await ask(app, "HEAD", target)

    assert answer.status == 405
