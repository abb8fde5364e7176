"""Streams: each record once and in order, for readers of every speed, until nothing can follow."""

from __future__ import annotations

import contextlib
import random

import pytest
import trio
from starlette.types import ASGIApp

from actors.testing import settle
from supervisor import Item, Session, Supervisor
from supervisor.api import sse
from supervisor.api.drain import DrainState
from supervisor.api.sse import (
    BURST,
    KEEPALIVE_SECONDS,
    MAX_PACE_SECONDS,
    PACE_SECONDS_PER_STREAM,
    WRITE_SECONDS,
    encode_event,
    session_events,
)
from tests.support.asgi_exchange import LOCALHOST, Watch, ask
from tests.support.fake_agents import AgentRun, FakeAgent, records

# Enough readers that each waits its full time.
MANY = round(MAX_PACE_SECONDS / PACE_SECONDS_PER_STREAM)


@pytest.fixture
def target(session: Session) -> str:
    return f"/v1/sessions/{session.id}/stream"


# What comes ------------------------------------------------------------------------------------


async def test_every_record_comes_once_in_order_with_its_number_and_kind(
    session: Session, fake_agent: FakeAgent, watch: Watch, target: str
) -> None:
    stream = await watch(target)
    for text in "abc":
        await session.send(text)
    await fake_agent.finish_all()

    known = await records(session)
    assert stream.status == 200
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.ids == [record.seq for record in known]
    assert stream.kinds == [record.kind for record in known]
    assert [event.data["seq"] for event in stream.events] == stream.ids


async def test_deltas_are_sent_without_id(run: AgentRun, watch: Watch, target: str) -> None:
    stream = await watch(target)

    await run.do(run.turn.say("hel"))
    await run.do(run.turn.say("lo"))
    await settle()

    deltas = [event for event in stream.events if event.name == "delta"]
    assert [event.data["text"] for event in deltas] == ["hel", "lo"]
    assert {event.id for event in deltas} == {None}


async def test_last_event_id_resumes_after_that_record(
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
async def test_a_last_event_id_that_is_not_a_number_is_refused(
    app: ASGIApp, target: str, said: bytes
) -> None:
    answer = await ask(app, "GET", target, headers=(LOCALHOST, (b"last-event-id", said)))

    assert answer.status == 422
    assert answer.json["paths"][0]["path"] == "Last-Event-ID"


async def test_a_silent_stream_sends_keepalives(watch: Watch, target: str) -> None:
    stream = await watch(target)
    before = len(stream.all_events)

    await trio.sleep(4 * KEEPALIVE_SECONDS + 1)

    comments = [event.comment for event in stream.all_events[before:]]
    assert comments == [" keepalive"] * 4


async def test_a_keepalive_loses_no_event(
    session: Session, fake_agent: FakeAgent, watch: Watch, target: str
) -> None:
    stream = await watch(target)
    for number in range(20):
        await trio.sleep(KEEPALIVE_SECONDS)  # exactly when the next keepalive is due
        await session.send(str(number))
        await fake_agent.finish_all()

    assert stream.ids == [record.seq for record in await records(session)]


async def test_ready_events_go_into_one_chunk(session: Session, app: ASGIApp, target: str) -> None:
    for number in range(300):
        await session.append("user", f"message {number}")
    await session.stop()

    stream = await ask(app, "GET", target)

    assert stream.ids == [record.seq for record in await records(session)]
    assert len(stream.chunks) < 10


async def test_a_cancelled_wait_loses_no_event(session: Session, nursery: trio.Nursery) -> None:
    chance, seen = random.Random(5), list[bytes]()

    async def talk() -> None:
        for number in range(60):
            await session.append("user", str(number))
            await trio.sleep(chance.choice([0.0, 0.0, 1.0]))
        await session.stop()

    nursery.start_soon(talk)
    info = await session.info()
    async with session_events(session, info, after=0, until_stopped=True) as events:
        with contextlib.suppress(StopAsyncIteration):
            while True:
                with trio.move_on_after(chance.choice([0.0, 0.0, 0.5, 1.0])):
                    seen.append(await anext(events))

    found = [int(line[4:]) for line in b"".join(seen).split(b"\n") if line.startswith(b"id: ")]
    assert found == [record.seq for record in await records(session)]


# How it ends -----------------------------------------------------------------------------------


async def test_a_stream_ends_when_the_session_has_stopped(
    session: Session, watch: Watch, target: str
) -> None:
    stream = await watch(target)

    await session.stop()
    await settle()

    assert stream.is_complete
    assert stream.kinds[-1] == "session_stopped"


async def test_a_stream_of_a_stopped_session_ends_after_its_records(
    session: Session, app: ASGIApp, target: str
) -> None:
    await session.stop()
    await session.archive()

    stream = await ask(app, "GET", target)

    assert stream.ids == [record.seq for record in await records(session)]
    assert stream.kinds[-1] == "session_archived"


async def test_a_stream_after_the_last_record_is_204(
    session: Session, app: ASGIApp, target: str
) -> None:
    await session.stop()
    last = (await session.info()).last_seq

    answer = await ask(app, "GET", f"{target}?after={last}")

    assert (answer.status, answer.body) == (204, b"")


@pytest.mark.parametrize("end", ["running", "stopped"])
async def test_a_number_beyond_the_end_is_answered_with_a_reset(
    session: Session, watch: Watch, target: str, end: str
) -> None:
    if end == "stopped":
        await session.stop()
    last = (await session.info()).last_seq

    stream = await watch(target, headers=[LOCALHOST, (b"last-event-id", b"%d" % (last + 5))])
    await settle()

    assert b'id: 0\nevent: reset\ndata: {"last":%d}\n' % last in stream.body
    assert stream.ids == [0, *range(1, last + 1)]
    assert stream.is_complete == (end == "stopped")


async def test_a_position_beyond_the_end_is_answered_with_a_reset(
    sup: Supervisor, session: Session, watch: Watch
) -> None:
    last = (await sup.stats()).last_position

    stream = await watch(f"/v1/stream?after={last + 1}")
    await settle()

    assert b'id: 0\nevent: reset\ndata: {"last":%d}\n' % last in stream.body
    assert stream.ids == [0, *range(1, last + 1)]


async def test_a_following_stream_continues_over_stop_and_resume(
    session: Session, watch: Watch, target: str
) -> None:
    stream = await watch(f"{target}?follow=1")

    await session.stop()
    await session.resume()
    await settle()

    assert not stream.is_complete
    assert stream.ids == [record.seq for record in await records(session)]


async def test_a_stream_continues_when_the_session_is_resumed_at_once(
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


async def test_a_stream_that_starts_beyond_the_end_ends_too(
    session: Session, watch: Watch, target: str
) -> None:
    stream = await watch(f"{target}?after=1000")

    await session.stop()
    await trio.sleep(KEEPALIVE_SECONDS + 1)

    assert stream.is_complete


async def test_a_stream_ends_when_the_session_is_deleted(
    sup: Supervisor, session: Session, watch: Watch, target: str
) -> None:
    followed = await watch(f"{target}?follow=1")
    plain = await watch(target)

    await sup.delete(session.id)
    await settle()

    assert followed.is_complete
    assert plain.is_complete


async def test_a_stream_of_an_unknown_session_is_404(app: ASGIApp) -> None:
    answer = await ask(app, "GET", "/v1/sessions/s_none/stream")

    assert (answer.status, answer.json["code"]) == (404, "session_not_found")


async def test_closing_ends_streams_and_refuses_new_streams(
    watch: Watch, target: str, drain_state: DrainState, app: ASGIApp
) -> None:
    one, other = await watch(target), await watch("/v1/stream")

    drain_state.close()
    await settle()
    late = await ask(app, "GET", target)

    assert one.is_complete
    assert other.is_complete
    assert (late.status, late.json["code"]) == (503, "draining")
    assert late.headers["retry-after"] == "5"
    assert drain_state.open_streams == 0


async def test_draining_leaves_streams_open(
    run: AgentRun, sup: Supervisor, watch: Watch, target: str, drain_state: DrainState
) -> None:
    stream = await watch(target)
    drain_state.drain()
    run.finish("done")
    await sup.drain()
    await settle()

    assert not stream.is_complete
    assert "turn_ended" in stream.kinds


# Who reads -------------------------------------------------------------------------------------


async def test_a_disconnected_reader_is_dropped_at_once(
    sup: Supervisor, session: Session, watch: Watch, target: str, drain_state: DrainState
) -> None:
    one, other = await watch(target), await watch("/v1/stream")
    slot = sup._parts.registry.find_slot(session.id)
    assert slot is not None
    assert (drain_state.open_streams, len(sup._services.feeds.readers)) == (2, 1)

    one.hang_up()
    other.hang_up()
    await settle()

    assert one.is_over.is_set()
    assert (drain_state.open_streams, len(sup._services.feeds.readers)) == (0, 0)
    assert not slot.subscribers.watchers


async def test_a_stalled_reader_that_disconnects_is_dropped(
    session: Session, watch: Watch, target: str, drain_state: DrainState
) -> None:
    stream = await watch(target)
    stream.stall()
    await session.set(title="something to be written")
    await settle()

    stream.hang_up()
    await settle()

    assert stream.is_over.is_set()
    assert drain_state.open_streams == 0


async def test_a_stalled_reader_is_dropped_after_a_bound(
    session: Session, watch: Watch, target: str, drain_state: DrainState
) -> None:
    stream = await watch(target)
    stream.stall()
    await session.set(title="something to be written")
    began = trio.current_time()

    await stream.is_over.wait()

    assert trio.current_time() == began + WRITE_SECONDS
    assert drain_state.open_streams == 0


async def test_a_slow_reader_gets_a_gap_and_delays_no_session(
    run: AgentRun, session: Session, watch: Watch, target: str
) -> None:
    slow, quick = await watch(target), await watch(target)
    slow.stall()
    for number in range(1_200):
        async with run.turn.tool("bash", {"n": number}):
            pass
        if number % 100 == 0:
            await trio.sleep(MAX_PACE_SECONDS)
    await trio.sleep(1)
    assert len(quick.ids) > 2_000
    slow._may_write.set()
    await settle()

    gap = next(event for event in slow.events if event.name == "gap")
    missed = range(gap.data["first"], gap.data["last"] + 1)
    assert gap.id is None
    assert sorted([*slow.ids, *missed]) == quick.ids


async def test_a_hundred_stalled_readers_do_not_delay_a_healthy_reader(
    session: Session, fake_agent: FakeAgent, watch: Watch, target: str
) -> None:
    for _ in range(100):
        (await watch(target)).stall()
    healthy = await watch(target)
    began = trio.current_time()

    for text in "abc":
        await session.send(text)
    await fake_agent.finish_all()

    assert healthy.ids == [record.seq for record in await records(session)]
    assert trio.current_time() == began


async def test_a_flood_is_encoded_once_for_all_readers(
    run: AgentRun, watch: Watch, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Item] = []

    def count(item: Item) -> bytes:
        written.append(item)
        return encode_event(item)

    monkeypatch.setattr(sse, "encode_event", count)
    stalled = [await watch(target) for _ in range(100)]
    for reader in stalled:
        reader.stall()
    healthy = await watch(target)
    before = len(healthy.events)
    written.clear()

    for number in range(3_000):
        await run.do(run.turn.say(f"word {number} "))
        if number % 100 == 0:
            await trio.sleep(MAX_PACE_SECONDS)
    await trio.sleep(1)

    seen = healthy.events[before:]
    said = "".join(event.data["text"] for event in seen if event.name == "delta")
    assert said == "".join(f"word {number} " for number in range(3_000))
    assert "gap" not in healthy.kinds
    assert len(written) == len(seen)
    assert max(len(reader.events) for reader in stalled) == before


async def test_a_busy_stream_sends_few_chunks(run: AgentRun, watch: Watch, target: str) -> None:
    stream, *_ = [await watch(target) for _ in range(MANY)]
    before = len(stream.chunks)

    for number in range(400):
        await run.do(run.turn.say(f"word {number} "))
        await settle()
    first = len(stream.chunks) - before
    await trio.sleep(1.5 * MAX_PACE_SECONDS)

    assert first == BURST
    assert len(stream.chunks) - before == BURST + 1
    assert stream.events[-1].data["text"] == "word 399 "


async def test_a_single_stream_is_barely_delayed(run: AgentRun, watch: Watch, target: str) -> None:
    stream = await watch(target)
    before, began = len(stream.chunks), trio.current_time()

    for number in range(400):
        await run.do(run.turn.say(f"word {number} "))
        await trio.sleep(PACE_SECONDS_PER_STREAM)

    assert len(stream.chunks) - before >= 400
    assert trio.current_time() - began < 0.1


async def test_an_occasional_event_is_sent_at_once(
    run: AgentRun, watch: Watch, target: str
) -> None:
    stream, *_ = [await watch(target) for _ in range(MANY)]
    for number in range(100):
        await run.do(run.turn.say(f"word {number} "))
        await settle()
        assert stream.events[-1].data["text"] == f"word {number} "
        await trio.sleep(MAX_PACE_SECONDS)


# All sessions ----------------------------------------------------------------------------------


async def test_the_global_stream_has_positions_and_resumes(sup: Supervisor, watch: Watch) -> None:
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


async def test_a_stream_refuses_head(app: ASGIApp, target: str) -> None:
    answer = await ask(app, "HEAD", target)

    assert answer.status == 405
