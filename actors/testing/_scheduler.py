"""The clock of a simulated run, which also chooses the next task."""

from __future__ import annotations

import re
from collections import deque
from math import inf

from trio.lowlevel import Task

from ._clock import VirtualClock
from ._errors import Livelock
from ._schedule import CLOCK, Policy, Step
from ._trio_internals import ReadyQueue
from ._where import resumes_at

# The number of last steps that a Livelock shows.
SHOWN_STEPS = 12

# Steps for each rung of an abort, in addition to those per task.
GRACE_STEPS = 1_000
GRACE_STEPS_PER_TASK = 20

# The part of `max_steps` for which time may stand still while a time-out is pending. A task that
# never blocks until its time-out fires would otherwise be taken for a livelock.
STANDSTILL_SHARE = 2


class Scheduler(VirtualClock):
    """The clock of one run, and the loop's choice of the next task.

    With `is_detailed` each step of the trace says where its task went on and what it preempted.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        max_steps: int,
        early_timeouts: bool,
        trace: list[Step] | None,
        is_detailed: bool = False,
    ) -> None:
        super().__init__()
        self.may_fire_early = early_timeouts
        # Read by `open_actors`: whether `Ref.deliver` may enter an actor.
        self.allows_direct_delivery = True
        self.steps = 0
        # Numbers of the steps in which a time-out was fired although tasks could run.
        self.early_steps: list[int] = []
        self._policy = policy
        self._max_steps = max_steps
        self._ticks = 0
        self._max_ticks = max_steps
        # The tick at which time has last moved.
        self._moved_at_tick = 0
        self._last: deque[tuple[int, str, float, str, str]] = deque(maxlen=SHOWN_STEPS)
        self._trace = trace
        self._is_detailed = is_detailed
        self._previous: int | None = None
        self._labels: dict[int, str] = {}
        # Tasks that `settle` has just woken because all was quiet. The clock waits until they
        # have run, or it would no longer be quiet when they run.
        self._idle_notified: set[int] = set()
        self._was_quiet = False
        if trace is not None:
            trace.clear()

    def start_clock(self) -> None:
        super().start_clock()
        self._loop.install_scheduler(self._choose)

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Record whether a task waits for quiet (trio calls it when no task can run)."""
        self._was_quiet = self._loop.has_idle_waiter()
        return super().deadline_to_sleep_time(deadline)

    def _may_be_woken_externally(self) -> bool:
        return False  # a simulation has no outside

    def _jump(self, deadline: float) -> None:
        super()._jump(deadline)
        self._moved_at_tick = self._ticks

    def _choose(self, queue: ReadyQueue) -> Task | None:
        if self._ticks >= self._max_ticks:
            self._stop_livelock()
            return None
        self._ticks += 1
        if self._was_quiet:
            self._idle_notified.update(queue.ready)
            self._was_quiet = False
        may_fire = self._timeout_may_fire()
        if may_fire and self._stands_still():
            number = CLOCK
        else:
            number = self._policy.choose(
                queue.ready, timeout_pending=may_fire and self.may_fire_early
            )
        self._idle_notified.discard(number)
        if number == CLOCK:
            self._fire_early(len(queue))
            return None
        note = self._preemption(queue, number) if self._is_detailed else ""
        task = queue.take(number)
        where = resumes_at(task) if self._is_detailed else ""
        self._note(self._label_of(number, task), note, where)
        return task

    def _label_of(self, number: int, task: Task) -> str:
        return self._labels.get(number) or self._labels.setdefault(number, self._label(task))

    def _timeout_may_fire(self) -> bool:
        quiet_is_promised = self._idle_notified or self._loop.has_idle_waiter()
        return not quiet_is_promised and self._now < self._loop.next_deadline() < inf

    def _stands_still(self) -> bool:
        return self._ticks - self._moved_at_tick > self._max_steps // STANDSTILL_SHARE

    def _fire_early(self, ready: int) -> None:
        self._jump(self._loop.next_deadline())
        tasks = "1 task" if ready == 1 else f"{ready} tasks"
        self._note("clock", f"a time-out is fired early on purpose: {tasks} could run")
        self.early_steps.append(self.steps)

    def _preemption(self, queue: ReadyQueue, chosen: int) -> str:
        """Return the note of a step that takes the place of a task which could go on."""
        previous, self._previous = self._previous, chosen
        if previous in (None, chosen) or previous not in queue.ready:
            return ""
        return f"preempts {self._labels[previous]}"

    def _note(self, label: str, note: str = "", where: str = "") -> None:
        if self._ending is not None:
            return  # steps during an abort do not belong to the trace
        self.steps += 1
        self._last.append((self.steps, label, self._now, note, where))
        if self._trace is not None:
            self._trace.append(Step(*self._last[-1]))

    def _stop_livelock(self) -> None:
        self._max_ticks += GRACE_STEPS + GRACE_STEPS_PER_TASK * len(self._loop.tasks())
        if self._ending is None:
            self._end(Livelock(self._max_steps, [Step(*step) for step in self._last]))
        else:
            self._ending.escalate()

    def _label(self, task: Task) -> str:
        # The name of a callable without a name is its repr, with an address that differs each
        # time.
        return re.sub(" at 0x[0-9a-f]+", "", super()._label(task))
