"""The pulse: time in which nothing could run is nobody's silence."""

from __future__ import annotations

import pytest
import trio

from supervisor import Session
from supervisor.sessions.time.pulse import BEAT_SECONDS, GAP_SECONDS, Pulse
from tests.sessions.cast import Scene, records


@pytest.fixture
def pulse() -> Pulse:
    """Has beaten once, at 100."""
    pulse = Pulse()
    pulse.beat(100.0)
    return pulse


def test_before_the_first_beat_there_is_no_gap() -> None:
    pulse = Pulse()
    pulse.beat(1_000_000.0)

    assert pulse.lost_seconds == 0.0


def test_a_steady_pulse_counts_all_time(pulse: Pulse) -> None:
    for beat in range(1, 10_000):
        pulse.beat(100.0 + beat * BEAT_SECONDS)

    assert pulse.lost_seconds == 0.0


@pytest.mark.parametrize("late", [0.0, BEAT_SECONDS, GAP_SECONDS])
def test_a_beat_that_is_a_little_late_is_no_gap(pulse: Pulse, late: float) -> None:
    pulse.beat(100.0 + late)

    assert pulse.lost_seconds == 0.0


@pytest.mark.parametrize("late", [GAP_SECONDS + 0.001, 60.0, 1e9])
def test_what_lies_between_two_beats_that_are_far_apart_is_lost(pulse: Pulse, late: float) -> None:
    pulse.beat(100.0 + late)

    assert pulse.lost_seconds == pytest.approx(late)


def test_a_gap_is_lost_once_whoever_sees_it_first(pulse: Pulse) -> None:
    pulse.beat(200.0)
    pulse.beat(200.0)
    pulse.beat(200.5)

    assert pulse.lost_seconds == 100.0


def test_gaps_add_up(pulse: Pulse) -> None:
    pulse.beat(200.0)
    pulse.beat(201.0)
    pulse.beat(300.0)

    assert pulse.lost_seconds == 199.0


def test_a_beat_that_is_missing_is_far_from_a_gap() -> None:
    assert 2 * BEAT_SECONDS < GAP_SECONDS


def test_time_that_runs_backwards_is_no_gap_and_gives_nothing_back(pulse: Pulse) -> None:
    pulse.beat(200.0)
    pulse.beat(50.0)
    pulse.beat(51.0)

    assert pulse.lost_seconds == 100.0


async def test_where_time_is_virtual_nothing_stands_still() -> None:
    pulse = Pulse()
    await pulse.run()
    before = pulse.running_time()
    await trio.sleep(10_000.0)

    assert pulse.running_time() - before == 10_000.0


async def test_a_pulse_beats_steadily(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.sessions.time.pulse.time_is_real", lambda: True)
    beats: list[float] = []
    pulse = Pulse()
    monkeypatch.setattr(pulse, "beat", beats.append)
    with trio.move_on_after(3.5 * BEAT_SECONDS):
        await pulse.run()

    assert beats == [number * BEAT_SECONDS for number in range(4)]


async def test_what_was_lost_is_no_silence(session: Session, scene: Scene) -> None:
    await trio.sleep(299.0)
    session._house.pulse.lost_seconds = 200.0
    await trio.sleep(198.0)
    assert await records(session, "stalled") == []
    await trio.sleep(4.0)

    (stalled,) = await records(session, "stalled")
    assert stalled.body["seconds"] == pytest.approx(300.0, abs=1.0)


async def test_a_gap_that_begins_after_a_stall_does_not_take_it_back(
    session: Session, scene: Scene
) -> None:
    await trio.sleep(301.0)
    session._house.pulse.lost_seconds = 250.0
    await trio.sleep(1000.0)

    assert len(await records(session, "stalled")) == 1
    assert (await session.info()).badge == "hung"


async def test_a_wait_is_not_longer_than_the_time_in_which_anything_ran(
    session: Session, scene: Scene
) -> None:
    await trio.sleep(100.0)
    session._house.pulse.lost_seconds = 100.0
    await trio.sleep(7.0)
    (waits,) = (await session.why()).chain

    assert waits.seconds == pytest.approx(7.0)


async def test_whoever_is_silent_is_stalled_though_the_loop_hangs_now_and_then(
    session: Session, scene: Scene
) -> None:
    pulse = session._house.pulse
    for _ in range(10):  # minutes, each with a hiccup
        for _ in range(int(60.0 / BEAT_SECONDS)):
            pulse.beat(trio.current_time())
            await trio.sleep(BEAT_SECONDS)
        await trio.sleep(GAP_SECONDS)

    assert len(await records(session, "stalled")) == 1
