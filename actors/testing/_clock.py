"""Virtual time.

Rule 1: time moves only when no task can run; then it jumps to the next deadline, exactly.
Rule 2: a task that waits for quiet (`settle`, `wait_all_tasks_blocked`) runs before the jump.
Rule 3: when no task can run and no deadline is set, nothing can ever happen again: that is
        a deadlock, and it is reported.
Rule 4: a timer that repeats hides a deadlock, because there is always a next deadline; a limit of
        the virtual time ends such a run.
"""

from __future__ import annotations

from math import inf

import trio
import trio.testing

from ._ending import RunAbort
from ._errors import Deadlock, OutOfTime, SimulationError
from ._trio_internals import Loop, check_trio_version
from ._where import task_stack

# While a real thread works, time stands still, but no longer than this (in real seconds): the
# thread may itself be waiting for a trio task that sleeps.
THREAD_PATIENCE_SECONDS = 1.0


class VirtualClock(trio.abc.Clock):
    """A clock for `trio.run(main, clock=VirtualClock())`; starts at 0.0, continues when reused.

    A time-out costs no time and is exact. A deadlock ends the run with `Deadlock`, which names
    the blocked tasks and where they wait; everything is cancelled first, so clean-up runs.
    Tasks that wait for real I/O or a real thread are not deadlocked; a task that waits for a
    signal, or for a thread that trio did not start, would be reported as deadlocked. While a
    real thread works time stands still, but no longer than one real second; then the next
    deadline fires. When the next deadline is beyond `limit_seconds`, the run ends with `OutOfTime`.
    """

    def __init__(self, *, limit_seconds: float = inf) -> None:
        check_trio_version()
        self._limit = limit_seconds
        self._now = 0.0
        self._loop: Loop
        self._ending: RunAbort | None = None

    def start_clock(self) -> None:
        """Prepare for a run (called by trio when the run begins)."""
        self._loop = Loop()
        self._ending = None

    def current_time(self) -> float:
        """Return the virtual seconds since the beginning."""
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return how long to wait for I/O (called by trio when no task can run)."""
        if self._loop.has_idle_waiter():
            return inf  # the loop shortens this for idle waiters
        patience = THREAD_PATIENCE_SECONDS if self._threads_at_work() else 0.0
        if self._loop.poll(patience):
            return 0.0
        if deadline < inf and (deadline <= self._limit or self._ending is not None):
            self._jump(deadline)
        elif deadline < inf:
            self._end(OutOfTime(self._limit, self._blocked()))
        elif self._may_be_woken_externally():
            return inf
        elif self._ending is None:
            self._end(Deadlock(self._blocked()))
        else:
            self._ending.escalate()
        return 0.0

    def _threads_at_work(self) -> bool:
        return trio.testing.active_thread_count() > 0

    def _may_be_woken_externally(self) -> bool:
        return self._threads_at_work() or self._loop.has_io_waiter()

    def _jump(self, deadline: float) -> None:
        self._now = max(self._now, deadline)

    def _end(self, error: SimulationError) -> None:
        self._ending = RunAbort(self._loop, error)
        self._ending.escalate()

    def _blocked(self) -> list[str]:
        """Return name and stack of each task of the program, without trio's two internal tasks."""
        return [
            "\n".join((f"  {self._label(task)}", *(f"      {line}" for line in task_stack(task))))
            for task in self._loop.tasks()
            if not task.name.startswith("<")
        ]

    def _label(self, task: trio.lowlevel.Task) -> str:
        return f"{task.name}#{self._loop.number(task)}"
