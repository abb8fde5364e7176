"""Observers: health changes, slow observers, observers at the end."""

from __future__ import annotations

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import HookEvent, Restart, Session, Settings, Supervisor
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.fake_hooks import REST_SECONDS, RecordingObserver, fence_actor


@pytest.fixture
def settings() -> Settings:
    return Settings(suspend_after_seconds=REST_SECONDS)


# Health ---------------------------------------------------------------------------------


def changes(observer: RecordingObserver, session: Session) -> list[tuple[str, str]]:
    return [(one["before"], one["badge"]) for one in observer.data(session)]


async def test_health_changed_has_the_new_and_the_previous_badge(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    observer = RecordingObserver(sup, "health_changed")
    session = await sup.create("fake")
    await session.send("go")
    run = await fake_agent.next_run()
    action = run.begin(run.turn.ask("may I?", tool="bash"))
    await settle()
    await sup.answer((await sup.permissions())[0].id, "allow_once")
    await action.wait()
    await trio.sleep(301.0)
    await run.do(run.turn.say("."))
    run.finish()
    await settle()
    await session.stop()
    await settle()

    assert changes(observer, session) == [
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


async def test_consecutive_health_changes_are_contiguous(sup: Supervisor) -> None:
    session = await sup.create("scripted", restart=Restart(max_restarts=1))
    observer = RecordingObserver(sup, "health_changed")
    await session.prompt("say hello")
    await trio.sleep(2 * REST_SECONDS)
    await session.prompt("say hello again")
    await session.prompt("crash")
    await session.prompt("crash")
    await session.wait_stopped()
    await session.resume()
    await settle()
    told = changes(observer, session)

    assert [before for before, _ in told[1:]] == [badge for _, badge in told[:-1]]
    assert ("idle", "suspended") in told
    assert "failed" in {badge for _, badge in told}
    assert told[-1][1] == (await session.info()).badge


async def test_a_zombie_makes_its_session_unhealthy_until_it_ends(
    sup: Supervisor, shielded_session: Session, shielded_run: AgentRun
) -> None:
    observer = RecordingObserver(sup, "health_changed")
    await shielded_session.interrupt()
    shielded_run.finish()
    await settle()

    assert changes(observer, shielded_session) == [("running", "unhealthy"), ("unhealthy", "idle")]


async def test_health_changed_is_not_observed_without_a_badge_change(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    observer = RecordingObserver(sup, "health_changed")
    await run.do(run.turn.say("hello"))
    await session.send("more")
    await session.set(title="another")
    await trio.sleep(1.0)

    assert observer.events == []


async def test_health_changed_is_correct_after_an_actor_crash(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    observer = RecordingObserver(sup, "health_changed")
    await fence_actor(sup, session)
    await trio.sleep(5.0)

    assert changes(observer, session)[-1][1] == (await session.info()).badge


# No slow-down ---------------------------------------------------------------------------


async def hang(_: HookEvent) -> None:
    await trio.sleep_forever()


async def test_an_observer_that_hangs_delays_no_session(sup: Supervisor) -> None:
    for point in ("record_written", "turn_end", "session_start", "health_changed"):
        sup.hooks.add(point, hang)
    began = trio.current_time()
    session = await sup.create("echo")
    for _ in range(20):
        await session.prompt("hello")
    await session.stop()

    assert trio.current_time() == began


async def test_an_observer_that_raises_affects_no_session(sup: Supervisor) -> None:
    def broken(_: HookEvent) -> None:
        raise ValueError

    sup.hooks.add("turn_end", broken)
    observer = RecordingObserver(sup, "turn_end")
    session = await sup.create("echo")
    await session.prompt("hello")
    await settle()

    assert observer.words("outcome") == ["completed"]


async def test_hanging_observers_lose_the_oldest_events_and_count_the_loss(sup: Supervisor) -> None:
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


# Before the end -------------------------------------------------------------------------


async def test_observers_are_called_before_open_returns() -> None:
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


async def test_observers_are_called_for_the_effects_of_leaving(fake_agent: FakeAgent) -> None:
    told: list[HookEvent] = []
    settings = Settings(exit_seconds=2.0)
    async with supervisor.open(agents=[fake_agent.agent], settings=settings) as sup:
        sup.hooks.add("turn_end", told.append)
        sup.hooks.add("health_changed", told.append)
        session = await sup.create("fake")
        await session.send("go")
        await fake_agent.next_run()

    outcomes = [event.data["outcome"] for event in told if event.point == "turn_end"]
    badges = [event.data["badge"] for event in told if event.point == "health_changed"]
    assert (outcomes, badges[-1]) == (["interrupted"], "suspended")


async def test_hanging_observers_delay_the_exit_only_briefly() -> None:
    async with supervisor.open(settings=Settings(exit_seconds=2.0)) as sup:
        sup.hooks.add("record_written", hang)
        session = await sup.create("echo")
        for _ in range(50):
            await session.prompt("hello")
        began = trio.current_time()

    assert trio.current_time() - began <= 10.0


@pytest.mark.parametrize("phase", ["idle", "running", "suspended", "stopped", "archived"])
async def test_session_end_of_a_deleted_session_is_observed_in_every_phase(
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
    observer = RecordingObserver(sup, "session_end")
    await sup.delete(session.id)
    await settle()

    assert observer.data(session) == [{"reason": "delete"}]
