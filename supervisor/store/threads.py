"""Work in threads, which take real time, also where time is virtual."""

from __future__ import annotations

import math
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import outcome
import trio
from trio.lowlevel import Abort, enable_ki_protection

T = TypeVar("T")
# It has nothing left to do, but may have to wait for a processor.
_REST_SECONDS: Final = 1.0
_Job: TypeAlias = tuple[Callable[[], Any], trio.lowlevel.Task]


class Hand(Protocol):
    """Does one thing after the other, in a thread."""

    async def do(self, work: Callable[[], T]) -> T:
        """Have it done; whoever is cancelled meanwhile waits for its end all the same."""

    def rest(self) -> None:
        """Nothing more will come."""


class Lent:
    """In threads that trio lends: those who simulate know how to replace them."""

    def __init__(self, most: int) -> None:
        self._limiter = trio.CapacityLimiter(most)

    async def do(self, work: Callable[[], T]) -> T:
        """See `Hand`; as many at once as was said."""
        return await in_thread(work, self._limiter)

    def rest(self) -> None:
        """They go by themselves."""


class Own:
    """A thread of one's own: to reach it, and to hear from it, takes half as long.

    Whoever waits for a commit waits for both.
    """

    def __init__(self, name: str) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._is_resting = False
        # Not waited for at the program's end: what it is at then is what a kill would interrupt.
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @enable_ki_protection
    async def do(self, work: Callable[[], T]) -> T:
        """See `Hand`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._is_resting:
            raise AssertionError("nothing more was to come")  # or it would be waited for for ever
        self._jobs.put((work, trio.lowlevel.current_task()))
        done: T = await trio.lowlevel.wait_task_rescheduled(_carry_it_through)
        return done

    def rest(self) -> None:
        """See `Hand`; whoever asked for something has had it, so the thread ends at once."""
        self._is_resting = True
        self._jobs.put(None)
        self._thread.join(_REST_SECONDS)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, asker = job
            result = outcome.capture(work)
            try:
                self._token.run_sync_soon(trio.lowlevel.reschedule, asker, result)
            except trio.RunFinishedError:
                return  # in ruins: there is nobody left to hear of it


def _carry_it_through(_: object) -> Abort:
    return Abort.FAILED


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
