"""Threads take real time, and no virtual time at all."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

import supervisor
from supervisor.store.threads import Own, in_thread


def in_virtual_time(main: object) -> None:
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))  # type: ignore[arg-type]


def test_a_clock_that_jumps_stands_still_while_a_thread_is_at_work() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 1000.0)
            assert await in_thread(lambda: threading.Event().wait(0.05)) is False
            assert trio.current_time() == 0.0
        assert trio.current_time() == 1000.0

    in_virtual_time(main)


def test_what_the_work_raises_is_raised_bare() -> None:
    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await in_thread(lambda: 1 // 0)

    in_virtual_time(main)


def test_a_cancelled_asker_waits_for_the_end_of_the_work() -> None:
    done: list[bool] = []

    async def main() -> None:
        with trio.CancelScope() as scope:
            trio.lowlevel.spawn_system_task(_cancel, scope)
            await in_thread(lambda: done.append(threading.Event().wait(0.05)))

    async def _cancel(scope: trio.CancelScope) -> None:
        scope.cancel()

    in_virtual_time(main)
    assert done == [False]


def test_a_turn_on_a_file_takes_the_virtual_time_that_it_says(tmp_path: Path) -> None:
    async def main() -> None:
        async with supervisor.open(tmp_path / "state.db") as sup:
            session = await sup.create("scripted")
            child = await session.spawn("scripted", "sleep 600", ttl_seconds=60.0)
            began = trio.current_time()
            await session.prompt("sleep 5")
            assert trio.current_time() - began == 5.0
            assert (await child.info()).phase == "running"

    in_virtual_time(main)


# A thread of one's own ------------------------------------------------------------------------


def with_own(main: Callable[[Own], Awaitable[None]]) -> None:
    """In real time: nothing else knows that such a thread is at work."""

    async def run() -> None:
        own = Own("a hand")
        try:
            with trio.fail_after(60):
                await main(own)
        finally:
            own.rest()

    trio.run(run)


def test_all_that_it_does_it_does_in_one_thread_and_not_in_the_loop() -> None:
    async def main(own: Own) -> None:
        first, second = await own.do(threading.get_ident), await own.do(threading.get_ident)
        assert first == second != threading.get_ident()

    with_own(main)


def test_what_its_work_raises_is_raised_bare_and_it_goes_on() -> None:
    async def main(own: Own) -> None:
        with pytest.raises(ZeroDivisionError):
            await own.do(lambda: 1 // 0)
        assert await own.do(lambda: "still there") == "still there"

    with_own(main)


def test_what_many_want_of_it_is_done_in_the_order_of_asking() -> None:
    done: list[int] = []

    async def main(own: Own) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(own.do, partial(done.append, number))
                await trio.lowlevel.checkpoint()

    with_own(main)
    assert done == list(range(10))


def test_whoever_is_cancelled_meanwhile_hears_what_came_of_it() -> None:
    async def main(own: Own) -> None:
        may_end = threading.Event()

        def give_up() -> None:
            scope.cancel()
            may_end.set()

        with trio.CancelScope() as scope:
            trio.lowlevel.current_trio_token().run_sync_soon(give_up)
            assert await own.do(may_end.wait) is True
        assert scope.cancel_called
        assert not scope.cancelled_caught

    with_own(main)


def test_whoever_is_cancelled_already_asks_for_nothing() -> None:
    done: list[bool] = []

    async def main(own: Own) -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            await own.do(lambda: done.append(True))
        assert scope.cancelled_caught
        assert await own.do(done.copy) == []

    with_own(main)


def test_who_asks_for_something_when_it_rests_does_not_wait_for_it() -> None:
    async def main() -> None:
        own = Own("a hand")
        own.rest()
        with trio.fail_after(60), pytest.raises(AssertionError, match="nothing more"):
            await own.do(threading.get_ident)

    trio.run(main)


def test_a_supervisor_over_a_file_has_one_and_leaves_none(tmp_path: Path) -> None:
    async def main() -> set[str]:
        async with supervisor.open(tmp_path / "state.db") as sup:
            await sup.create("echo")
            return names_of_threads()

    assert "store state.db" in trio.run(main)
    assert "store state.db" not in names_of_threads()


def names_of_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}
