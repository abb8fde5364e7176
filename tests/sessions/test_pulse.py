"""The pulse: time in which nothing could run is nobody's silence."""

from __future__ import annotations

import math

import pytest
import trio

from supervisor import Session
from supervisor.sessions.pulse import BEAT_SECONDS, GAP_SECONDS, Pulse
from tests.sessions.cast import Scene, records


@pytest.fixture
def pulse() -> Pulse:
    """Has beaten once, at 100."""
    pulse = Pulse()
    pulse.beat(100.0)
    return pulse


def test_before_the_first_beat_there_is_no_gap() -> None:
    pulse = Pulse()

    assert pulse.look(1_000_000.0) == -math.inf
    pulse.beat(1_000_000.0)
    assert pulse.floor == -math.inf


def test_a_steady_pulse_counts_all_silence(pulse: Pulse) -> None:
    for beat in range(1, 10_000):
        pulse.beat(100.0 + beat * BEAT_SECONDS)

    assert pulse.floor == -math.inf


@pytest.mark.parametrize("late", [0.0, BEAT_SECONDS, GAP_SECONDS])
def test_a_beat_that_is_a_little_late_is_no_gap(pulse: Pulse, late: float) -> None:
    pulse.beat(100.0 + late)

    assert pulse.floor == -math.inf


@pytest.mark.parametrize("late", [GAP_SECONDS + 0.001, 60.0, 1e9])
def test_after_a_gap_silence_begins_anew(pulse: Pulse, late: float) -> None:
    pulse.beat(100.0 + late)

    assert pulse.floor == 100.0 + late


def test_whoever_looks_before_the_next_beat_sees_the_gap(pulse: Pulse) -> None:
    assert pulse.look(200.0) == 200.0
    pulse.beat(200.5)

    assert pulse.floor == 200.0


def test_a_gap_that_was_seen_is_not_seen_again(pulse: Pulse) -> None:
    pulse.beat(200.0)
    for looks in range(5):
        assert pulse.look(200.0 + looks * GAP_SECONDS) == 200.0


def test_a_beat_that_is_missing_is_far_from_a_gap() -> None:
    assert 2 * BEAT_SECONDS < GAP_SECONDS


def test_of_two_gaps_the_later_one_counts(pulse: Pulse) -> None:
    pulse.beat(200.0)
    pulse.beat(201.0)
    pulse.beat(300.0)

    assert pulse.floor == 300.0


def test_time_that_runs_backwards_is_no_gap(pulse: Pulse) -> None:
    pulse.beat(50.0)

    assert pulse.look(51.0) == -math.inf


def test_the_floor_never_sinks(pulse: Pulse) -> None:
    pulse.beat(200.0)
    pulse.beat(10.0)
    pulse.beat(11.0)

    assert pulse.floor == 200.0


async def test_where_time_is_virtual_nothing_stands_still() -> None:
    pulse = Pulse()
    with trio.move_on_after(100.0):
        await pulse.run()

    assert (trio.current_time(), pulse.look(1e9)) == (0.0, -math.inf)


async def test_a_pulse_beats_steadily(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.sessions.pulse.time_is_real", lambda: True)
    beats: list[float] = []
    pulse = Pulse()
    monkeypatch.setattr(pulse, "beat", beats.append)
    with trio.move_on_after(3.5 * BEAT_SECONDS):
        await pulse.run()

    assert beats == [number * BEAT_SECONDS for number in range(4)]


async def test_a_silence_is_measured_from_the_floor(session: Session, scene: Scene) -> None:
    await trio.sleep(299.0)
    session._house.pulse.floor = trio.current_time()
    await trio.sleep(298.0)
    assert await records(session, "stalled") == []
    await trio.sleep(4.0)

    (stalled,) = await records(session, "stalled")
    assert stalled.body["seconds"] == pytest.approx(300.0, abs=1.0)


async def test_a_gap_that_begins_after_a_stall_does_not_take_it_back(
    session: Session, scene: Scene
) -> None:
    await trio.sleep(301.0)
    session._house.pulse.floor = trio.current_time()
    await trio.sleep(1000.0)

    assert len(await records(session, "stalled")) == 1
    assert (await session.info()).badge == "hung"


@pytest.mark.xfail(strict=True, reason="P1")
async def test_a_wait_is_not_longer_than_the_time_in_which_anything_ran(
    session: Session, scene: Scene
) -> None:
    await trio.sleep(100.0)
    session._house.pulse.floor = trio.current_time()
    await trio.sleep(7.0)
    (waits,) = (await session.why()).chain

    assert waits.seconds == pytest.approx(7.0)


@pytest.mark.xfail(strict=True, reason="P3")
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
