"""Who runs next: three seeded policies, which find different races.

Rule 1: this file does not know trio. Tasks are numbers, in the order they were spawned; the clock
        is one more that may be chosen, and then time jumps to the next deadline.
Rule 2: all chance comes from the given `Random`, and nothing depends on `id()` or on hashes, so
        the same seed gives the same schedule in every process.
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

# Chosen instead of a task: time-outs are due although others could run. Tasks count from 0.
CLOCK = -1

# How likely, per decision, time jumps although someone is ready. One is drawn per run, and zero
# often: a race between ready tasks is found sooner while no time-out cuts it short.
EARLY_TIMEOUT_CHANCES = (0.0, 0.0, 0.01, 0.05, 0.25)

# Under pct the highest priority runs alone; who spins, or a clock that only re-arms, would starve
# the rest. So after this many ticks the one on top goes to the bottom.
LEASE_TICKS = 100


@attrs.frozen
class Step:
    """One tick of a simulated run: the task that ran (or `clock`), and the virtual time."""

    number: int
    task: str
    at: float

    def __str__(self) -> str:
        return f"{self.number:>6}  at {self.at:<8g} {self.task}"


class Policy(Protocol):
    """Chooses one of the ready tasks, each tick."""

    def choose(self, ready: Sequence[int], *, timeout_pending: bool) -> int:
        """One of `ready` (ascending, never empty), or `CLOCK` if a time-out is pending.

        Who is ready stays ready until chosen. Whoever was never ready before has a higher number
        than everyone who was: being spawned makes ready.
        """
        ...


class Shuffle:
    """Rounds: everyone who is ready runs once, in random order; who gets ready waits."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._early = chance.choice(EARLY_TIMEOUT_CHANCES)
        # Invariant: each task in here is ready, since only being chosen makes it unready.
        self._round: list[int] = []

    def choose(self, ready: Sequence[int], *, timeout_pending: bool) -> int:
        """The next of this round."""
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
        """Any of them."""
        if timeout_pending and self._chance.random() < self._early:
            return CLOCK
        return ready[int(self._chance.random() * len(ready))]


class Pct:
    """Probabilistic concurrency testing (Burckhardt et al., 2010).

    Every task gets a random priority and the highest ready one runs; at a few random ticks the
    one on top drops below everybody. A bug that needs d tasks to be held up at the right places
    is found with a chance that falls with the d-th power of the length of the run, and not with
    the number of all interleavings. The clock has a priority like everyone else.
    """

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._priority = {CLOCK: chance.random()}
        self._newest = CLOCK
        self._lowest = 0.0
        self._tick = 0
        self._early = chance.choice((True, False))
        # How long the run will be is not known, so its length is guessed, evenly over magnitudes.
        length = 2 ** chance.randint(3, 11)
        self._drops = {chance.randrange(length) for _ in range(chance.randint(1, 5))}

    def choose(self, ready: Sequence[int], *, timeout_pending: bool) -> int:
        """The one with the highest priority."""
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
    """The policy that `seed` runs under: the one asked for, else the seed's own."""
    if policy is None:
        # A seed that `explore` found failing remembers the policy under which it failed.
        remembered: PolicyName | None = getattr(seed, "policy", None)
        return remembered or POLICIES[seed % len(POLICIES)]
    if policy not in POLICIES:
        raise ValueError(f"no policy is called {policy!r}: choose one of {', '.join(POLICIES)}")
    return policy


def make_policy(name: PolicyName, chance: Random) -> Policy:
    """A fresh policy for one run."""
    match name:
        case "shuffle":
            return Shuffle(chance)
        case "walk":
            return Walk(chance)
        case "pct":
            return Pct(chance)
