"""State of a process as /proc shows it: the reason why it cannot work at present."""

from __future__ import annotations

from typing import Final

from supervisor.drivers.identity import ProcessIdentity, is_alive, read_stat
from supervisor.drivers.port import BlockedOn

_STOPPED: Final = frozenset({b"T", b"t"})


def process_blocked_on(identity: ProcessIdentity) -> BlockedOn | None:
    """Return why the process cannot work; None if it can work, or without /proc.

    A short read of /proc, which may be done on the event loop.
    """
    if not is_alive(identity):
        return BlockedOn("process", f"process {identity.pid} has ended")
    stat = read_stat(identity.pid)
    if stat is not None and stat.state in _STOPPED:
        return BlockedOn("process", f"process {identity.pid} is stopped by a signal")
    return None
