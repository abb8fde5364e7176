"""Threads take real time, and no virtual time at all."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import trio
import trio.testing

import supervisor
from supervisor.store.threads import in_thread


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
