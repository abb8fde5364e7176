"""Steady time: the time line of stored deadlines, which no jump of the wall clock changes. Pure.

Steady time starts as wall time in a new store. While a supervisor runs, it advances with the
monotonic clock. A reading of all clocks is kept beside the store, so that the next supervisor
continues the time line.
"""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class ClockReading:
    """The clocks at one instant; `boot_id` is None where boots cannot be told apart."""

    boot_id: str | None
    monotonic: float
    steady: float
    wall: float


def resume_steady(
    previous: ClockReading | None, *, boot_id: str | None, monotonic: float, wall: float
) -> float:
    """Return the current steady time, from a reading of an earlier supervisor and the clocks now.

    In the same boot the monotonic clock measures the time between. After another boot only the wall
    clock does: a wall clock ahead counts as downtime, a wall clock that went back as none.
    """
    if previous is None:
        return wall
    if boot_id is not None and boot_id == previous.boot_id:
        return previous.steady + max(0.0, monotonic - previous.monotonic)
    return previous.steady + max(0.0, wall - previous.wall)
