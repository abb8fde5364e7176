"""Observers: told once of each fact, with the right fields, in order, and never in the way."""

from __future__ import annotations

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import HookEvent, Session, Settings, Supervisor
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.fake_hooks import REST_SECONDS, RecordingObserver, fence_actor


@pytest.fixture
def settings() -> Settings:
    return Settings(suspend_after_seconds=REST_SECONDS)


async def refuse_unless_told_of_every_record(sup: Supervisor, observer: RecordingObserver) -> None:
    """Every record there is, each once, and in order within its session."""
    await settle()
    stored = await sup._services.store.all_records(after=0, limit=100_000)
    told = [(event.session_id, event.data["seq"]) for event in observer.events]
    for session_id in {record.session_id for _, record in stored}:
        numbers = [record.seq for _, record in stored if record.session_id == session_id]
        assert [seq for one, seq in told if one == session_id] == numbers


# Starts, stops, ends --------------------------------------------------------------------


async def test_session_start_is_observed_for_each_agent_start(sup: Supervisor) -> None:
    observer = RecordingObserver(sup, "session_start")
    session = await sup.create("fake")
    await session.stop()
    await session.resume()
    await settle()

    assert observer.data(session) == [{"agent": "fake"}] * 2
    assert all(event.turn_id is None for event in observer.events)


async def test_session_start_is_observed_after_waking(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await trio.sleep(2 * REST_SECONDS)
    observer = RecordingObserver(sup, "session_start")
    await session.prompt("hello")
    await settle()

    assert observer.data() == [{"agent": "echo"}]


async def test_session_stop_is_observed_with_its_reason(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    observer, end = RecordingObserver(sup, "session_stop"), RecordingObserver(sup, "session_end")
    await session.stop()
    await session.stop()
    await settle()

    assert observer.data(session) == [{"reason": "user_cancelled", "detail": None}]
    assert end.events == []


async def test_session_stop_is_observed_for_children_stopped_with_their_parent(
    sup: Supervisor, session: Session
) -> None:
    child = await session.spawn("fake", "errand")
    observer = RecordingObserver(sup, "session_stop")
    await session.stop()
    await settle()

    assert [event.session_id for event in observer.events] == [child.id, session.id]
    assert observer.words("reason") == ["parent_stopped", "user_cancelled"]


@pytest.mark.parametrize("reason", ["archive", "reset", "delete", "timeout", "new"])
async def test_session_end_is_observed_once_with_its_reason(sup: Supervisor, reason: str) -> None:
    key = "fake:web:ann"
    session = await sup.create("fake", key=key)
    observer = RecordingObserver(sup, "session_end")
    match reason:
        case "archive":
            await session.stop()
            await session.archive()
        case "reset":
            await sup.reset(key)
        case "delete":
            await sup.delete(session.id)
        case "timeout":
            session = await session.spawn("fake", "errand", ttl_seconds=5.0)
            await trio.sleep(6.0)
        case "new":
            await sup.new(key)
    await settle()

    assert observer.data() == [{"reason": reason}]
    assert observer.events[0].session_id == session.id


async def test_session_end_of_an_expired_suspended_child_names_the_expiry(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    child = await session.spawn("echo", "errand", ttl_seconds=1000.0)
    observer = RecordingObserver(sup, "session_end")
    await trio.sleep(1001.0)

    assert observer.data(child) == [{"reason": "timeout"}]


async def test_unarchiving_a_session_is_not_observed_as_its_end(sup: Supervisor) -> None:
    session = await sup.create("fake")
    await session.stop()
    await session.archive()
    observer = RecordingObserver(sup, "session_end")
    await session.unarchive()
    await settle()

    assert observer.events == []


async def test_a_replaced_session_may_be_archived_later(sup: Supervisor) -> None:
    old = await sup.create("fake", key="fake:web:ann")
    await sup.delete((await sup.new("fake:web:ann")).id)
    await old.unarchive()
    observer = RecordingObserver(sup, "session_end")
    await old.archive()
    await settle()

    assert observer.words("reason") == ["archive"]


async def test_session_end_of_a_deleted_session_follows_its_stop(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    told: list[str] = []
    for point in ("turn_end", "session_stop", "session_end"):
        sup.hooks.add(point, lambda event: told.append(event.point))
    await sup.delete(session.id)
    await settle()

    assert told == ["turn_end", "session_stop", "session_end"]


async def test_a_deleted_session_can_be_read_at_its_end(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    read: list[str] = []

    async def save(event: HookEvent) -> None:
        assert event.session_id is not None
        read.extend(one.text for one in await sup.session(event.session_id).transcript())

    sup.hooks.add("session_end", save)
    await sup.delete(session.id)

    assert read == ["hello", "hello"]
    assert not await sup.exists(session.id)


async def test_an_observer_that_never_ends_delays_a_deletion_by_five_seconds(
    sup: Supervisor, session: Session
) -> None:
    async def never_end(_: HookEvent) -> None:
        await trio.sleep_forever()

    sup.hooks.add("session_end", never_end, deadline_seconds=60.0)
    began = trio.current_time()

    await sup.delete(session.id)

    assert trio.current_time() == began + 5.0


async def test_an_observer_of_an_end_may_delete_another_session(
    sup: Supervisor, session: Session
) -> None:
    other = await sup.create("fake")

    async def delete_other(event: HookEvent) -> None:
        if event.session_id == session.id:
            await sup.delete(other.id)

    sup.hooks.add("session_end", delete_other)
    began = trio.current_time()
    await sup.delete(session.id)

    assert not await sup.exists(other.id)
    assert trio.current_time() < began + 1.0


# Turns and tools ------------------------------------------------------------------------


async def test_turn_end_is_observed_with_its_outcome(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    observer = RecordingObserver(sup, "turn_end")
    run.finish("done")
    await settle()

    assert observer.data() == [
        {"outcome": "completed", "stop_reason": "end_turn", "text": "done", "error": None}
    ]
    assert (observer.events[0].session_id, observer.events[0].turn_id) == (session.id, run.turn.id)


@pytest.mark.parametrize("outcome", ["interrupted", "failed", "timed_out", "lost"])
async def test_turn_end_of_a_failed_turn_has_its_error(
    sup: Supervisor, fake_agent: FakeAgent, outcome: str
) -> None:
    session = await sup.create("fake", turn_deadline_seconds=10.0)
    observer = RecordingObserver(sup, "turn_end")
    await session.send("go")
    run = await fake_agent.next_run()
    match outcome:
        case "interrupted":
            await session.interrupt()
        case "failed":
            run.fail(ValueError("oh"))
        case "timed_out":
            await trio.sleep(11.0)
        case "lost":
            await fence_actor(sup, session)
    await settle()

    assert observer.words("outcome") == [outcome]
    if outcome == "failed":
        assert "oh" in observer.data()[0]["error"]


async def test_tool_after_is_observed_with_its_outcome(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    observer = RecordingObserver(sup, "tool_after")
    call = await run.open_call("bash")
    call.call.result({"files": 3})
    await call.close()
    await settle()

    assert observer.data() == [
        {"call_id": call.id, "name": "bash", "outcome": "completed", "result": {"files": 3}}
    ]
    assert observer.events[0].turn_id == run.turn.id


async def test_tool_after_of_an_interrupted_call_is_observed_once(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    observer = RecordingObserver(sup, "tool_after")
    first, second = await run.open_call("one"), await run.open_call("two")
    await session.interrupt(supervisor.ToolCall(first.id))
    await session.interrupt()
    await settle()

    assert [(one["call_id"], one["outcome"]) for one in observer.data()] == [
        (first.id, "interrupted"),
        (second.id, "interrupted"),
    ]


async def test_tool_after_is_observed_for_a_lost_turn(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    observer = RecordingObserver(sup, "tool_after")
    call = await run.open_call("bash")
    await fence_actor(sup, session)
    await settle()

    assert [(one["call_id"], one["outcome"]) for one in observer.data()] == [
        (call.id, "interrupted")
    ]


async def test_spawn_after_is_observed_once_and_not_at_resume(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    observer = RecordingObserver(sup, "spawn_after")
    child = await session.spawn("echo", "errand", name="Kim", role="tester")
    await child.stop()
    await child.resume()
    await settle()

    assert observer.data() == [
        {"child_id": child.id, "agent": "echo", "name": "Kim", "role": "tester"}
    ]
    assert observer.events[0].session_id == session.id


# Records --------------------------------------------------------------------------------


async def test_record_written_is_observed_with_the_record(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    observer = RecordingObserver(sup, "record_written")
    before = len(await records(session))
    await run.do(run.turn.say("hello"))
    run.finish()
    await trio.sleep(1.0)
    written = (await records(session))[before:]

    assert len(written) >= 2
    assert observer.data() == [
        {"seq": one.seq, "at": one.at, "kind": one.kind, "body": one.body} for one in written
    ]
    assert [event.turn_id for event in observer.events] == [one.turn_id for one in written]


async def test_record_written_is_observed_for_session_created(sup: Supervisor) -> None:
    observer = RecordingObserver(sup, "record_written")
    await sup.create("echo")

    await refuse_unless_told_of_every_record(sup, observer)


async def test_record_written_is_observed_for_the_creation_of_a_child(
    sup: Supervisor, session: Session
) -> None:
    await sup.delete(session.id)
    parent = await sup.create("fake")
    observer = RecordingObserver(sup, "record_written")
    before = {parent.id: (await parent.info()).last_seq}
    child = await parent.spawn("echo", "errand")
    await settle()

    assert observer.words("seq", child)[0] == 1
    assert observer.words("seq", parent)[0] == before[parent.id] + 1


async def test_record_written_is_observed_for_the_history_of_a_fork(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    observer = RecordingObserver(sup, "record_written")
    fork = await session.fork()
    await settle()

    assert observer.words("seq", fork) == [one.seq for one in await records(fork)]


async def test_record_written_is_observed_once_across_an_actor_crash(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    observer = RecordingObserver(sup, "record_written")
    before = len(await records(session))
    await run.do(run.turn.say("hello"))
    await fence_actor(sup, session)
    await session.send("again")
    await settle()

    numbers = [one.seq for one in await records(session)][before:]
    assert observer.words("seq", session) == numbers


async def test_record_written_is_observed_once_across_suspend_and_wake(sup: Supervisor) -> None:
    session = await sup.create("echo")
    before = len(await records(session))
    observer = RecordingObserver(sup, "record_written")
    for _ in range(3):
        await session.prompt("hello")
        await trio.sleep(2 * REST_SECONDS)
    await session.stop()
    await session.prompt("hello")
    await settle()

    assert observer.words("seq", session) == [one.seq for one in await records(session)][before:]


async def test_mutating_an_observed_event_changes_nothing(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    def spoil(event: HookEvent) -> None:
        event.data["body"].clear()

    sup.hooks.add("record_written", spoil)
    observer = RecordingObserver(sup, "record_written")
    run.finish("done")
    await settle()

    assert all(observer.words("body"))
    assert all(one.body for one in await records(session, "turn_ended"))
