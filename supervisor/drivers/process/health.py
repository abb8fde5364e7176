"""How a process is, looked at from outside: what keeps it from working, if anything does."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from supervisor.drivers.identity import ProcessIdentity, is_alive
from supervisor.drivers.port import Hindrance

_STOPPED: Final = frozenset({b"T", b"t"})


def hindrance_of(identity: ProcessIdentity) -> Hindrance | None:
    """Why nothing can come of it; None if it runs, or nobody can tell.

    One short read of /proc, so it may be asked on the loop.
    """
    if not is_alive(identity):
        return Hindrance("process", f"process {identity.pid} is gone")
    try:
        stat = Path(f"/proc/{identity.pid}/stat").read_bytes()
    except OSError:
        return None
    state = stat.rpartition(b")")[2].split()[:1]
    if state and state[0] in _STOPPED:
        return Hindrance("process", f"process {identity.pid} was stopped by a signal")
    return None
