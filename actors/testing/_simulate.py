"""One run of a whole trio program under a seeded scheduler and virtual time.

Rule 1: one task per tick, and the policy chooses it.
Rule 2: time-outs may fire while tasks are ready, because a real machine may be that slow.
Rule 3: same program, same seed, same trace, in any process; provided that the program does not
        use the wall clock, the operating system's randomness or a real socket.
Rule 4: whatever happens, everything outside is restored afterwards.
"""

from __future__ import annotations

import gc
import random
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import TypeVar, TypeVarTuple

import trio
from trio.lowlevel import Task

from ._clock import VirtualClock
from ._errors import Livelock, SimulationError
from ._schedule import CLOCK, Policy, PolicyName, Step, make_policy, policy_of
from ._threads import simulated_threads
from ._trio_internals import ReadyQueue, check_trio_version, simulator_broken, threads_are_replaced

T = TypeVar("T")
Args = TypeVarTuple("Args")

MAX_STEPS = 100_000

# The number of last steps that a Livelock shows.
SHOWN_STEPS = 12

# Steps for each rung of an abort, in addition to those per task.
GRACE_STEPS = 1_000
GRACE_STEPS_PER_TASK = 20


def simulate(
    main: Callable[[*Args], Awaitable[T]],
    *args: *Args,
    seed: int = 0,
    policy: PolicyName | None = None,
    max_steps: int = MAX_STEPS,
    early_timeouts: bool = True,
    trace: list[Step] | None = None,
) -> T:
    """Run `main(*args)` under trio with one task per tick; return its result or raise its error.

    Without `policy` the seed chooses one, so the seeds that `explore` found replay as they are.
    With `early_timeouts` (the default) a time-out may also fire while tasks could run, as on a slow
    machine; without, time moves only when all tasks wait. `trace`, a list, is filled with one
    `Step` per tick. Every exception of the program gets a note with seed and policy. Raise
    `Deadlock` if all tasks wait for ever, and `Livelock` if it still runs after `max_steps`. In
    both cases the program is cancelled and its clean-up runs before the error is raised.

    `random` is seeded for the run, garbage is not collected during it, and `trio.to_thread` runs
    the work inside the loop; all three are restored.
    """
    check_can_simulate()
    if not isinstance(max_steps, int) or max_steps < 1:
        raise ValueError(f"max_steps is {max_steps!r}: pass a whole number of at least 1")
    name = policy_of(seed, policy)
    # Seeded with a text: an int seeds the same as its negative.
    chance = random.Random(f"{name} {int(seed)}")  # noqa: S311 - must be repeatable, not secret
    scheduler = _Scheduler(
        make_policy(name, chance), max_steps=max_steps, early_timeouts=early_timeouts, trace=trace
    )
    with _repeatable_world(int(seed)), simulated_threads(chance):
        try:
            result = trio.run(main, *args, clock=scheduler)
        except Exception as error:
            error.add_note(
                f"simulated with seed={int(seed)}, policy={name!r};"
                f" {scheduler.steps} steps, virtual time {scheduler.current_time():g} s"
            )
            raise
    if not scheduler.steps:
        raise simulator_broken("_core._run.Runner.runq")
    return result


def check_can_simulate() -> None:
    """Raise if this trio is not supported, or a loop or a simulation already runs."""
    check_trio_version()
    if trio.lowlevel.in_trio_run() or threads_are_replaced():
        raise SimulationError(
            "a simulation is a trio run of its own and cannot begin inside another one",
            hint="call it from a plain function: `def test_...`, not `async def test_...`",
        )


@contextmanager
def _repeatable_world(seed: int) -> Iterator[None]:
    state, collecting = random.getstate(), gc.isenabled()
    gc.disable()  # finalizers must not run at a moment that memory use decides
    random.seed(f"program {seed}")
    try:
        yield
    finally:
        random.setstate(state)
        if collecting:
            gc.enable()


class _Scheduler(VirtualClock):
    """The clock of a simulated run, which also chooses the next task."""

    def __init__(
        self, policy: Policy, *, max_steps: int, early_timeouts: bool, trace: list[Step] | None
    ) -> None:
        super().__init__()
        self._early_timeouts = early_timeouts
        self.steps = 0
        self._policy = policy
        self._max_steps = max_steps
        self._ticks = 0
        self._max_ticks = max_steps
        self._last: deque[tuple[int, str, float]] = deque(maxlen=SHOWN_STEPS)
        self._trace = trace
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

    def _choose(self, queue: ReadyQueue) -> Task | None:
        if self._ticks >= self._max_ticks:
            self._stop_livelock()
            return None
        self._ticks += 1
        if self._was_quiet:
            self._idle_notified.update(queue.ready)
            self._was_quiet = False
        number = self._policy.choose(queue.ready, timeout_pending=self._timeout_may_fire())
        self._idle_notified.discard(number)
        if number == CLOCK:
            self._jump(self._loop.next_deadline())
            self._note("clock")
            return None
        task = queue.take(number)
        self._note(self._labels.get(number) or self._labels.setdefault(number, self._label(task)))
        return task

    def _timeout_may_fire(self) -> bool:
        if not self._early_timeouts:
            return False
        quiet_is_promised = self._idle_notified or self._loop.has_idle_waiter()
        return not quiet_is_promised and self._now < self._loop.next_deadline() < inf

    def _note(self, label: str) -> None:
        if self._ending is not None:
            return  # steps during an abort do not belong to the trace
        self.steps += 1
        self._last.append((self.steps, label, self._now))
        if self._trace is not None:
            self._trace.append(Step(self.steps, label, self._now))

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
