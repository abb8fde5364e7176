"""Abort of a run that cannot continue.

Rule 1: cancel first, so that the program's own clean-up runs and no task is left behind; the
        last step always ends the tasks.
Rule 2: whatever the program raises on its way out, the run raises the error that ended it.
"""

from __future__ import annotations

import trio

from ._errors import SimulationError
from ._trio_internals import Loop

# Clean-up behind a shield may open the next shield as soon as the first is lifted.
MAX_LIFTS = 5


class RunAbort(trio.abc.Instrument):
    """The abort of one run, with its reason."""

    def __init__(self, loop: Loop, error: SimulationError) -> None:
        self._loop = loop
        self._error = error
        self._escalations = 0
        trio.lowlevel.add_instrument(self)

    def escalate(self) -> None:
        """Take the next step: cancel everything, then lift shields, then discard the tasks."""
        self._escalations += 1
        if self._escalations == 1:
            self._loop.cancel_main()
        elif self._escalations <= 1 + MAX_LIFTS:
            self._loop.lift_shields()
        else:
            self._loop.abandon()

    def after_run(self) -> None:
        """Set the error of the run (called by trio before it reads the main task's outcome)."""
        self._loop.end_with(self._error)
