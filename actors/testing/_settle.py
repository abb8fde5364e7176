"""`settle`: wait until all other tasks are blocked, instead of for a time."""

from __future__ import annotations

import trio
import trio.testing


async def settle() -> None:
    """Return when every other task is blocked and no thread of trio is working.

    No virtual time passes while tasks still run: under `simulate`, `VirtualClock` and
    `MockClock` alike, time-outs wait until this has returned.
    """
    await trio.testing.wait_all_tasks_blocked()
    while trio.testing.active_thread_count():
        await trio.testing.wait_all_threads_completed()
        await trio.testing.wait_all_tasks_blocked()
