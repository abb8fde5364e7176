"""The marker that every process of one containment has in its environment.

It identifies the processes of a containment when the guardian itself was killed. It names the
guardian, so that a scan can tell whether a marked process still has one, and the pid namespace of
the guardian's pid, because processes of a container are visible from outside as well.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

import attrs

from supervisor.drivers.identity import ProcessIdentity

MARKER_VARIABLE: Final = "UNDERSTUDY_CONTAINMENT"
_ENTRY: Final = f"{MARKER_VARIABLE}=".encode()
_FIELDS: Final = 4


@attrs.frozen
class Marker:
    """The permanent identity of one containment."""

    token: str
    guardian_pid: int
    guardian_start_time: int
    namespace: str

    def __str__(self) -> str:
        return f"{self.token}.{self.guardian_pid}.{self.guardian_start_time}.{self.namespace}"

    def is_guardian(self, identity: ProcessIdentity) -> bool:
        """Return True if this process is the guardian of the containment."""
        named = (self.guardian_pid, self.guardian_start_time)
        return (identity.pid, identity.start_time) == named


def new_marker(guardian: ProcessIdentity) -> Marker:
    """Return an unused marker for the containment of this guardian."""
    return Marker(
        secrets.token_hex(16), guardian.pid, guardian.start_time, pid_namespace() or "none"
    )


def marker_in_environ(environ: bytes) -> Marker | None:
    """Return the marker in the text of a /proc/PID/environ; None if it has no valid one."""
    if _ENTRY not in environ:
        return None  # the fast path of nearly every process
    for entry in environ.split(b"\0"):
        if entry.startswith(_ENTRY):
            return parse_marker(entry[len(_ENTRY) :].decode("ascii", "replace"))
    return None


def parse_marker(text: str) -> Marker | None:
    """Return the marker with exactly this text; None if there is none."""
    fields = text.split(".")
    if len(fields) != _FIELDS or not all(field.isdigit() for field in fields[1:3]):
        return None
    marker = Marker(fields[0], int(fields[1]), int(fields[2]), fields[3])
    return marker if str(marker) == text else None


def pid_namespace() -> str | None:
    """Return the id of our pid namespace; None without /proc."""
    try:
        return Path("/proc/self/ns/pid").readlink().name.strip("pid:[]")
    except OSError:
        return None
