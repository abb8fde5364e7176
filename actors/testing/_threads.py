"""Simulated threads: blocking work runs inside the loop, in its own task.

Rule 1: only the thread is replaced. The limiter, the effect of a cancellation on the caller,
        and the delivery of the result are trio's own code, so the rules are the same: the work
        runs exactly once; its result is delivered even if the caller was cancelled meanwhile,
        unless the caller may abandon it.
Rule 2: the schedule decides when the work runs, and when its result arrives.
Rule 3: the work does not see the loop, as in a thread. It runs in one step, so no other task runs
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

# The work waits for at most this many of its turns before it runs, and before it reports.
MAX_TURNS = 3


@contextmanager
def simulated_threads(chance: Random) -> Iterator[None]:
    """Run the block without starting any trio thread."""
    threads = _SimulatedThreads(chance)
    with threads_replaced(threads.start, threads.call_trio):
        yield


class _SimulatedThreads:
    """The simulated threads of one run."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        # The run context of the loop's tasks. Set while work runs, which does not see it.
        self._loop_context: dict[str, object] | None = None

    def start(
        self,
        fn: Callable[[], Any],
        deliver: Deliver,
        name: str | None = None,
    ) -> None:
        turns = self._chance.randint(0, MAX_TURNS), self._chance.randint(0, MAX_TURNS)
        # A system task outlives its caller, which may abandon it, and delays the end of the
        # run.
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

    @trio.lowlevel.disable_ki_protection  # Ctrl-C reaches work that never ends
    def _run(self, fn: Callable[[], Any]) -> Any:
        self._loop_context = swap_run_context({})
        try:
            return fn()
        finally:
            swap_run_context(self._loop_context)
            self._loop_context = None

    def call_trio(self, fn: Callable[[], Any] | None, ask_trio: Callable[[], Any]) -> Any:
        if self._loop_context is None:
            return ask_trio()  # called from a task, which trio refuses
        if fn is None:
            raise SimulationError(
                "trio.from_thread.run needs a real thread, which waits while its caller goes on",
                hint="in a simulation use trio.from_thread.run_sync, or await in the caller",
            )
        outside = swap_run_context(self._loop_context)
        try:
            return fn()
        finally:
            swap_run_context(outside)
