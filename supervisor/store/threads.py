"""Run store calls in threads, which take real time even under a virtual clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import outcome
import trio
from trio.lowlevel import Abort, enable_ki_protection

T = TypeVar("T")
# The thread has nothing left to do, but may have to wait for a processor.
_JOIN_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 0.05
_Job: TypeAlias = tuple[Callable[[], Any], trio.lowlevel.Task]


class StoreThread(Protocol):
    """A thread that runs one job after the other."""

    async def run(self, work: Callable[[], T]) -> T:
        """Run the job and return its result.

        A cancelled caller still waits until the job has ended.
        """

    def close(self) -> None:
        """Accept no more jobs."""


class TrioThreads:
    """Threads of trio's pool, which simulations can replace."""

    def __init__(self, max_threads: int) -> None:
        self._limiter = trio.CapacityLimiter(max_threads)

    async def run(self, work: Callable[[], T]) -> T:
        """Run the job in a thread of trio's pool; at most `max_threads` jobs run at once."""
        return await run_in_thread(work, self._limiter)

    def close(self) -> None:
        """Do nothing: trio ends its threads by itself."""


class DedicatedThread:
    """A dedicated thread; halves the hand-off latency of `trio.to_thread`.

    Every commit has that latency twice.
    """

    def __init__(self, name: str) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._is_closed = False
        # Daemon: not joined at interpreter exit, where an open job ends as by a kill.
        self._thread = Thread(target=self._run_jobs, name=name, daemon=True)
        self._thread.start()

    @enable_ki_protection
    async def run(self, work: Callable[[], T]) -> T:
        """Run the job in the dedicated thread and return its result."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._is_closed:
            raise AssertionError("the thread is closed")  # the job would never be run
        self._jobs.put((work, trio.lowlevel.current_task()))
        done: T = await trio.lowlevel.wait_task_rescheduled(_refuse_abort)
        return done

    def close(self) -> None:
        """End the thread, which has done all its jobs."""
        self._is_closed = True
        self._jobs.put(None)
        self._thread.join(_JOIN_SECONDS)

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, caller = job
            if not self._deliver(caller, outcome.capture(work)):
                return

    def _deliver(self, caller: trio.lowlevel.Task, result: outcome.Outcome[Any]) -> bool:
        """Pass the result to the task that waits for it; return False if the run is over.

        Retried until there is memory for it: nothing else would ever wake the task.
        """
        while True:
            try:
                self._token.run_sync_soon(trio.lowlevel.reschedule, caller, result)
            except trio.RunFinishedError:
                return False
            except MemoryError:
                time.sleep(_RETRY_SECONDS)
            else:
                return True


def _refuse_abort(_: object) -> Abort:
    return Abort.FAILED


async def run_in_thread(
    work: Callable[[], T],
    limiter: trio.CapacityLimiter | None = None,
    *,
    abandon_on_cancel: bool = False,
) -> T:
    """Run the job in a thread.

    A cancelled caller still waits until the job has ended, unless `abandon_on_cancel`.

    A clock that jumps ahead when all tasks are blocked (`trio.testing.MockClock`, used in users'
    tests) does not see the thread and would let hours pass during a commit. It does not jump while
    a task is in `wait_all_tasks_blocked`, so a task waits there as long as the job runs.
    """
    if not _is_autojump(trio.lowlevel.current_clock()):
        return await trio.to_thread.run_sync(
            work, limiter=limiter, abandon_on_cancel=abandon_on_cancel
        )
    from trio.testing import wait_all_tasks_blocked  # noqa: PLC0415 - its import takes longer than trio's

    answers: list[T] = []
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_all_tasks_blocked, math.inf)
        try:
            answers.append(
                await trio.to_thread.run_sync(
                    work, limiter=limiter, abandon_on_cancel=abandon_on_cancel
                )
            )
        except Exception as error:  # noqa: BLE001 - raised below, without an exception group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return answers[0]


def _is_autojump(clock: trio.abc.Clock) -> bool:
    return getattr(clock, "autojump_threshold", math.inf) < math.inf
