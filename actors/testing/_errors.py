"""What can go wrong in a simulated run, classed by whose fault it is.

    SimulationError            every error of this package; has a `hint`
    ├── Deadlock               the program: everyone waits, and nothing is left that could wake them
    ├── Livelock               the program: it took more steps than it was allowed
    └── SimulatorBroken        ours: this trio is not the one the simulator was written for

A bare `SimulationError` is the caller's: the simulator was asked for what it cannot do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._schedule import Step


class SimulationError(Exception):
    """The root of this package's errors: `str(error)` says what happened, `hint` what to do."""

    def __init__(self, problem: str, *, hint: str) -> None:
        super().__init__(problem)
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.args[0]}\n(hint: {self.hint})"


class Deadlock(SimulationError):
    """Nobody can run, no time-out is pending, and nothing outside can wake anyone.

    `waiting` has one text per blocked task: its name, and the lines at which it waits.
    """

    def __init__(self, waiting: Sequence[str]) -> None:
        listed = "\n".join(waiting)
        super().__init__(
            f"nobody can run and no time-out is pending; {len(waiting)} blocked:\n{listed}",
            hint="someone listed here should have woken, answered or cancelled another one",
        )
        self.waiting = tuple(waiting)


class Livelock(SimulationError):
    """The program was still running when its steps were used up; `last_steps` are the latest."""

    def __init__(self, max_steps: int, last_steps: Sequence[Step]) -> None:
        listed = "\n".join(f"  {step}" for step in last_steps)
        super().__init__(
            f"still running after {max_steps} steps; the last ones:\n{listed}",
            hint="look for a loop that never blocks, or raise max_steps",
        )
        self.last_steps = tuple(last_steps)


class SimulatorBroken(SimulationError):
    """A private name of trio on which the simulator stands is gone, or is not what it was."""

    def __init__(self, name: str, *, trio_version: str, works_with: str) -> None:
        super().__init__(
            f"trio {trio_version} no longer has {name} as the simulator knows it",
            hint=f"install trio {works_with}, or mend actors/testing/_trio_internals.py",
        )
        self.name = name
