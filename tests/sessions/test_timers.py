"""One task keeps all timers: each rings when it is due, once, and not if it was told otherwise."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from supervisor import (
    Ladder,
    Supervisor,
)
from supervisor.sessions.timers import Timer, Timers

Rung = list[tuple[str, float]]


class TimerHarness:
    """Timers at work, and what has rung at which time."""

    def __init__(self) -> None:
        self.timers = Timers()
        self.rung: Rung = []
        self.began = trio.current_time()

    def make(self, name: str) -> Timer:
        return Timer(name, self.note)

    def note(self, name: str) -> None:
        self.rung.append((name, trio.current_time() - self.began))

    def set(self, name: str, after_seconds: float) -> Timer:
        timer = self.make(name)
        self.timers.set(timer, after_seconds)
        return timer


@pytest.fixture
async def harness() -> AsyncIterator[TimerHarness]:
    made = TimerHarness()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.timers.run)
        await trio.testing.wait_all_tasks_blocked()
        yield made
        nursery.cancel_scope.cancel()


async def test_a_timer_rings_once_when_its_time_has_come(harness: TimerHarness) -> None:
    harness.set("a", 5.0)

    await trio.sleep(100.0)

    assert harness.rung == [("a", 5.0)]


async def test_timers_fire_in_the_order_of_their_deadlines(harness: TimerHarness) -> None:
    for name, seconds in (("late", 9.0), ("early", 1.0), ("middle", 4.0)):
        harness.set(name, seconds)

    await trio.sleep(10.0)

    assert harness.rung == [("early", 1.0), ("middle", 4.0), ("late", 9.0)]


async def test_timers_that_are_due_together_ring_in_the_order_of_their_setting(
    harness: TimerHarness,
) -> None:
    for name in "cab":
        harness.set(name, 2.0)

    await trio.sleep(3.0)

    assert [name for name, _ in harness.rung] == ["c", "a", "b"]


async def test_a_timer_of_zero_seconds_fires_after_the_call_returns(
    harness: TimerHarness,
) -> None:
    harness.set("now", 0.0)

    rung_inside_the_call = list(harness.rung)
    await trio.testing.wait_all_tasks_blocked()

    assert not rung_inside_the_call
    assert harness.rung == [("now", 0.0)]


async def test_a_cleared_timer_does_not_ring(harness: TimerHarness) -> None:
    timer = harness.set("a", 5.0)

    timer.clear()
    await trio.sleep(10.0)

    assert harness.rung == []


async def test_a_cleared_timer_can_be_set_again(harness: TimerHarness) -> None:
    timer = harness.set("a", 5.0)
    timer.clear()

    harness.timers.set(timer, 7.0)
    await trio.sleep(10.0)

    assert harness.rung == [("a", 7.0)]


async def test_a_postponed_timer_fires_only_at_its_new_time(harness: TimerHarness) -> None:
    timer = harness.set("a", 5.0)
    await trio.sleep(4.0)

    harness.timers.set(timer, 5.0)
    await trio.sleep(20.0)

    assert harness.rung == [("a", 9.0)]


async def test_an_advanced_timer_fires_only_at_its_new_time(harness: TimerHarness) -> None:
    timer = harness.set("a", 50.0)

    harness.timers.set(timer, 2.0)
    await trio.sleep(100.0)

    assert harness.rung == [("a", 2.0)]


async def test_an_advanced_and_postponed_timer_fires_once(harness: TimerHarness) -> None:
    timer = harness.set("a", 50.0)

    harness.timers.set(timer, 2.0)
    harness.timers.set(timer, 50.0)
    await trio.sleep(100.0)

    assert harness.rung == [("a", 50.0)]


async def test_a_timer_that_has_rung_can_be_set_again(harness: TimerHarness) -> None:
    timer = harness.set("a", 1.0)
    await trio.sleep(2.0)

    harness.timers.set(timer, 3.0)
    await trio.sleep(10.0)

    assert harness.rung == [("a", 1.0), ("a", 5.0)]


async def test_a_timer_may_set_itself_when_it_fires(harness: TimerHarness) -> None:
    def ring(name: str) -> None:
        harness.note(name)
        if len(harness.rung) < 3:
            harness.timers.set(ticking, 1.0)

    ticking = Timer("tick", ring)
    harness.timers.set(ticking, 1.0)
    await trio.sleep(10.0)

    assert harness.rung == [("tick", 1.0), ("tick", 2.0), ("tick", 3.0)]


async def test_a_timer_may_clear_another_that_is_due_at_the_same_time(
    harness: TimerHarness,
) -> None:
    second = harness.make("second")
    harness.timers.set(Timer("first", lambda _: second.clear()), 1.0)
    harness.timers.set(second, 1.0)

    await trio.sleep(2.0)

    assert harness.rung == []


async def test_a_dropped_timer_lets_go_of_its_maker_and_never_rings(harness: TimerHarness) -> None:
    timer = harness.set("a", 1.0)

    timer.drop()
    harness.timers.set(timer, 2.0)
    await trio.sleep(5.0)

    assert harness.rung == []
    assert timer._callback is None


async def test_a_timer_that_is_set_again_and_again_is_kept_once(harness: TimerHarness) -> None:
    timer = harness.set("a", 10.0)

    for seconds in range(10, 1000):
        harness.timers.set(timer, float(seconds))

    assert len(harness.timers._heap) == 1


async def test_a_thousand_timers_ring_each_at_its_own_time(harness: TimerHarness) -> None:
    seconds = [float(number * 7919 % 1009) for number in range(1, 1001)]

    for number, after in enumerate(seconds):
        harness.set(str(number), after)
    await trio.sleep(2000.0)

    assert {int(name): at for name, at in harness.rung} == dict(enumerate(seconds))
    assert len(harness.rung) == 1000


async def test_a_timer_set_for_never_does_not_ring(harness: TimerHarness) -> None:
    harness.set("never", math.inf)
    harness.set("once", 1.0)

    await trio.sleep(80_000.0)

    assert harness.rung == [("once", 1.0)]


async def test_timers_set_before_the_task_runs_are_not_forgotten() -> None:
    harness = TimerHarness()
    harness.set("a", 1.0)

    with trio.move_on_after(5.0):
        await harness.timers.run()

    assert harness.rung == [("a", 1.0)]


async def test_timers_that_were_dropped_do_not_pile_up() -> None:
    timers, rung = Timers(), list[str]()
    kept = Timer("kept", rung.append)
    timers.set(kept, 3600.0)

    for number in range(5_000):
        timer = Timer(f"{number}", rung.append)
        timers.set(timer, 1800.0)
        timers.drop(timer)

    assert len(timers._heap) <= 1_001
    with trio.move_on_after(7200.0):
        await timers.run()
    assert rung == ["kept"]


async def test_deleted_sessions_leave_no_timers(
    monkeypatch: pytest.MonkeyPatch, sup: Supervisor
) -> None:
    monkeypatch.setattr("supervisor.sessions.timers._MAX_DROPPED", 10, raising=False)
    for _ in range(50):
        session = await sup.create("echo", ladder=Ladder(ask_seconds=1000.0))
        await sup.delete(session.id)

    assert len(sup._services.timers._heap) < 20
