"""A disk that fails when it is told to.

with failing_disk() as disk:
    disk.fail("write", after=3, with_="full", on="wal")
    ...
    disk.heal()
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

import attrs

from . import calls
from .calls import CarryOut, FileKind
from .shim import Shim

Deed: TypeAlias = Literal["open", "write", "truncate", "sync", "delete"]
Failure: TypeAlias = Literal[
    "full", "read_only", "write_error", "sync_error", "truncate_error", "open_error", "delete_error"
]

_DEEDS: Final[dict[Deed, type[calls.Call]]] = {
    "open": calls.Open,
    "write": calls.Write,
    "truncate": calls.Truncate,
    "sync": calls.Sync,
    "delete": calls.Delete,
}
_CODES: Final[dict[Failure, int]] = {
    "full": sqlite3.SQLITE_FULL,
    "read_only": sqlite3.SQLITE_READONLY,
    "write_error": sqlite3.SQLITE_IOERR_WRITE,
    "sync_error": sqlite3.SQLITE_IOERR_FSYNC,
    "truncate_error": sqlite3.SQLITE_IOERR_TRUNCATE,
    "open_error": sqlite3.SQLITE_CANTOPEN,
    "delete_error": sqlite3.SQLITE_IOERR_DELETE,
}


@attrs.define
class _Plan:
    deed: type[calls.Call]
    code: int
    kinds: frozenset[FileKind]
    # How many more of these calls go well.
    spared: int
    how_long: Literal["once", "until healed"]
    arriving_bytes: int
    is_over: bool = False

    def strikes(self, call: calls.Call) -> bool:
        if self.is_over or not isinstance(call, self.deed) or call.kind not in self.kinds:
            return False
        self.spared -= 1
        if self.spared >= 0:
            return False
        self.is_over = self.how_long == "once"
        return True


class FailingDisk:
    """See the module; made by `failing_disk`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: list[_Plan] = []
        # How many bytes files may still grow by, all together; None: as many as they like.
        self._room_bytes: int | None = None
        # Every call that failed by plan, so that a test can see that its plan met something.
        self.failed: list[calls.Call] = []

    def fail(
        self,
        deed: Deed,
        *,
        with_: Failure,
        after: int = 0,
        on: FileKind | tuple[FileKind, ...] = ("db", "wal", "journal"),
        how_long: Literal["once", "until healed"] = "until healed",
        arriving_bytes: int = 0,
    ) -> None:
        """Have that call fail once `after` more of them went well, counted from now.

        Of a write that fails, `arriving_bytes` are written all the same.
        """
        kinds = frozenset(on if isinstance(on, tuple) else (on,))
        plan = _Plan(_DEEDS[deed], _CODES[with_], kinds, after, how_long, arriving_bytes)
        with self._lock:
            self._plans.append(plan)

    def fill(self, *, room_bytes: int = 0) -> None:
        """Have files grow by no more than this: what is there already can be written over.

        As on a real full disk, the write that meets the end is written as far as there is room.
        """
        with self._lock:
            self._room_bytes = room_bytes

    def heal(self) -> None:
        """Nothing fails any more."""
        with self._lock:
            self._plans.clear()
            self._room_bytes = None

    def handle(self, call: calls.Call, carry_out: CarryOut) -> int:
        with self._lock:
            # Each plan counts for itself, so all of them have to see the call.
            striking = [plan for plan in self._plans if plan.strikes(call)]
            if striking:
                return self._fail(call, carry_out, striking[0].code, striking[0].arriving_bytes)
            if self._room_bytes is not None and isinstance(call, calls.Write):
                return self._write_into(self._room_bytes, call, carry_out)
            return carry_out(call)

    def _fail(self, call: calls.Call, carry_out: CarryOut, code: int, arriving_bytes: int) -> int:
        self.failed.append(call)
        if arriving_bytes > 0 and isinstance(call, calls.Write):
            carry_out(attrs.evolve(call, data=call.data[:arriving_bytes]))
        return code

    def _write_into(self, room_bytes: int, call: calls.Write, carry_out: CarryOut) -> int:
        size_bytes = Path(call.path).stat().st_size
        growth_bytes = max(0, call.offset + len(call.data) - size_bytes)
        self._room_bytes = room_bytes - min(room_bytes, growth_bytes)
        if growth_bytes <= room_bytes:
            return carry_out(call)
        arriving_bytes = len(call.data) - (growth_bytes - room_bytes)
        return self._fail(call, carry_out, sqlite3.SQLITE_FULL, arriving_bytes)


@contextmanager
def failing_disk(*, seed: int = 0) -> Iterator[FailingDisk]:
    """A disk that is well until told otherwise, for all connections opened and closed in here."""
    disk = FailingDisk()
    with Shim(disk.handle, seed=seed):
        yield disk
