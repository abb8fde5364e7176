"""Waiting for facts, not for time."""

from __future__ import annotations

import trio
import trio.testing


async def settle() -> None:
    """Answer when every other task is blocked and no thread of trio's is at work.

    No virtual time passes while tasks still run: under `simulate`, `VirtualClock` and `MockClock`
    alike, time-outs wait until this has answered.
    """
    await trio.testing.wait_all_tasks_blocked()
    while trio.testing.active_thread_count():
        await trio.testing.wait_all_threads_completed()
        await trio.testing.wait_all_tasks_blocked()
