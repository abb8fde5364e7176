"""Many runs of one program, to find the seeds under which it fails.

Rule 1: every error is a finding, except an interrupt of the process and a broken simulator.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Self, TypeVarTuple

from ._errors import SimulatorBroken
from ._schedule import PolicyName, policy_of
from ._simulate import MAX_STEPS, check_can_simulate, simulate

Args = TypeVarTuple("Args")


class FailingSeed(int):
    """A seed under which the program failed; `simulate(main, seed=...)` fails the same way.

    It is an int with two attributes: its `policy` and the `error`.
    """

    policy: PolicyName
    error: Exception

    def __new__(cls, seed: int, *, policy: PolicyName, error: Exception) -> Self:
        failing = super().__new__(cls, seed)
        failing.policy = policy
        failing.error = error
        return failing

    def __repr__(self) -> str:
        return f"<seed {int(self)}, {self.policy}: {self.error!r}>"

    def __str__(self) -> str:
        return str(int(self))


def explore(
    main: Callable[[*Args], Awaitable[object]],
    *args: *Args,
    seeds: Iterable[int] | int = range(200),
    policy: PolicyName | None = None,
    max_failures: int | None = None,
    max_steps: int = MAX_STEPS,
    early_timeouts: bool = True,
) -> list[FailingSeed]:
    """Simulate `main(*args)` once per seed; return the seeds that failed, in order.

    `seeds` are the numbers themselves, or their count, from 0 on. Without `policy` the seeds
    cycle through all policies. With `max_failures` it stops after that number of failures. A
    program that treats every time-out as a failure is explored, and its seeds replayed, with
    `early_timeouts=False`.
    """
    check_can_simulate()
    failing: list[FailingSeed] = []
    for seed in range(seeds) if isinstance(seeds, int) else seeds:
        if max_failures is not None and len(failing) >= max_failures:
            break
        try:
            simulate(
                main,
                *args,
                seed=seed,
                policy=policy,
                max_steps=max_steps,
                early_timeouts=early_timeouts,
            )
        except SimulatorBroken:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the program raises is the finding
            found = FailingSeed(seed, policy=policy_of(seed, policy), error=error)
            failing.append(found)
    return failing
