"""The mark that everything of one containment bears in its environment, whoever started it.

It is how the rest is found when the guardian itself was killed. It names that guardian, so that
anyone who finds a marked process can tell whether it still has one; and the namespace in which the
guardian's pid means something, for a container's processes are seen from outside too.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

import attrs

from supervisor.drivers.identity import ProcessIdentity

VARIABLE: Final = "UNDERSTUDY_CONTAINMENT"
_ENTRY: Final = f"{VARIABLE}=".encode()
_FIELDS: Final = 4


@attrs.frozen
class Marker:
    """One containment, and never another one."""

    token: str
    guardian_pid: int
    guardian_start_time: int
    namespace: str

    def __str__(self) -> str:
        return f"{self.token}.{self.guardian_pid}.{self.guardian_start_time}.{self.namespace}"

    def is_guardian(self, identity: ProcessIdentity) -> bool:
        """Whether that is the process which guards this containment."""
        named = (self.guardian_pid, self.guardian_start_time)
        return (identity.pid, identity.start_time) == named


def new_marker(guardian: ProcessIdentity) -> Marker:
    """One that nobody bears yet."""
    return Marker(
        secrets.token_hex(16), guardian.pid, guardian.start_time, current_namespace() or "none"
    )


def find_marker(environ: bytes) -> Marker | None:
    """The mark in the text of a /proc/PID/environ; None if there is none, or no such one."""
    if _ENTRY not in environ:
        return None  # of nearly everyone
    for entry in environ.split(b"\0"):
        if entry.startswith(_ENTRY):
            return parse_marker(entry[len(_ENTRY) :].decode("ascii", "replace"))
    return None


def parse_marker(text: str) -> Marker | None:
    """The exact inverse of its text; None if that is no mark's."""
    fields = text.split(".")
    if len(fields) != _FIELDS or not all(field.isdigit() for field in fields[1:3]):
        return None
    marker = Marker(fields[0], int(fields[1]), int(fields[2]), fields[3])
    return marker if str(marker) == text else None


def current_namespace() -> str | None:
    """In which pids mean what they mean to us; None where there is no /proc."""
    try:
        return Path("/proc/self/ns/pid").readlink().name.strip("pid:[]")
    except OSError:
        return None
