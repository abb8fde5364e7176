"""One task keeps all timers: each rings when it is due, once, and not if it was told otherwise."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from supervisor.sessions.time.timers import Timer, Timers

Rung = list[tuple[str, float]]


class Desk:
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
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.timers.run)
        await trio.testing.wait_all_tasks_blocked()
        yield made
        nursery.cancel_scope.cancel()


async def test_a_timer_rings_once_when_its_time_has_come(desk: Desk) -> None:
    desk.set("a", 5.0)

    await trio.sleep(100.0)

    assert desk.rung == [("a", 5.0)]


async def test_timers_ring_in_the_order_in_which_they_are_due(desk: Desk) -> None:
    for name, seconds in (("late", 9.0), ("early", 1.0), ("middle", 4.0)):
        desk.set(name, seconds)

    await trio.sleep(10.0)

    assert desk.rung == [("early", 1.0), ("middle", 4.0), ("late", 9.0)]


async def test_timers_that_are_due_together_ring_in_the_order_of_their_setting(desk: Desk) -> None:
    for name in "cab":
        desk.set(name, 2.0)

    await trio.sleep(3.0)

    assert [name for name, _ in desk.rung] == ["c", "a", "b"]


async def test_a_timer_of_no_seconds_rings_at_once_but_not_inside_the_call(desk: Desk) -> None:
    desk.set("now", 0.0)

    rung_inside_the_call = list(desk.rung)
    await trio.testing.wait_all_tasks_blocked()

    assert not rung_inside_the_call
    assert desk.rung == [("now", 0.0)]


async def test_a_cleared_timer_does_not_ring(desk: Desk) -> None:
    timer = desk.set("a", 5.0)

    timer.clear()
    await trio.sleep(10.0)

    assert desk.rung == []


async def test_a_cleared_timer_can_be_set_again(desk: Desk) -> None:
    timer = desk.set("a", 5.0)
    timer.clear()

    desk.timers.set(timer, 7.0)
    await trio.sleep(10.0)

    assert desk.rung == [("a", 7.0)]


async def test_a_timer_put_off_rings_only_at_its_new_time(desk: Desk) -> None:
    timer = desk.set("a", 5.0)
    await trio.sleep(4.0)

    desk.timers.set(timer, 5.0)
    await trio.sleep(20.0)

    assert desk.rung == [("a", 9.0)]


async def test_a_timer_brought_forward_rings_only_at_its_new_time(desk: Desk) -> None:
    timer = desk.set("a", 50.0)

    desk.timers.set(timer, 2.0)
    await trio.sleep(100.0)

    assert desk.rung == [("a", 2.0)]


async def test_a_timer_brought_forward_and_put_off_again_rings_once(desk: Desk) -> None:
    timer = desk.set("a", 50.0)

    desk.timers.set(timer, 2.0)
    desk.timers.set(timer, 50.0)
    await trio.sleep(100.0)

    assert desk.rung == [("a", 50.0)]


async def test_a_timer_that_has_rung_can_be_set_again(desk: Desk) -> None:
    timer = desk.set("a", 1.0)
    await trio.sleep(2.0)

    desk.timers.set(timer, 3.0)
    await trio.sleep(10.0)

    assert desk.rung == [("a", 1.0), ("a", 5.0)]


async def test_a_timer_may_set_itself_while_it_rings(desk: Desk) -> None:
    def ring(name: str) -> None:
        desk.note(name)
        if len(desk.rung) < 3:
            desk.timers.set(ticking, 1.0)

    ticking = Timer("tick", ring)
    desk.timers.set(ticking, 1.0)
    await trio.sleep(10.0)

    assert desk.rung == [("tick", 1.0), ("tick", 2.0), ("tick", 3.0)]


async def test_a_timer_may_clear_another_that_is_due_at_the_same_time(desk: Desk) -> None:
    second = desk.make("second")
    desk.timers.set(Timer("first", lambda _: second.clear()), 1.0)
    desk.timers.set(second, 1.0)

    await trio.sleep(2.0)

    assert desk.rung == []


async def test_a_dropped_timer_lets_go_of_its_maker_and_never_rings(desk: Desk) -> None:
    timer = desk.set("a", 1.0)

    timer.drop()
    desk.timers.set(timer, 2.0)
    await trio.sleep(5.0)

    assert desk.rung == []
    assert timer._ring is None


async def test_a_timer_that_is_set_again_and_again_is_kept_once(desk: Desk) -> None:
    timer = desk.set("a", 10.0)

    for seconds in range(10, 1000):
        desk.timers.set(timer, float(seconds))

    assert len(desk.timers._heap) == 1


async def test_a_thousand_timers_ring_each_at_its_own_time(desk: Desk) -> None:
    seconds = [float(number * 7919 % 1009) for number in range(1, 1001)]

    for number, after in enumerate(seconds):
        desk.set(str(number), after)
    await trio.sleep(2000.0)

    assert {int(name): at for name, at in desk.rung} == dict(enumerate(seconds))
    assert len(desk.rung) == 1000


async def test_a_timer_set_for_never_does_not_ring(desk: Desk) -> None:
    desk.set("never", math.inf)
    desk.set("once", 1.0)

    await trio.sleep(80_000.0)

    assert desk.rung == [("once", 1.0)]


async def test_timers_set_before_the_task_runs_are_not_forgotten() -> None:
    desk = Desk()
    desk.set("a", 1.0)

    with trio.move_on_after(5.0):
        await desk.timers.run()

    assert desk.rung == [("a", 1.0)]
