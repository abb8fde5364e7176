"""Many runs of one program, to find the seeds under which it fails.

Rule 1: every error is a finding, except an interrupt of the process and a broken simulator.
Rule 2: the first failure of each kind is shortened and reported; the others need no second report.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Self, TypeVarTuple

import attrs

from ._errors import SimulatorBroken
from ._replay import Deviations, Recorder, Replay
from ._report import Counts, describe, shown_error
from ._schedule import Policy, PolicyName, Step, make_policy, policy_of
from ._scheduler import Scheduler
from ._shrink import FailureKind, Shrinker, kind_of
from ._simulate import (
    MAX_STEPS,
    check_can_simulate,
    check_max_steps,
    check_seed,
    policy_chance,
    run_scheduled,
)

Args = TypeVarTuple("Args")


class FailingSeed(int):
    """A seed under which the program failed; `simulate(main, seed=...)` fails the same way.

    It is an int with attributes: its `policy`, the `error`, and whether `early_timeouts` were
    allowed. The first failure of each kind also has the shortest `schedule` that was found, which
    `simulate` replays, and a `report`: the preemptions and early time-outs that are needed, and
    the trace.
    """

    policy: PolicyName
    error: Exception
    early_timeouts: bool
    schedule: Deviations | None
    report: str

    def __new__(
        cls, seed: int, *, policy: PolicyName, error: Exception, early_timeouts: bool = False
    ) -> Self:
        failing = super().__new__(cls, seed)
        failing.policy = policy
        failing.error = error
        failing.early_timeouts = early_timeouts
        failing.schedule = None
        failing.report = ""
        return failing

    def __repr__(self) -> str:
        return f"<seed {int(self)}, {self.policy}: {shown_error(self.error)}>"

    def __str__(self) -> str:
        return str(int(self))


def explore(
    main: Callable[[*Args], Awaitable[object]],
    *args: *Args,
    seeds: Iterable[int] | int = range(200),
    policy: PolicyName | None = None,
    max_failures: int | None = None,
    max_steps: int = MAX_STEPS,
    early_timeouts: bool = False,
    shrink: bool = True,
) -> list[FailingSeed]:
    """Simulate `main(*args)` once per seed; return the seeds that failed, in order.

    `seeds` are the numbers themselves, or their count, from 0 on. Without `policy` the seeds
    cycle through all policies. With `max_failures` it stops after that number of failures. With
    `early_timeouts` time-outs are also fired on purpose while tasks could run, which finds races
    against time-outs; a program that treats every time-out as a failure then fails.

    The first failure of each kind is run again with fewer preemptions and fewer early time-outs,
    as long as it fails in the same way; the report is kept in its `report` and printed to
    `sys.stderr`. With `shrink=False` this is left out.

    Raise ValueError for a seed that is not a whole number.
    """
    check_can_simulate()
    check_max_steps(max_steps)
    failing: list[FailingSeed] = []
    known: set[FailureKind] = set()
    for seed in _numbers(seeds):
        if max_failures is not None and len(failing) >= max_failures:
            break
        runs = _Runs(main, args, seed, policy_of(seed, policy), max_steps, early_timeouts)
        error = runs.run(runs.policy()).error
        if error is None:
            continue
        found = FailingSeed(seed, policy=runs.name, error=error, early_timeouts=early_timeouts)
        failing.append(found)
        if shrink and kind_of(error) not in known:
            known.add(kind_of(error))
            _shrink(runs, found)
            sys.stderr.write(f"{found.report}\n")
    return failing


def _numbers(seeds: Iterable[int] | int) -> Iterator[int]:
    if isinstance(seeds, int) and not isinstance(seeds, bool) and seeds >= 0:
        yield from range(seeds)
    elif isinstance(seeds, Iterable):
        for seed in seeds:
            check_seed(seed)
            yield seed
    else:
        raise ValueError(f"seeds is {seeds!r}: pass whole numbers, or their count")


@attrs.frozen
class _Run:
    """The end of one run: its error, None if it had none, and its steps."""

    error: Exception | None
    steps: int


@attrs.frozen
class _Runs:
    """Runs of one program under one seed."""

    main: Callable[..., Awaitable[object]]
    args: tuple[object, ...]
    seed: int
    name: PolicyName
    max_steps: int
    early_timeouts: bool

    def policy(self) -> Policy:
        return make_policy(self.name, policy_chance(self.seed, self.name))

    def run(self, policy: Policy, trace: list[Step] | None = None) -> _Run:
        """Run the program; a trace is filled with details."""
        scheduler = Scheduler(
            policy,
            max_steps=self.max_steps,
            early_timeouts=self.early_timeouts,
            trace=trace,
            is_detailed=trace is not None,
        )
        error: Exception | None = None
        try:
            run_scheduled(
                self.main,
                *self.args,
                seed=self.seed,
                scheduler=scheduler,
                said=f"policy={self.name!r}",
            )
        except SimulatorBroken:
            raise
        except Exception as raised:  # noqa: BLE001 - whatever the program raises is the finding
            error = raised
        return _Run(error, scheduler.steps)


def _shrink(runs: _Runs, found: FailingSeed) -> None:
    """Set the shortest schedule and the report of a failing seed."""
    kind = kind_of(found.error)

    def attempt(deviations: Deviations) -> tuple[int, Deviations | None]:
        replay = Replay(deviations)
        run = runs.run(replay)
        fails = run.error is not None and kind_of(run.error) == kind
        return run.steps, replay.used if fails else None

    recorder = Recorder(runs.policy())
    before = runs.run(recorder)
    head = f"{found!r}\n"
    if before.error is None or attempt(recorder.deviations)[1] is None:
        found.report = head + (
            "it does not fail again: the program depends on something that the seed does not"
            " control, for example the wall clock, the order of a set, or an earlier run"
        )
        return
    shrinker = Shrinker(attempt, recorder.deviations)
    found.schedule = shrinker.search()
    replay, trace = Replay(found.schedule), list[Step]()
    after = runs.run(replay, trace)
    found.report = head + "\n".join(
        (
            f"found with   {_counts(recorder, before)}",
            f"fails with   {_counts(replay, after)}   (tried {shrinker.runs} shorter schedules)",
            *describe(trace),
            f"{'ends':>11}  {shown_error(after.error)}",
        )
    )


def _counts(policy: Recorder | Replay, run: _Run) -> Counts:
    return Counts(policy.order.preemptions, policy.order.early_timeouts, run.steps)
