"""Store threads take real time and no virtual time."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

import supervisor
from supervisor.store.threads import DedicatedThread, run_in_thread


def in_virtual_time(main: object) -> None:
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))  # type: ignore[arg-type]


def test_an_autojump_clock_does_not_jump_while_a_thread_runs() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 1000.0)
            assert await run_in_thread(lambda: threading.Event().wait(0.05)) is False
            assert trio.current_time() == 0.0
        assert trio.current_time() == 1000.0

    in_virtual_time(main)


def test_an_exception_of_the_job_is_raised_without_a_group() -> None:
    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await run_in_thread(lambda: 1 // 0)

    in_virtual_time(main)


def test_a_cancelled_caller_waits_for_the_end_of_the_job() -> None:
    done: list[bool] = []

    async def main() -> None:
        with trio.CancelScope() as scope:
            trio.lowlevel.spawn_system_task(_cancel, scope)
            await run_in_thread(lambda: done.append(threading.Event().wait(0.05)))

    async def _cancel(scope: trio.CancelScope) -> None:
        scope.cancel()

    in_virtual_time(main)
    assert done == [False]


def test_a_turn_on_a_file_takes_its_virtual_time_only(tmp_path: Path) -> None:
    async def main() -> None:
        async with supervisor.open(tmp_path / "state.db") as sup:
            session = await sup.create("scripted")
            child = await session.spawn("scripted", "sleep 600", ttl_seconds=60.0)
            began = trio.current_time()
            await session.prompt("sleep 5")
            assert trio.current_time() - began == 5.0
            assert (await child.info()).phase == "running"

    in_virtual_time(main)


# Dedicated thread -----------------------------------------------------------------------------


def with_own(main: Callable[[DedicatedThread], Awaitable[None]]) -> None:
    """Run in real time: a virtual clock does not see a dedicated thread."""

    async def run() -> None:
        own = DedicatedThread("a hand")
        try:
            with trio.fail_after(60):
                await main(own)
        finally:
            own.close()

    trio.run(run)


def test_a_dedicated_thread_runs_every_job_outside_the_event_loop() -> None:
    async def main(own: DedicatedThread) -> None:
        first, second = await own.run(threading.get_ident), await own.run(threading.get_ident)
        assert first == second != threading.get_ident()

    with_own(main)


def test_a_dedicated_thread_raises_the_exception_and_continues() -> None:
    async def main(own: DedicatedThread) -> None:
        with pytest.raises(ZeroDivisionError):
            await own.run(lambda: 1 // 0)
        assert await own.run(lambda: "still there") == "still there"

    with_own(main)


def test_a_dedicated_thread_runs_jobs_in_order() -> None:
    done: list[int] = []

    async def main(own: DedicatedThread) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(own.run, partial(done.append, number))
                await trio.lowlevel.checkpoint()

    with_own(main)
    assert done == list(range(10))


def test_a_caller_cancelled_during_the_job_gets_its_result() -> None:
    async def main(own: DedicatedThread) -> None:
        may_end = threading.Event()

        def give_up() -> None:
            scope.cancel()
            may_end.set()

        with trio.CancelScope() as scope:
            trio.lowlevel.current_trio_token().run_sync_soon(give_up)
            assert await own.run(may_end.wait) is True
        assert scope.cancel_called
        assert not scope.cancelled_caught

    with_own(main)


def test_a_caller_cancelled_before_the_job_starts_none() -> None:
    done: list[bool] = []

    async def main(own: DedicatedThread) -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            await own.run(lambda: done.append(True))
        assert scope.cancelled_caught
        assert await own.run(done.copy) == []

    with_own(main)


def test_a_closed_thread_refuses_a_job() -> None:
    async def main() -> None:
        own = DedicatedThread("a hand")
        own.close()
        with trio.fail_after(60), pytest.raises(AssertionError, match="thread is closed"):
            await own.run(threading.get_ident)

    trio.run(main)


def test_a_supervisor_over_a_file_ends_its_thread(tmp_path: Path) -> None:
    async def main() -> set[str]:
        async with supervisor.open(tmp_path / "state.db") as sup:
            await sup.create("echo")
            return names_of_threads()

    assert "understudy store state.db" in trio.run(main)
    assert "understudy store state.db" not in names_of_threads()


def names_of_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}
