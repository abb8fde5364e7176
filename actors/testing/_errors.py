"""The errors of a simulated run, classed by fault.

    SimulationError            every error of this package; has a `hint`
    ├── Deadlock               the program: every task waits, and nothing can wake one
    ├── Livelock               the program: it took more steps than it was allowed
    ├── OutOfTime              the program: its virtual time went beyond the limit
    └── SimulatorBroken        ours: this trio is not the one the simulator was written for

A bare `SimulationError` is the caller's: the simulator cannot do what was requested.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._schedule import Step


class SimulationError(Exception):
    """Base of this package's errors: `str(error)` is the problem, `hint` what to do."""

    def __init__(self, problem: str, *, hint: str) -> None:
        super().__init__(problem)
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.args[0]}\n(hint: {self.hint})"


class Deadlock(SimulationError):
    """No task can run, no time-out is pending, and nothing outside can wake a task.

    `waiting` has one text per blocked task: its name, and the lines at which it waits.
    """

    def __init__(self, waiting: Sequence[str]) -> None:
        listed = "\n".join(waiting)
        super().__init__(
            f"no task can run and no time-out is pending; {len(waiting)} blocked:\n{listed}",
            hint="one of the tasks listed should have woken, answered or cancelled another",
        )
        self.waiting = tuple(waiting)


class Livelock(SimulationError):
    """The program was still running after its last allowed step; `last_steps` are the latest."""

    def __init__(self, max_steps: int, last_steps: Sequence[Step]) -> None:
        listed = "\n".join(f"  {step}" for step in last_steps)
        super().__init__(
            f"still running after {max_steps} steps; the last ones:\n{listed}",
            hint="look for a loop that never blocks, or raise max_steps",
        )
        self.last_steps = tuple(last_steps)


class OutOfTime(SimulationError):
    """The next time-out is beyond the limit of the `VirtualClock`.

    `waiting` has one text per blocked task, as in `Deadlock`.
    """

    def __init__(self, limit_seconds: float, waiting: Sequence[str]) -> None:
        listed = "\n".join(waiting)
        super().__init__(
            f"still running after {limit_seconds:g} s of virtual time; {len(waiting)} blocked:\n"
            f"{listed}",
            hint="one of the tasks listed waits for ever beside a timer that repeats; or raise"
            " limit_seconds",
        )
        self.waiting = tuple(waiting)


class SimulatorBroken(SimulationError):
    """A private name of trio that the simulator uses is missing or has changed."""

    def __init__(self, name: str, *, trio_version: str, works_with: str) -> None:
        super().__init__(
            f"trio {trio_version} no longer has {name} as the simulator expects it",
            hint=f"install trio {works_with}, or adapt actors/testing/_trio_internals.py",
        )
        self.name = name
