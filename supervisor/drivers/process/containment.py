"""In which containments a process is, as the kernel's parent pids say.

A guardian is the subreaper of everything that its agent starts, so each process of a containment
has the guardian among its ancestors, whatever it has done to its group, its session, its
environment or its parent. Only a process that another program has started for it has not, for
example the service manager of the user.
"""

from __future__ import annotations

import functools
import os
from typing import Final

from supervisor.drivers.identity import ProcessIdentity, identify, is_alive, read_stat

from .fork_server import supervisor_pid

# A walk starts again if a process of the chain ends meanwhile.
_ATTEMPTS: Final = 10
_MAX_DEPTH: Final = 1000


def guardians_above(process: ProcessIdentity) -> frozenset[ProcessIdentity] | None:
    """Return the guardians among the ancestors of a process; None if the process has ended.

    They may belong to any supervisor. Some files of /proc are read, which may be done on the event
    loop.
    """
    for _ in range(_ATTEMPTS):
        found = _walk_up(process)
        if found is not None:
            return found
        if not is_alive(process):
            return None
    return None


def foreign_guardians_above(process: ProcessIdentity) -> frozenset[ProcessIdentity] | None:
    """Return the guardians above a process that are not above this process; None if it has ended.

    A supervisor may itself run in a containment; processes beside it there are not its agents.
    """
    found = guardians_above(process)
    return None if found is None else found - _own_guardians(os.getpid())


def guardian_of(agent: ProcessIdentity) -> ProcessIdentity | None:
    """Return the guardian of an agent process, its parent; None if it has none or has ended."""
    stat = read_stat(agent.pid)
    if stat is None or stat.start_time != agent.start_time or supervisor_pid(stat.parent) is None:
        return None
    guardian = identify(stat.parent)
    # Its parent pid cannot have been reused if it still is its parent.
    now = read_stat(agent.pid)
    return guardian if now is not None and now.parent == stat.parent else None


@functools.cache
def _own_guardians(pid: int) -> frozenset[ProcessIdentity]:
    us = identify(pid)
    return (us and guardians_above(us)) or frozenset()


def _walk_up(process: ProcessIdentity) -> frozenset[ProcessIdentity] | None:
    """Return the guardians above; None if a process of the chain has ended during the walk."""
    found: set[ProcessIdentity] = set()
    stat = read_stat(process.pid)
    if stat is None or stat.is_dead or stat.start_time != process.start_time:
        return None
    for _ in range(_MAX_DEPTH):
        if stat.parent < 1:
            break  # the first process, or the parent is outside of our pid namespace
        above = read_stat(stat.parent)
        if above is None and _is_hidden(stat.parent):
            break
        # Every ancestor is older. A younger process has the pid of a parent that has ended.
        if above is None or above.start_time > stat.start_time:
            return None
        if _is_guardian(stat.parent, above.start_time):
            guardian = identify(stat.parent)
            if guardian is not None:
                found.add(guardian)
        stat = above
    return frozenset(found)


@functools.lru_cache(maxsize=512)
def _is_guardian(pid: int, start_time: int) -> bool:  # noqa: ARG001 - a part of the identity
    """Return True if the process is a guardian, which no process becomes later.

    A guardian is forked from a guardian's fork server and executes nothing.
    """
    return supervisor_pid(pid) is not None


def _is_hidden(pid: int) -> bool:
    """Return True if a process exists that /proc does not show us."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
