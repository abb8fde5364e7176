"""How a run that cannot go on is brought to an end.

Rule 1: politely first, so that the program's own clean-up runs and nothing is left behind; but
        the ladder ends in something that cannot refuse.
Rule 2: whatever the program raises on its way out, the run's error is the one that ended it.
"""

from __future__ import annotations

import trio

from ._errors import SimulationError
from ._trio_internals import Loop

# Clean-up that waits behind a shield may open the next shield as soon as the first is lifted.
MAX_LIFTS = 5


class Ending(trio.abc.Instrument):
    """The end of one run, with its reason."""

    def __init__(self, loop: Loop, error: SimulationError) -> None:
        self._loop = loop
        self._error = error
        self._pressed = 0
        trio.lowlevel.add_instrument(self)

    def press(self) -> None:
        """One rung further: cancel everything, then through shields, then throw it away."""
        self._pressed += 1
        if self._pressed == 1:
            self._loop.cancel_main()
        elif self._pressed <= 1 + MAX_LIFTS:
            self._loop.lift_shields()
        else:
            self._loop.abandon()

    def after_run(self) -> None:
        """Trio is about to look at what the main task came to."""
        self._loop.end_with(self._error)
