"""Threads without threads: blocking work runs inside the loop, in a task of its own.

Rule 1: only the thread is replaced. Waiting for the limiter, what a cancellation does to the
        caller, and how the result gets back, are trio's own code, so the rules are the same:
        the work runs exactly once; its result is delivered even if the caller was cancelled
        meanwhile, unless the caller may abandon it.
Rule 2: when it runs, and when its result arrives, is up to the schedule.
Rule 3: while it runs, it sees no loop, as in a thread. It runs in one step, so nothing happens
        between two lines of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import outcome
import trio

from ._errors import SimulationError
from ._trio_internals import Deliver, swap_run_context, threads_replaced

# The work waits for so many of its own turns at most before it runs, and again before it reports.
MAX_TURNS = 3


@contextmanager
def stand_in_threads(chance: Random) -> Iterator[None]:
    """Inside this block no trio thread is started."""
    threads = _StandIns(chance)
    with threads_replaced(threads.start, threads.call_trio):
        yield


class _StandIns:
    """The threads of one simulated run."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        # What the loop's own tasks see of the loop. Set while work runs, which does not see it.
        self._inside: dict[str, object] | None = None

    def start(
        self,
        fn: Callable[[], Any],
        deliver: Deliver,
        name: str | None = None,
    ) -> None:
        turns = self._chance.randint(0, MAX_TURNS), self._chance.randint(0, MAX_TURNS)
        # A system task outlives the caller, who may abandon it, and delays the end of the run.
        trio.lowlevel.spawn_system_task(self._work, fn, deliver, turns, name=f"thread: {name}")

    async def _work(
        self,
        fn: Callable[[], Any],
        deliver: Deliver,
        turns: tuple[int, int],
    ) -> None:
        before, after = turns
        for _ in range(before):
            await trio.lowlevel.cancel_shielded_checkpoint()
        result = outcome.capture(self._run, fn)
        for _ in range(after):
            await trio.lowlevel.cancel_shielded_checkpoint()
        deliver(result)

    @trio.lowlevel.disable_ki_protection  # control-C gets through to work that never ends
    def _run(self, fn: Callable[[], Any]) -> Any:
        self._inside = swap_run_context({})
        try:
            return fn()
        finally:
            swap_run_context(self._inside)
            self._inside = None

    def call_trio(self, fn: Callable[[], Any] | None, ask_trio: Callable[[], Any]) -> Any:
        if self._inside is None:
            return ask_trio()  # not from a stand-in: from a task, which trio refuses
        if fn is None:
            raise SimulationError(
                "trio.from_thread.run needs a real thread, which waits while its caller goes on",
                hint="in a simulation use trio.from_thread.run_sync, or await in the caller",
            )
        outside = swap_run_context(self._inside)
        try:
            return fn()
        finally:
            swap_run_context(outside)
