"""Virtual time.

Rule 1: time moves only when nobody can run; then it jumps to the next deadline, exactly.
Rule 2: who waits for all to be blocked (`settle`, `wait_all_tasks_blocked`) goes before the jump.
Rule 3: when nobody can run and there is no deadline, nothing can ever happen again: that is a
        deadlock, and it is said, not slept through.
"""

from __future__ import annotations

from math import inf

import trio
import trio.testing

from ._ending import Ending
from ._errors import Deadlock, SimulationError
from ._trio_internals import Loop, check
from ._where import where

# While a real thread works, time stands still, but no longer than this (in real seconds): the
# thread may itself be waiting for a trio task that sleeps.
THREAD_PATIENCE_SECONDS = 1.0


class VirtualClock(trio.abc.Clock):
    """A clock for `trio.run(main, clock=VirtualClock())`; begins at 0.0; used again, it goes on.

    A time-out costs no time and is exact. A deadlock ends the run with `Deadlock`, which names
    the blocked tasks and where they wait; everything is cancelled first, so clean-up runs.
    Tasks that wait for real I/O or a real thread are not deadlocked; a task that waits for
    a signal, or for a thread that trio did not start, would be taken for it. While a real thread
    works time stands still, but no longer than one real second; then the next deadline fires.
    """

    def __init__(self) -> None:
        check()
        self._now = 0.0
        self._loop: Loop
        self._ending: Ending | None = None

    def start_clock(self) -> None:
        """Called by trio when the run begins."""
        self._loop = Loop()
        self._ending = None

    def current_time(self) -> float:
        """Virtual seconds since the beginning."""
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Called by trio when nobody can run: how long, really, to wait for the outside."""
        if self._loop.someone_waits_for_idle():
            return inf  # the loop cuts this short for them
        patience = THREAD_PATIENCE_SECONDS if self._threads_at_work() else 0.0
        if self._loop.poll(patience):
            return 0.0
        if deadline < inf:
            self._jump(deadline)
        elif self._outside_may_wake_someone():
            return inf
        elif self._ending is None:
            self._end(Deadlock(self._blocked()))
        else:
            self._ending.press()
        return 0.0

    def _threads_at_work(self) -> bool:
        return trio.testing.active_thread_count() > 0

    def _outside_may_wake_someone(self) -> bool:
        return self._threads_at_work() or self._loop.someone_waits_for_io()

    def _jump(self, deadline: float) -> None:
        self._now = max(self._now, deadline)

    def _end(self, error: SimulationError) -> None:
        self._ending = Ending(self._loop, error)
        self._ending.press()

    def _blocked(self) -> list[str]:
        """The program's own tasks, leaving out the two that trio keeps for itself."""
        return [
            "\n".join((f"  {self._label(task)}", *(f"      {line}" for line in where(task))))
            for task in self._loop.tasks()
            if not task.name.startswith("<")
        ]

    def _label(self, task: trio.lowlevel.Task) -> str:
        return f"{task.name}#{self._loop.number(task)}"
