"""The pulse: time in which the process could not run does not count as silence."""

from __future__ import annotations

import pytest
import trio

from supervisor import Session
from supervisor.sessions.clock import GAP_SECONDS, TICK_SECONDS, ActiveClock
from tests.support.fake_agents import AgentRun, records


@pytest.fixture
def pulse() -> ActiveClock:
    """Has beaten once, at 100."""
    pulse = ActiveClock()
    pulse.tick(100.0)
    return pulse


def test_there_is_no_gap_before_the_first_tick() -> None:
    pulse = ActiveClock()
    pulse.tick(1_000_000.0)

    assert pulse.suspended_seconds == 0.0


def test_a_steady_pulse_counts_all_time(pulse: ActiveClock) -> None:
    for beat in range(1, 10_000):
        pulse.tick(100.0 + beat * TICK_SECONDS)

    assert pulse.suspended_seconds == 0.0


@pytest.mark.parametrize("late", [0.0, TICK_SECONDS, GAP_SECONDS])
def test_a_slightly_late_tick_is_not_a_gap(pulse: ActiveClock, late: float) -> None:
    pulse.tick(100.0 + late)

    assert pulse.suspended_seconds == 0.0


@pytest.mark.parametrize("late", [GAP_SECONDS + 0.001, 60.0, 1e9])
def test_time_between_two_distant_ticks_is_excluded(pulse: ActiveClock, late: float) -> None:
    pulse.tick(100.0 + late)

    assert pulse.suspended_seconds == pytest.approx(late)


def test_a_gap_is_excluded_once_regardless_of_the_reader(pulse: ActiveClock) -> None:
    pulse.tick(200.0)
    pulse.tick(200.0)
    pulse.tick(200.5)

    assert pulse.suspended_seconds == 100.0


def test_gaps_add_up(pulse: ActiveClock) -> None:
    pulse.tick(200.0)
    pulse.tick(201.0)
    pulse.tick(300.0)

    assert pulse.suspended_seconds == 199.0


def test_a_beat_that_is_missing_is_far_from_a_gap() -> None:
    assert 2 * TICK_SECONDS < GAP_SECONDS


def test_time_running_backwards_is_not_a_gap(pulse: ActiveClock) -> None:
    pulse.tick(200.0)
    pulse.tick(50.0)
    pulse.tick(51.0)

    assert pulse.suspended_seconds == 100.0


async def test_the_active_clock_excludes_no_virtual_time() -> None:
    pulse = ActiveClock()
    await pulse.run()
    before = pulse.now()
    await trio.sleep(10_000.0)

    assert pulse.now() - before == 10_000.0


async def test_a_pulse_beats_steadily(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.sessions.clock.uses_real_clock", lambda: True)
    beats: list[float] = []
    pulse = ActiveClock()
    monkeypatch.setattr(pulse, "tick", beats.append)
    with trio.move_on_after(3.5 * TICK_SECONDS):
        await pulse.run()

    assert beats == [number * TICK_SECONDS for number in range(4)]


async def test_excluded_time_does_not_count_as_silence(session: Session, run: AgentRun) -> None:
    await trio.sleep(299.0)
    session._parts.services.active_clock.suspended_seconds = 200.0
    await trio.sleep(198.0)
    assert await records(session, "stalled") == []
    await trio.sleep(4.0)

    (stalled,) = await records(session, "stalled")
    assert stalled.body["seconds"] == pytest.approx(300.0, abs=1.0)


async def test_a_gap_after_a_stall_does_not_undo_it(session: Session, run: AgentRun) -> None:
    await trio.sleep(301.0)
    session._parts.services.active_clock.suspended_seconds = 250.0
    await trio.sleep(1000.0)

    assert len(await records(session, "stalled")) == 1
    assert (await session.info()).badge == "hung"


async def test_a_wait_excludes_suspended_time(session: Session, run: AgentRun) -> None:
    await trio.sleep(100.0)
    session._parts.services.active_clock.suspended_seconds = 100.0
    await trio.sleep(7.0)
    (waits,) = (await session.why()).chain

    assert waits.seconds == pytest.approx(7.0)


async def test_a_silent_session_stalls_although_the_loop_blocks_at_times(
    session: Session, run: AgentRun
) -> None:
    pulse = session._parts.services.active_clock
    for _ in range(10):  # minutes, each with a hiccup
        for _ in range(int(60.0 / TICK_SECONDS)):
            pulse.tick(trio.current_time())
            await trio.sleep(TICK_SECONDS)
        await trio.sleep(GAP_SECONDS)

    assert len(await records(session, "stalled")) == 1
