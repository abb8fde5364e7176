"""What the daemon's exit code says."""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """0 to 2 mean what they mean for every command; the others are the daemon's own."""

    CLEAN = 0  # every turn ended by itself
    FAILED = 1  # it could not start, or could not go on
    MISCONFIGURED = 2  # its configuration cannot be meant; trying again does not help
    FORCED = 6  # turns had to be interrupted; what was accepted is kept, and goes on
    HELD = 7  # something would not end, and was left behind with the process
