"""One run of a whole trio program under a seeded scheduler and virtual time.

Rule 1: one task per tick, and the policy says which.
Rule 2: time-outs may fire while others are ready, for a real machine may be that slow.
Rule 3: same program, same seed, same trace, in any process. The program owes us the rest: it
        must not ask the wall clock, the operating system's randomness or a real socket.
Rule 4: whatever happens, everything outside is afterwards as it was before.
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
from ._threads import stand_in_threads
from ._trio_internals import OneAtATime, broken, check, threads_are_replaced

T = TypeVar("T")
Args = TypeVarTuple("Args")

MAX_STEPS = 100_000

# How many of its last steps a livelock shows.
SHOWN_STEPS = 12

# Steps a run gets for each rung of its end, beyond those that its number of tasks calls for.
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
    """Run `main(*args)` under trio with one task per tick; give its result or raise its error.

    Without `policy` the seed chooses one, so the seeds that `explore` found replay as they are.
    With `early_timeouts` (unless you say otherwise) a time-out may also fire while others could
    run, as on a machine that is slow; without, time moves only when all wait.
    `trace`, a list, is filled with one `Step` per tick. Everything that the program raises has
    a note with seed and policy. `Deadlock`: all wait for ever. `Livelock`: after `max_steps` it
    still ran. In both cases the program is cancelled and its clean-up runs before they are raised.

    `random` is seeded for the run, garbage is not collected during it, and `trio.to_thread` runs
    the work inside the loop; all three are restored.
    """
    make_sure_it_can_run()
    if not isinstance(max_steps, int) or max_steps < 1:
        raise ValueError(f"max_steps is {max_steps!r}: give a whole number of at least 1")
    name = policy_of(seed, policy)
    # Seeded with a text: an int seeds the same as its negative.
    chance = random.Random(f"{name} {int(seed)}")  # noqa: S311 - repeatable is what it must be
    scheduler = _Scheduler(
        make_policy(name, chance), max_steps=max_steps, early_timeouts=early_timeouts, trace=trace
    )
    with _repeatable_world(int(seed)), stand_in_threads(chance):
        try:
            result = trio.run(main, *args, clock=scheduler)
        except Exception as error:
            error.add_note(
                f"simulated with seed={int(seed)}, policy={name!r};"
                f" {scheduler.steps} steps, virtual time {scheduler.current_time():g} s"
            )
            raise
    if not scheduler.steps:
        raise broken("_core._run.Runner.runq")
    return result


def make_sure_it_can_run() -> None:
    """Raise if trio has changed, a loop runs here, or a simulation anywhere in this process."""
    check()
    if trio.lowlevel.in_trio_run() or threads_are_replaced():
        raise SimulationError(
            "a simulation is a trio run of its own and cannot begin inside another one",
            hint="call it from a plain function: `def test_...`, not `async def test_...`",
        )


@contextmanager
def _repeatable_world(seed: int) -> Iterator[None]:
    state, collecting = random.getstate(), gc.isenabled()
    gc.disable()  # finalizers must not run at a moment that memory decides
    random.seed(f"program {seed}")
    try:
        yield
    finally:
        random.setstate(state)
        if collecting:
            gc.enable()


class _Scheduler(VirtualClock):
    """The clock of a simulated run, which also says who runs."""

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
        # Whom `settle` has just told that all is quiet. The clock waits until they have run, or
        # it would not be quiet any more when they hear of it.
        self._told: set[int] = set()
        self._was_quiet = False
        if trace is not None:
            trace.clear()

    def start_clock(self) -> None:
        super().start_clock()
        self._loop.let_out_one_at_a_time(self._choose)

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Called by trio when nobody can run."""
        self._was_quiet = self._loop.someone_waits_for_idle()
        return super().deadline_to_sleep_time(deadline)

    def _outside_may_wake_someone(self) -> bool:
        return False  # in a simulation there is no outside: what the kernel had, it has given

    def _choose(self, queue: OneAtATime) -> Task | None:
        if self._ticks >= self._max_ticks:
            self._take_too_long()
            return None
        self._ticks += 1
        if self._was_quiet:
            self._told.update(queue.ready)
            self._was_quiet = False
        number = self._policy.choose(queue.ready, timeout_pending=self._timeout_may_fire())
        self._told.discard(number)
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
        quiet_is_promised = self._told or self._loop.someone_waits_for_idle()
        return not quiet_is_promised and self._now < self._loop.next_deadline() < inf

    def _note(self, label: str) -> None:
        if self._ending is not None:
            return  # what happens on the way out is not what was asked about
        self.steps += 1
        self._last.append((self.steps, label, self._now))
        if self._trace is not None:
            self._trace.append(Step(self.steps, label, self._now))

    def _take_too_long(self) -> None:
        self._max_ticks += GRACE_STEPS + GRACE_STEPS_PER_TASK * len(self._loop.tasks())
        if self._ending is None:
            self._end(Livelock(self._max_steps, [Step(*step) for step in self._last]))
        else:
            self._ending.press()

    def _label(self, task: Task) -> str:
        # A callable without a name is called by its repr, with an address that is never the same.
        return re.sub(" at 0x[0-9a-f]+", "", super()._label(task))
