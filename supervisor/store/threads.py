"""Work in threads, which take real time, also where time is virtual."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")


async def in_thread(work: Callable[[], T], limiter: trio.CapacityLimiter | None = None) -> T:
    """Do it in a thread; whoever is cancelled meanwhile waits for its end all the same.

    A clock that jumps ahead when everybody waits (`trio.testing.MockClock`, as our users test with)
    does not know that a thread is at work, and would let hours pass during a commit. It stands
    still as long as somebody waits for everybody to be blocked, and so one does.
    """
    if not _is_jumping(trio.lowlevel.current_clock()):
        return await trio.to_thread.run_sync(work, limiter=limiter)
    from trio.testing import wait_all_tasks_blocked  # noqa: PLC0415 - takes longer than trio

    answers: list[T] = []
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_all_tasks_blocked, math.inf)
        try:
            answers.append(await trio.to_thread.run_sync(work, limiter=limiter))
        except Exception as error:  # noqa: BLE001 - raised again, bare, below
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return answers[0]


def _is_jumping(clock: trio.abc.Clock) -> bool:
    return getattr(clock, "autojump_threshold", math.inf) < math.inf
