"""Stops of sessions: at once, after the turn, concurrently."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from supervisor import (
    InputRefused,
    Phase,
    Session,
    SessionNotActive,
    Settings,
    Supervisor,
    SupervisorError,
)
from supervisor.core.info import Info
from tests.support.fake_agents import AgentRun, FakeAgent, outcomes, records
from tests.support.session_states import NEVER, REST_SECONDS, is_in_memory, phase_of


@pytest.fixture
def settings() -> Settings:
    return Settings(suspend_after_seconds=REST_SECONDS)


async def test_stopping_an_idle_session_has_reason_user_cancelled(
    sup: Supervisor, session: Session
) -> None:
    await session.stop()

    info = await session.info()
    await trio.testing.wait_all_tasks_blocked()

    assert (info.phase, info.badge) == (Phase.STOPPED, "stopped")
    assert (info.stop_reason, info.stop_detail) == ("user_cancelled", None)
    assert info.last_failure is None
    assert not is_in_memory(sup, session)


async def test_stopping_now_interrupts_the_turn(session: Session, run: AgentRun) -> None:
    await session.stop()

    [ended] = await records(session, "turn_ended")

    assert run.over.is_set()
    assert (ended.turn_id, ended.body["outcome"]) == (run.turn.id, "interrupted")


async def test_stopping_after_the_turn_lets_it_end(
    session: Session, run: AgentRun, nursery: trio.Nursery
) -> None:
    nursery.start_soon(lambda: session.stop(when="after_turn"))
    await trio.testing.wait_all_tasks_blocked()
    meanwhile = await phase_of(session)

    run.finish("done")
    await session.wait_stopped()

    [ended] = await records(session, "turn_ended")
    assert meanwhile is Phase.RUNNING
    assert (ended.body["outcome"], ended.body["text"]) == ("completed", "done")


async def test_stopping_after_the_turn_stops_an_idle_session_at_once(session: Session) -> None:
    await session.stop(when="after_turn")

    assert await phase_of(session) is Phase.STOPPED


async def test_stopping_now_overtakes_a_stop_after_the_turn(
    session: Session, run: AgentRun, nursery: trio.Nursery
) -> None:
    nursery.start_soon(lambda: session.stop(when="after_turn"))
    await trio.testing.wait_all_tasks_blocked()

    await session.stop()

    assert run.over.is_set()
    assert len(await records(session, "session_stopped")) == 1


async def test_a_second_stop_has_no_effect(session: Session) -> None:
    await session.stop()
    await session.stop()
    await session.stop(when="after_turn")

    assert len(await records(session, "session_stopped")) == 1


async def test_all_callers_of_stop_wait_for_the_same_end(
    sup: Supervisor, shielded_agent: FakeAgent
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    await shielded_agent.next_run()
    phases: list[Phase] = []

    async def stop() -> None:
        await session.stop()
        phases.append(await phase_of(session))

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(stop)
        await trio.sleep(1.0)
        meanwhile = (await phase_of(session), list(phases))

    assert meanwhile == (Phase.STOPPING, [])
    assert phases == [Phase.STOPPED] * 20
    assert len(await records(session, "session_stopped")) == 1


async def test_a_cancelled_caller_of_stop_does_not_undo_it(
    sup: Supervisor, shielded_agent: FakeAgent
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    await shielded_agent.next_run()

    with trio.move_on_after(1.0) as patience:
        await session.stop()
    info = await session.wait_stopped()

    assert patience.cancelled_caught
    assert info.stop_reason == "user_cancelled"


async def test_stopping_cancels_queued_inputs_and_releases_their_waiters(
    session: Session, run: AgentRun
) -> None:
    waited: list[SupervisorError] = []

    async def wait_for_it() -> None:
        with pytest.raises(InputRefused, match="cancelled") as refused:
            await session.prompt("second")
        waited.append(refused.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for_it)
        await trio.testing.wait_all_tasks_blocked()
        await session.stop()

    assert list((await outcomes(session)).values()) == [["delivered"], ["cancelled"]]
    assert waited[0].hint


async def test_stopping_after_the_turn_cancels_queued_inputs(
    session: Session, run: AgentRun, nursery: trio.Nursery
) -> None:
    await session.send("second")
    nursery.start_soon(lambda: session.stop(when="after_turn"))
    await trio.testing.wait_all_tasks_blocked()

    run.finish()
    info = await session.wait_stopped()

    assert (info.queued, info.turns) == (0, 1)


async def test_a_stopping_session_takes_no_input(
    sup: Supervisor, shielded_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    await shielded_agent.next_run()
    nursery.start_soon(session.stop)
    await trio.testing.wait_all_tasks_blocked()

    with pytest.raises(SessionNotActive):
        await session.send("second")

    assert len(await outcomes(session)) == 1


async def test_the_first_cause_wins_over_a_later_crash(
    sup: Supervisor, nursery: trio.Nursery
) -> None:
    session = await sup.create("scripted", restart=NEVER)
    await session.send("sleep 5\ncrash")
    await trio.sleep(1.0)

    await session.stop(when="after_turn")
    info = await session.info()

    assert (info.stop_reason, info.badge) == ("user_cancelled", "stopped")
    assert info.last_failure is not None


async def test_an_earlier_crash_stays_the_cause(sup: Supervisor) -> None:
    session = await sup.create("scripted", restart=NEVER)
    await session.prompt("crash")

    await session.stop()
    info = await session.info()

    assert (info.stop_reason, info.badge) == ("agent_crashed", "failed")


async def test_wait_stopped_returns_the_info_of_the_stopped_session(
    session: Session, nursery: trio.Nursery
) -> None:
    seen: list[Info] = []

    async def wait() -> None:
        seen.append(await session.wait_stopped())

    nursery.start_soon(wait)
    await trio.testing.wait_all_tasks_blocked()
    before = list(seen)
    await session.stop()
    await trio.testing.wait_all_tasks_blocked()

    assert before == []
    assert [info.phase for info in seen] == [Phase.STOPPED]


async def test_wait_stopped_survives_a_suspension(session: Session, nursery: trio.Nursery) -> None:
    seen: list[Info] = []

    async def wait() -> None:
        seen.append(await session.wait_stopped())

    nursery.start_soon(wait)
    await trio.sleep(2 * REST_SECONDS)
    await session.stop()
    await trio.testing.wait_all_tasks_blocked()

    assert [info.phase for info in seen] == [Phase.STOPPED]
