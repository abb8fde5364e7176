"""One run of a whole trio program under a seeded scheduler and virtual time.

Rule 1: one task per tick, and the policy chooses it.
Rule 2: on request time-outs fire while tasks are ready, because a real machine may be that slow.
Rule 3: same program, same seed, same trace, in any process; provided that the program does not
        use the wall clock, the operating system's randomness or a real socket.
Rule 4: whatever happens, everything outside is restored afterwards.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, TypeVarTuple

import trio

from ._errors import SimulationError
from ._replay import Deviations, Replay
from ._schedule import PolicyName, Step, make_policy, policy_of
from ._scheduler import SHOWN_STEPS, Scheduler
from ._threads import simulated_threads
from ._trio_internals import check_trio_version, simulator_broken, threads_are_replaced

T = TypeVar("T")
Args = TypeVarTuple("Args")

MAX_STEPS = 100_000
# The part of the seeds under which `Ref.deliver` may enter an actor. Under the others each message
# passes through a mailbox, and the schedule chooses when it is handled.
DIRECT_SHARE = 0.5


def simulate(
    main: Callable[[*Args], Awaitable[T]],
    *args: *Args,
    seed: int = 0,
    policy: PolicyName | None = None,
    max_steps: int = MAX_STEPS,
    early_timeouts: bool | None = None,
    trace: list[Step] | None = None,
) -> T:
    """Run `main(*args)` under trio with one task per tick; return its result or raise its error.

    Without `policy` the seed chooses one. A `FailingSeed` from `explore` brings its own policy and
    `early_timeouts`, or the shortest schedule that was found for it. Time moves only when all tasks
    wait; with `early_timeouts` a time-out may also fire on purpose while tasks could run, as on a
    slow machine. `trace`, a list, is filled with one `Step` per tick. Every exception of the
    program gets a note with seed, policy and the time-outs fired early. Raise `Deadlock` if all
    tasks wait for ever, and `Livelock` if it still runs after `max_steps`. In both cases the
    program is cancelled and its clean-up runs before the error is raised.

    `random` is seeded for the run, garbage is not collected during it, and `trio.to_thread` runs
    the work inside the loop; all three are restored.
    """
    check_can_simulate()
    check_max_steps(max_steps)
    check_seed(seed)
    if early_timeouts is None:
        early_timeouts = getattr(seed, "early_timeouts", False)
    name = policy_of(seed, policy)
    schedule: Deviations | None = None if policy else getattr(seed, "schedule", None)
    scheduler = Scheduler(
        make_policy(name, policy_chance(seed, name)) if schedule is None else Replay(schedule),
        max_steps=max_steps,
        early_timeouts=early_timeouts,
        trace=trace,
    )
    said = f"policy={name!r}" if schedule is None else f"the shortest schedule of {name!r}"
    return run_scheduled(main, *args, seed=seed, scheduler=scheduler, said=said)


def policy_chance(seed: int, name: PolicyName) -> random.Random:
    """Return the chance from which the policy of a run decides."""
    # Seeded with a text: an int seeds the same as its negative.
    return random.Random(f"{name} {int(seed)}")  # noqa: S311 - must be repeatable, not secret


def delivery_chance(seed: int) -> random.Random:
    """Return the chance by which `Ref.deliver` may enter an actor in a run, or never does."""
    return random.Random(f"delivery {int(seed)}")  # noqa: S311 - must be repeatable


def run_scheduled(
    main: Callable[[*Args], Awaitable[T]],
    *args: *Args,
    seed: int,
    scheduler: Scheduler,
    said: str,
) -> T:
    """Run `main(*args)` with that scheduler; an error gets a note with the seed and `said`."""
    scheduler.allows_direct_delivery = delivery_chance(seed).random() < DIRECT_SHARE
    # Its own chance: the work in threads must not depend on how often the policy draws.
    threads = random.Random(f"work {int(seed)}")  # noqa: S311 - must be repeatable
    with _repeatable_world(int(seed)), simulated_threads(threads):
        try:
            result = trio.run(main, *args, clock=scheduler)
        except Exception as error:
            error.add_note(
                f"simulated with seed={int(seed)}, {said}{_early_note(scheduler)};"
                f" {scheduler.steps} steps, virtual time {scheduler.current_time():g} s"
            )
            raise
    if not scheduler.steps:
        raise simulator_broken("_core._run.Runner.runq")
    return result


def _early_note(scheduler: Scheduler) -> str:
    """Return the part of a note that says whether, and when, time-outs were fired early."""
    allowed = ", early_timeouts=True" if scheduler.may_fire_early else ""
    fired = scheduler.early_steps
    if not fired:
        return allowed
    shown = ", ".join(map(str, fired[:SHOWN_STEPS])) + (", ..." if fired[SHOWN_STEPS:] else "")
    return f"{allowed} (time-outs fired early on purpose in steps {shown})"


def check_can_simulate() -> None:
    """Raise if this trio is not supported, or a loop or a simulation already runs."""
    check_trio_version()
    if trio.lowlevel.in_trio_run() or threads_are_replaced():
        raise SimulationError(
            "a simulation is a trio run of its own and cannot begin inside another one",
            hint="call it from a plain function: `def test_...`, not `async def test_...`",
        )


def check_max_steps(max_steps: int) -> None:
    """Raise ValueError unless it is a whole number of at least 1."""
    if not isinstance(max_steps, int) or max_steps < 1:
        raise ValueError(f"max_steps is {max_steps!r}: pass a whole number of at least 1")


def check_seed(seed: int) -> None:
    """Raise ValueError unless it is a whole number."""
    if not isinstance(seed, int):
        raise ValueError(f"a seed is {seed!r}: pass a whole number")  # noqa: TRY004 - as max_steps


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
