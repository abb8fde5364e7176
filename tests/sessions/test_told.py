"""Observers: told once of each fact, with the right fields, in order, and never in the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import HookEvent, Restart, Session, Settings, Supervisor
from supervisor.sessions.hooks import ObservedPoint
from tests.sessions.cast import Player, Scene, records
from tests.sessions.watchmen import lose_the_actor

REST_SECONDS = 60.0


@pytest.fixture
def settings() -> Settings:
    return Settings(suspend_after_seconds=REST_SECONDS)


class Ear:
    """Hears one point, of one session or of all."""

    def __init__(self, sup: Supervisor, point: ObservedPoint) -> None:
        self.events: list[HookEvent] = []
        sup.hooks.add(point, self.events.append)

    def data(self, session: Session | None = None) -> list[Mapping[str, Any]]:
        return [
            dict(event.data)
            for event in self.events
            if session is None or event.session_id == session.id
        ]

    def words(self, field: str, session: Session | None = None) -> list[Any]:
        return [one[field] for one in self.data(session)]


async def refuse_unless_told_of_every_record(sup: Supervisor, ear: Ear) -> None:
    """Every record there is, each once, and in order within its session."""
    await settle()
    stored = await sup._house.store.all_records(after=0, limit=100_000)
    told = [(event.session_id, event.data["seq"]) for event in ear.events]
    for session_id in {record.session_id for _, record in stored}:
        numbers = [record.seq for _, record in stored if record.session_id == session_id]
        assert [seq for one, seq in told if one == session_id] == numbers


# Starts, stops, ends ------------------------------------------------------------------------------


async def test_of_each_start_of_an_agent_one_is_told(sup: Supervisor) -> None:
    ear = Ear(sup, "session_start")
    session = await sup.create("player")
    await session.stop()
    await session.resume()
    await settle()

    assert ear.data(session) == [{"agent": "player"}] * 2
    assert all(event.turn_id is None for event in ear.events)


async def test_a_session_that_wakes_up_has_its_agent_up_and_that_is_told(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await trio.sleep(2 * REST_SECONDS)
    ear = Ear(sup, "session_start")
    await session.prompt("hello")
    await settle()

    assert ear.data() == [{"agent": "echo"}]


async def test_of_a_stop_one_is_told_why(sup: Supervisor, session: Session, scene: Scene) -> None:
    ear, end = Ear(sup, "session_stop"), Ear(sup, "session_end")
    await session.stop()
    await session.stop()
    await settle()

    assert ear.data(session) == [{"reason": "user_cancelled", "detail": None}]
    assert end.events == []


async def test_of_children_that_stop_with_their_parent_one_is_told_too(
    sup: Supervisor, session: Session
) -> None:
    child = await session.spawn("player", "errand")
    ear = Ear(sup, "session_stop")
    await session.stop()
    await settle()

    assert [event.session_id for event in ear.events] == [child.id, session.id]
    assert ear.words("reason") == ["parent_stopped", "user_cancelled"]


@pytest.mark.parametrize("reason", ["archive", "reset", "delete", "timeout", "new"])
async def test_of_an_end_one_is_told_once_with_its_reason(sup: Supervisor, reason: str) -> None:
    key = "player:web:ann"
    session = await sup.create("player", key=key)
    ear = Ear(sup, "session_end")
    match reason:
        case "archive":
            await session.stop()
            await session.archive()
        case "reset":
            await sup.reset(key)
        case "delete":
            await sup.delete(session.id)
        case "timeout":
            session = await session.spawn("player", "errand", ttl_seconds=5.0)
            await trio.sleep(6.0)
        case "new":
            await sup.new(key)
    await settle()

    assert ear.data() == [{"reason": reason}]
    assert ear.events[0].session_id == session.id


async def test_a_suspended_child_whose_time_is_up_has_ended_by_time(
    sup: Supervisor, session: Session, player: Player
) -> None:
    child = await session.spawn("echo", "errand", ttl_seconds=1000.0)
    ear = Ear(sup, "session_end")
    await trio.sleep(1001.0)

    assert ear.data(child) == [{"reason": "timeout"}]


async def test_to_take_an_archived_session_back_is_no_end(sup: Supervisor) -> None:
    session = await sup.create("player")
    await session.stop()
    await session.archive()
    ear = Ear(sup, "session_end")
    await session.unarchive()
    await settle()

    assert ear.events == []


async def test_a_session_that_was_replaced_once_may_be_archived_later(sup: Supervisor) -> None:
    old = await sup.create("player", key="player:web:ann")
    await sup.delete((await sup.new("player:web:ann")).id)
    await old.unarchive()
    ear = Ear(sup, "session_end")
    await old.archive()
    await settle()

    assert ear.words("reason") == ["archive"]


async def test_the_end_of_a_deleted_session_is_told_after_its_stop(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    told: list[str] = []
    for point in ("turn_end", "session_stop", "session_end"):
        sup.hooks.add(point, lambda event: told.append(event.point))
    await sup.delete(session.id)
    await settle()

    assert told == ["turn_end", "session_stop", "session_end"]


# Turns and tools ----------------------------------------------------------------------------------


async def test_of_a_turn_one_is_told_what_came_of_it(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    ear = Ear(sup, "turn_end")
    scene.finish("done")
    await settle()

    assert ear.data() == [
        {"outcome": "completed", "stop_reason": "end_turn", "text": "done", "error": None}
    ]
    assert (ear.events[0].session_id, ear.events[0].turn_id) == (session.id, scene.turn.id)


@pytest.mark.parametrize("outcome", ["interrupted", "failed", "timed_out", "lost"])
async def test_of_a_turn_that_went_wrong_one_is_told_how(
    sup: Supervisor, player: Player, outcome: str
) -> None:
    session = await sup.create("player", turn_deadline_seconds=10.0)
    ear = Ear(sup, "turn_end")
    await session.send("go")
    scene = await player.next_scene()
    match outcome:
        case "interrupted":
            await session.interrupt()
        case "failed":
            scene.fail(ValueError("oh"))
        case "timed_out":
            await trio.sleep(11.0)
        case "lost":
            await lose_the_actor(sup, session)
    await settle()

    assert ear.words("outcome") == [outcome]
    if outcome == "failed":
        assert "oh" in ear.data()[0]["error"]


async def test_of_a_tool_one_is_told_what_came_of_it(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    ear = Ear(sup, "tool_after")
    call = await scene.open_call("bash")
    call.call.result({"files": 3})
    await call.close()
    await settle()

    assert ear.data() == [
        {"call_id": call.id, "name": "bash", "outcome": "completed", "result": {"files": 3}}
    ]
    assert ear.events[0].turn_id == scene.turn.id


async def test_of_a_tool_that_is_interrupted_alone_or_with_its_turn_one_is_told_once(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    ear = Ear(sup, "tool_after")
    first, second = await scene.open_call("one"), await scene.open_call("two")
    await session.interrupt(supervisor.ToolCall(first.id))
    await session.interrupt()
    await settle()

    assert [(one["call_id"], one["outcome"]) for one in ear.data()] == [
        (first.id, "interrupted"),
        (second.id, "interrupted"),
    ]


async def test_of_a_tool_whose_turn_is_lost_one_is_told_too(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    ear = Ear(sup, "tool_after")
    call = await scene.open_call("bash")
    await lose_the_actor(sup, session)
    await settle()

    assert [(one["call_id"], one["outcome"]) for one in ear.data()] == [(call.id, "interrupted")]


async def test_of_a_child_one_is_told_once_and_not_when_it_comes_back(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    ear = Ear(sup, "spawn_after")
    child = await session.spawn("echo", "errand", name="Kim", role="tester")
    await child.stop()
    await child.resume()
    await settle()

    assert ear.data() == [{"child_id": child.id, "agent": "echo", "name": "Kim", "role": "tester"}]
    assert ear.events[0].session_id == session.id


# Records ------------------------------------------------------------------------------------------


async def test_of_each_record_one_is_told_what_it_says(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    ear = Ear(sup, "record_written")
    before = len(await records(session))
    await scene.do(scene.turn.say("hello"))
    scene.finish()
    await trio.sleep(1.0)
    written = (await records(session))[before:]

    assert len(written) >= 2
    assert ear.data() == [
        {"seq": one.seq, "at": one.at, "kind": one.kind, "body": one.body} for one in written
    ]
    assert [event.turn_id for event in ear.events] == [one.turn_id for one in written]


async def test_of_the_first_record_of_a_session_one_is_told_too(sup: Supervisor) -> None:
    ear = Ear(sup, "record_written")
    await sup.create("echo")

    await refuse_unless_told_of_every_record(sup, ear)


async def test_of_the_first_record_of_a_child_one_is_told_too(
    sup: Supervisor, session: Session
) -> None:
    await sup.delete(session.id)
    parent = await sup.create("player")
    ear = Ear(sup, "record_written")
    before = {parent.id: (await parent.info()).last_seq}
    child = await parent.spawn("echo", "errand")
    await settle()

    assert ear.words("seq", child)[0] == 1
    assert ear.words("seq", parent)[0] == before[parent.id] + 1


async def test_of_what_a_fork_begins_with_one_is_told_too(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    ear = Ear(sup, "record_written")
    fork = await session.fork()
    await settle()

    assert ear.words("seq", fork) == [one.seq for one in await records(fork)]


async def test_of_records_around_the_death_of_an_actor_each_is_told_once(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    ear = Ear(sup, "record_written")
    before = len(await records(session))
    await scene.do(scene.turn.say("hello"))
    await lose_the_actor(sup, session)
    await session.send("again")
    await settle()

    numbers = [one.seq for one in await records(session)][before:]
    assert ear.words("seq", session) == numbers


async def test_of_records_over_sleep_and_waking_each_is_told_once(sup: Supervisor) -> None:
    session = await sup.create("echo")
    before = len(await records(session))
    ear = Ear(sup, "record_written")
    for _ in range(3):
        await session.prompt("hello")
        await trio.sleep(2 * REST_SECONDS)
    await session.stop()
    await session.prompt("hello")
    await settle()

    assert ear.words("seq", session) == [one.seq for one in await records(session)][before:]


async def test_what_an_observer_does_to_an_event_changes_nothing(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    def spoil(event: HookEvent) -> None:
        event.data["body"].clear()

    sup.hooks.add("record_written", spoil)
    ear = Ear(sup, "record_written")
    scene.finish("done")
    await settle()

    assert all(ear.words("body"))
    assert all(one.body for one in await records(session, "turn_ended"))


# Health -------------------------------------------------------------------------------------------


def changes(ear: Ear, session: Session) -> list[tuple[str, str]]:
    return [(one["before"], one["badge"]) for one in ear.data(session)]


async def test_a_badge_that_changes_is_told_with_what_it_was(
    sup: Supervisor, player: Player
) -> None:
    ear = Ear(sup, "health_changed")
    session = await sup.create("player")
    await session.send("go")
    scene = await player.next_scene()
    deed = scene.begin(scene.turn.ask("may I?", tool="bash"))
    await settle()
    await sup.answer((await sup.permissions())[0].id, "allow_once")
    await deed.wait()
    await trio.sleep(301.0)
    await scene.do(scene.turn.say("."))
    scene.finish()
    await settle()
    await session.stop()
    await settle()

    assert changes(ear, session) == [
        ("unknown", "idle"),
        ("idle", "running"),
        ("running", "waiting-for-you"),
        ("waiting-for-you", "running"),
        ("running", "hung"),
        ("hung", "running"),
        ("running", "idle"),
        ("idle", "unknown"),
        ("unknown", "stopped"),
    ]


async def test_each_change_of_a_badge_begins_where_the_last_one_ended(sup: Supervisor) -> None:
    session = await sup.create("scripted", restart=Restart(max_restarts=1))
    ear = Ear(sup, "health_changed")
    await session.prompt("say hello")
    await trio.sleep(2 * REST_SECONDS)
    await session.prompt("say hello again")
    await session.prompt("crash")
    await session.prompt("crash")
    await session.wait_stopped()
    await session.resume()
    await settle()
    told = changes(ear, session)

    assert [before for before, _ in told[1:]] == [badge for _, badge in told[:-1]]
    assert ("idle", "suspended") in told
    assert "failed" in {badge for _, badge in told}
    assert told[-1][1] == (await session.info()).badge


async def test_a_deaf_agent_makes_its_session_unhealthy_until_it_ends(
    sup: Supervisor, deaf_session: Session, deaf_scene: Scene
) -> None:
    ear = Ear(sup, "health_changed")
    await deaf_session.interrupt()
    deaf_scene.finish()
    await settle()

    assert changes(ear, deaf_session) == [("running", "unhealthy"), ("unhealthy", "idle")]


async def test_what_does_not_change_a_badge_is_not_told(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    ear = Ear(sup, "health_changed")
    await scene.do(scene.turn.say("hello"))
    await session.send("more")
    await session.set(title="another")
    await trio.sleep(1.0)

    assert ear.events == []


async def test_a_session_whose_actor_died_has_its_badge_told_as_it_is(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    ear = Ear(sup, "health_changed")
    await lose_the_actor(sup, session)
    await trio.sleep(5.0)

    assert changes(ear, session)[-1][1] == (await session.info()).badge


# Nobody is slowed ---------------------------------------------------------------------------------


async def hang(_: HookEvent) -> None:
    await trio.sleep_forever()


async def test_an_observer_that_hangs_slows_nobody(sup: Supervisor) -> None:
    for point in ("record_written", "turn_end", "session_start", "health_changed"):
        sup.hooks.add(point, hang)
    began = trio.current_time()
    session = await sup.create("echo")
    for _ in range(20):
        await session.prompt("hello")
    await session.stop()

    assert trio.current_time() == began


async def test_an_observer_that_raises_disturbs_nobody(sup: Supervisor) -> None:
    def broken(_: HookEvent) -> None:
        raise ValueError

    sup.hooks.add("turn_end", broken)
    ear = Ear(sup, "turn_end")
    session = await sup.create("echo")
    await session.prompt("hello")
    await settle()

    assert ear.words("outcome") == ["completed"]


async def test_observers_that_hang_lose_the_oldest_and_that_is_counted(sup: Supervisor) -> None:
    sup.hooks.add("record_written", hang)
    session = await sup.create("echo")
    for _ in range(400):
        await session.prompt("hello")

    assert sup.hooks.dropped > 0
    assert (await session.info()).turns == 400


async def test_an_observer_may_use_the_supervisor(sup: Supervisor, session: Session) -> None:
    other = await sup.create("echo")

    async def pass_on(event: HookEvent) -> None:
        if event.session_id == session.id:
            await other.prompt("they are done")

    sup.hooks.add("session_stop", pass_on)
    await session.stop()
    await settle()

    assert (await other.transcript())[0].text == "they are done"


# Before the end -----------------------------------------------------------------------------------


async def test_what_happened_is_told_before_the_supervisor_is_left() -> None:
    told: list[str] = []

    async def slow(event: HookEvent) -> None:
        await trio.sleep(0.1)
        told.append(event.data["kind"])

    async with supervisor.open() as sup:
        sup.hooks.add("record_written", slow)
        session = await sup.create("echo")
        await session.prompt("hello")
        last = (await records(session))[-1].kind

    assert last in told
    assert "turn_ended" in told


async def test_what_leaving_itself_does_is_told_too(player: Player) -> None:
    told: list[HookEvent] = []
    settings = Settings(exit_seconds=2.0)
    async with supervisor.open(agents=[player.agent], settings=settings) as sup:
        sup.hooks.add("turn_end", told.append)
        sup.hooks.add("health_changed", told.append)
        session = await sup.create("player")
        await session.send("go")
        await player.next_scene()

    outcomes = [event.data["outcome"] for event in told if event.point == "turn_end"]
    badges = [event.data["badge"] for event in told if event.point == "health_changed"]
    assert (outcomes, badges[-1]) == (["interrupted"], "suspended")


async def test_observers_that_hang_do_not_hold_up_the_end_for_long() -> None:
    async with supervisor.open(settings=Settings(exit_seconds=2.0)) as sup:
        sup.hooks.add("record_written", hang)
        session = await sup.create("echo")
        for _ in range(50):
            await session.prompt("hello")
        began = trio.current_time()

    assert trio.current_time() - began <= 10.0


@pytest.mark.parametrize("phase", ["idle", "running", "suspended", "stopped", "archived"])
async def test_the_end_of_a_session_that_is_deleted_is_told_in_every_phase(
    sup: Supervisor, phase: str
) -> None:
    session = await sup.create("scripted")
    match phase:
        case "running":
            await session.send("sleep 1000")
        case "suspended":
            await trio.sleep(2 * REST_SECONDS)
        case "stopped" | "archived":
            await session.stop()
    if phase == "archived":
        await session.archive()
    ear = Ear(sup, "session_end")
    await sup.delete(session.id)
    await settle()

    assert ear.data(session) == [{"reason": "delete"}]
