import os
import threading
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
import trio_util

from actors.testing import Deadlock, OutOfTime, VirtualClock


def run(main: Callable[[], Awaitable[object]]) -> object:
    return trio.run(main, clock=VirtualClock())


async def never(event: trio.Event) -> None:
    await event.wait()


async def one_waits_for_the_other() -> None:
    event = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(never, event, name="patient")
        await trio.sleep(5)


def test_an_hour_of_virtual_time_is_exact() -> None:
    async def main() -> float:
        await trio.sleep(3600)
        return trio.current_time()

    assert run(main) == 3600.0


def test_time_begins_at_zero() -> None:
    async def main() -> float:
        await trio.lowlevel.checkpoint()
        return trio.current_time()

    assert run(main) == 0.0


def test_sleepers_wake_in_the_order_of_their_deadlines() -> None:
    woken: list[float] = []

    async def sleep(seconds: float) -> None:
        await trio.sleep(seconds)
        woken.append(trio.current_time())

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for seconds in (3.0, 1.0, 2.0):
                nursery.start_soon(sleep, seconds)

    run(main)
    assert woken == [1.0, 2.0, 3.0]


def test_a_wait_for_ever_beside_a_repeated_timer_ends_at_the_limit() -> None:
    cleaned_up: list[float] = []

    async def tick() -> None:
        try:
            async for _ in trio_util.periodic(60.0):
                pass
        finally:
            cleaned_up.append(trio.current_time())

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick)
            nursery.start_soon(never, trio.Event(), name="patient")

    with pytest.raises(OutOfTime, match="after 3600 s of virtual time; 3 blocked") as caught:
        trio.run(main, clock=VirtualClock(limit_seconds=3600.0))

    assert cleaned_up == [3600.0]
    assert any("patient" in task for task in caught.value.waiting)


def test_time_stands_still_while_a_task_can_run() -> None:
    async def main() -> bool:
        with trio.move_on_after(1) as scope:
            for _ in range(100):
                await trio.lowlevel.checkpoint()
        return scope.cancelled_caught

    assert run(main) is False


def test_a_task_that_waits_for_quiet_runs_before_the_jump() -> None:
    async def main() -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 60)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            return trio.current_time()

    assert run(main) == 0.0


def test_a_cushion_of_real_time_is_respected() -> None:
    async def main() -> float:
        with trio.move_on_after(60):
            await trio.testing.wait_all_tasks_blocked(cushion=0.001)
        return trio.current_time()

    assert run(main) == 0.0


def test_a_thread_at_work_holds_the_time() -> None:
    started, go_on = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        go_on.wait()

    async def main() -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, work)
            await trio.to_thread.run_sync(started.wait)
            threading.Timer(0.01, go_on.set).start()
            with trio.move_on_after(60):
                await trio.to_thread.run_sync(go_on.wait)
        return trio.current_time()

    assert run(main) == 0.0


def test_a_thread_that_waits_for_a_sleeper_does_not_hold_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actors.testing._clock.THREAD_PATIENCE_SECONDS", 0.01)

    async def main() -> float:
        await trio.to_thread.run_sync(trio.from_thread.run, trio.sleep, 60)
        return trio.current_time()

    assert run(main) == 60.0


def test_a_task_that_waits_for_a_thread_is_not_deadlocked() -> None:
    async def main() -> str:
        return await trio.to_thread.run_sync(lambda: "done")

    assert run(main) == "done"


def test_a_task_that_waits_for_real_input_is_not_deadlocked() -> None:
    inlet, outlet = os.pipe()

    async def main() -> bytes:
        threading.Timer(0.01, os.write, (outlet, b"hello")).start()
        await trio.lowlevel.wait_readable(inlet)
        return os.read(inlet, 5)

    with os.fdopen(inlet, "rb"), os.fdopen(outlet, "wb"):
        assert run(main) == b"hello"


def test_a_deadlock_is_raised_when_the_last_timer_has_fired() -> None:
    clock = VirtualClock()

    with pytest.raises(Deadlock):
        trio.run(one_waits_for_the_other, clock=clock)

    assert clock.current_time() == 5.0


def test_a_deadlock_names_the_waiting_tasks_and_lines() -> None:
    with pytest.raises(Deadlock) as caught:
        run(one_waits_for_the_other)

    main, patient = caught.value.waiting
    assert main.splitlines()[0] == f"  {__name__}.one_waits_for_the_other#2"
    assert main.endswith("in one_waits_for_the_other: async with trio.open_nursery() as nursery:")
    assert patient.splitlines()[0] == "  patient#4"
    assert patient.endswith("in never: await event.wait()")
    assert "should have woken, answered or cancelled" in caught.value.hint


def test_clean_up_runs_before_a_deadlock_is_raised() -> None:
    left: list[float] = []

    async def main() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(5, shield=True):
                await trio.sleep_forever()
            left.append(trio.current_time())

    with pytest.raises(Deadlock):
        run(main)

    assert left == [5.0]


def test_clean_up_that_waits_for_ever_is_aborted() -> None:
    async def main() -> None:
        for _ in range(3):
            with trio.CancelScope(shield=True):
                await trio.sleep_forever()

    with pytest.raises(Deadlock):
        run(main)


def test_an_error_during_the_cleanup_does_not_hide_the_deadlock() -> None:
    async def main() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise LookupError("gone")

    with pytest.raises(Deadlock):
        run(main)


def test_a_clock_that_is_used_again_continues() -> None:
    clock = VirtualClock()
    for _ in range(2):
        trio.run(trio.sleep, 5, clock=clock)

    assert clock.current_time() == 10.0
