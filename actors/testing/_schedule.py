"""Choice of the next task: three seeded policies, which find different races.

Rule 1: this file does not import trio. Tasks are numbers, in the order they were spawned; the
        clock is one more choice, and then time jumps to the next deadline.
Rule 2: all chance comes from the `Random` argument, and nothing depends on `id()` or on hashes,
        so the same seed yields the same schedule in every process.
Rule 3: a policy may be unfair for a while, never for ever.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from random import Random
from typing import Literal, Protocol, get_args

import attrs

PolicyName = Literal["shuffle", "walk", "pct"]

POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)

# Chosen instead of a task: time-outs fire although tasks could run. Tasks count from 0.
CLOCK = -1

# The probability, per decision, that time jumps although a task is ready. One is drawn per run,
# and zero often: a race between ready tasks is found sooner while no time-out interferes.
EARLY_TIMEOUT_CHANCES = (0.0, 0.0, 0.01, 0.05, 0.25)

# Under pct the highest priority runs alone; a task that spins, or a clock that only re-arms,
# would starve the rest. So after this many ticks the highest priority becomes the lowest.
LEASE_TICKS = 100


@attrs.frozen
class Step:
    """One tick of a simulated run: the task that ran (or `clock`), and the virtual time.

    `note` says what is unusual: a time-out that was fired early on purpose, or a preemption. In a
    report `where` is the line from which the task went on.
    """

    number: int
    task: str
    at: float
    note: str = ""
    where: str = ""

    def __str__(self) -> str:
        line = f"{self.number:>6}  at {self.at:<8g} {self.task}"
        return f"{line}  {self.note}" if self.note else line


class Policy(Protocol):
    """A strategy that chooses one of the ready tasks in each tick."""

    def choose(self, ready: Sequence[int], *, timeout_pending: bool) -> int:
        """Return one of `ready` (ascending, never empty), or `CLOCK` if a time-out is pending.

        A ready task stays ready until chosen. A task that was never ready before has a higher
        number than all tasks that were, because a spawned task is ready at once.
        """
        ...


class Shuffle:
    """Rounds: every ready task runs once, in random order; newly ready tasks wait."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._early = chance.choice(EARLY_TIMEOUT_CHANCES)
        # Invariant: each task in here is ready, since only being chosen makes it unready.
        self._round: list[int] = []

    def choose(self, ready: Sequence[int], *, timeout_pending: bool) -> int:
        """Return the next task of this round."""
        if not self._round:
            self._round.extend(ready)
            self._chance.shuffle(self._round)
        if timeout_pending and self._chance.random() < self._early:
            return CLOCK
        return self._round.pop()


class Walk:
    """A random walk: each tick any ready task, all equally likely."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._early = chance.choice(EARLY_TIMEOUT_CHANCES)

    def choose(self, ready: Sequence[int], *, timeout_pending: bool) -> int:
        """Return any ready task."""
        if timeout_pending and self._chance.random() < self._early:
            return CLOCK
        return ready[int(self._chance.random() * len(ready))]


class Pct:
    """Probabilistic concurrency testing (Burckhardt et al., 2010).

    Every task gets a random priority and the highest ready one runs; at a few random ticks the
    highest drops below all others. A bug that needs d tasks to be held up at the right places
    is found with a probability that falls with the d-th power of the length of the run, and not
    with the number of all interleavings. The clock has a priority like every task.
    """

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._priority = {CLOCK: chance.random()}
        self._newest = CLOCK
        self._lowest = 0.0
        self._tick = 0
        self._early = chance.choice((True, False))
        # The length of the run is unknown, so it is guessed, evenly over magnitudes.
        length = 2 ** chance.randint(3, 11)
        self._drops = {chance.randrange(length) for _ in range(chance.randint(1, 5))}

    def choose(self, ready: Sequence[int], *, timeout_pending: bool) -> int:
        """Return the ready task with the highest priority."""
        for task in ready[bisect_right(ready, self._newest) :]:
            self._priority[task] = self._chance.random()
            self._newest = task
        candidates = [*ready, CLOCK] if timeout_pending and self._early else ready
        chosen = max(candidates, key=self._priority.__getitem__)
        if self._tick in self._drops or self._tick % LEASE_TICKS == LEASE_TICKS - 1:
            self._lowest -= 1.0
            self._priority[chosen] = self._lowest
            chosen = max(candidates, key=self._priority.__getitem__)
        self._tick += 1
        return chosen


def policy_of(seed: int, policy: PolicyName | None) -> PolicyName:
    """Return the policy for `seed`: the requested one, else the one the seed selects."""
    if policy is None:
        # A failing seed from `explore` carries the policy under which it failed.
        remembered: PolicyName | None = getattr(seed, "policy", None)
        return remembered or POLICIES[seed % len(POLICIES)]
    if policy not in POLICIES:
        raise ValueError(f"unknown policy {policy!r}: choose one of {', '.join(POLICIES)}")
    return policy


def make_policy(name: PolicyName, chance: Random) -> Policy:
    """Return a new policy for one run."""
    match name:
        case "shuffle":
            return Shuffle(chance)
        case "walk":
            return Walk(chance)
        case "pct":
            return Pct(chance)
