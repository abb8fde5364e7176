"""Processes of a piece: pytest, and everything that its tests started.

Rule 1: pytest leads a session, so a process that its parent left still belongs to the piece.
Rule 2: a process that left the session too is known if it was a descendant when the stop began.
Rule 3: a process is killed by pid and start time, never by a pid alone.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Final

import trio

from supervisor.drivers.identity import (
    ProcessIdentity,
    ProcessStat,
    identify,
    kill_processes,
    read_stat,
)

# An interrupted pytest has this long for its fixtures, then all processes of the piece are killed.
STOP_SECONDS: Final = 10.0


async def stop(process: trio.Process) -> None:
    """Interrupt pytest, then kill what is left of the piece, at the latest after `STOP_SECONDS`."""
    known = members(process.pid)
    process.send_signal(signal.SIGINT)
    with trio.move_on_after(STOP_SECONDS):
        await process.wait()
    await kill_processes({*known, *members(process.pid)})


async def kill_left(pid: int) -> None:
    """Kill what the pytest with this pid, which has ended, left behind."""
    await kill_processes(members(pid))


def members(pid: int) -> list[ProcessIdentity]:
    """Return the live processes of the piece whose pytest has, or had, this pid."""
    stats = dict(_all_stats())
    found = {one for one, stat in stats.items() if pid in (one, stat.session)}
    while more := {one for one, stat in stats.items() if stat.parent in found} - found:
        found |= more
    return [identity for one in found if (identity := identify(one)) is not None]


def _all_stats() -> list[tuple[int, ProcessStat]]:
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [(pid, stat) for pid in pids if (stat := read_stat(pid)) is not None]
