"""Whether a process that is on record has an owner: then it is no leftover, whoever finds it.

A store that was copied names the processes of the supervisor which it was copied from. An agent is
a child of its guardian, and a guardian one of its supervisor, for as long as these live: that is
what is looked at, because the kernel cannot be wrong about it.
"""

from __future__ import annotations

from pathlib import Path

from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.process.lifeline import supervisor_of

# Behind the name in /proc/PID/stat.
_PARENT = 1
_START_TIME = 19


def has_owner(process: ProcessIdentity) -> bool:
    """Whether it stands under a guardian whose supervisor lives, be it dead itself and unburied."""
    stat = _stat_of(process.pid)
    if stat is None or stat[_START_TIME] != process.start_time:
        return False
    guardian = stat[_PARENT]
    supervisor, above = supervisor_of(guardian), _stat_of(guardian)
    # When a parent dies his children get another one.
    return supervisor is not None and above is not None and above[_PARENT] == supervisor


def _stat_of(pid: int) -> list[int] | None:
    """Its numbers; the first one is its state, and none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        return [0, *map(int, stat.rpartition(b")")[2].split()[1:])]
    except (OSError, ValueError):
        return None
