"""Notes of the supervisor that holds a store, in the lock file beside it.

Rule 1: the notes survive a kill -9 and a lost database, so the next start can tell what is missing.
Rule 2: they are hints. Notes that are missing, malformed or of an older version change nothing.
Rule 3: the position is written after the commit that it names, so it is never ahead of the file.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

import attrs

from supervisor.core.steady_time import ClockReading

MAX_NOTES_BYTES: Final = 4096
# The position is at a fixed place, so that each commit writes only these digits.
_HEAD: Final = b'{"position": "'
_DIGITS: Final = 19
POSITION_OFFSET: Final = len(_HEAD)


@attrs.frozen(kw_only=True)
class RunNotes:
    """The notes of one run."""

    # The holder of the lock; None after an orderly exit.
    pid: int | None = None
    since: float | None = None
    # The last position of the store.
    position: int = 0
    # True from the opening of the database until it is closed, with its WAL moved into it.
    is_open: bool = False
    # True from the lock until recovery is written: until then the stored rows are of the past.
    is_recovering: bool = False
    clock: ClockReading | None = None


def encode_position(position: int) -> bytes:
    """Return the digits of a position, always equally many."""
    return b"%0*d" % (_DIGITS, position)


def encode_notes(notes: RunNotes) -> bytes:
    """Return the content of the lock file."""
    rest: dict[str, Any] = {"is_open": notes.is_open, "is_recovering": notes.is_recovering}
    if notes.pid is not None:
        rest |= {"pid": notes.pid, "since": notes.since}
    if notes.clock is not None:
        rest["clock"] = attrs.asdict(notes.clock)
    return _HEAD + encode_position(notes.position) + b'", ' + json.dumps(rest).encode()[1:]


def decode_notes(content: bytes) -> RunNotes:
    """Return the notes in the content of a lock file, as far as it has any."""
    try:
        plain = json.loads(content)
        pid, since = plain.get("pid"), plain.get("since")
        return RunNotes(
            pid=None if pid is None else int(pid),
            since=None if since is None else float(since),
            position=int(plain.get("position", 0)),
            is_open=plain.get("is_open") is True,
            is_recovering=plain.get("is_recovering") is True,
            clock=_decode_clock(plain.get("clock")),
        )
    except (ValueError, TypeError, AttributeError, OverflowError):
        return RunNotes()


def _decode_clock(plain: object) -> ClockReading | None:
    if not isinstance(plain, dict):
        return None
    try:
        numbers = {name: float(plain[name]) for name in ("monotonic", "steady", "wall")}
        boot_id = plain["boot_id"]
    except (KeyError, TypeError, ValueError):
        return None
    if not all(math.isfinite(number) for number in numbers.values()):
        return None
    return ClockReading(boot_id=None if boot_id is None else str(boot_id), **numbers)
