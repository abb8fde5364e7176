"""A disk that fails on request.

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

from tests.support.disk import calls

from .calls import CarryOut, FileKind
from .shim import Shim

DiskCall: TypeAlias = Literal["open", "write", "truncate", "sync", "delete"]
Failure: TypeAlias = Literal[
    "full", "read_only", "write_error", "sync_error", "truncate_error", "open_error", "delete_error"
]

_CALLS: Final[dict[DiskCall, type[calls.Call]]] = {
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
    call: type[calls.Call]
    code: int
    kinds: frozenset[FileKind]
    # Number of further calls that succeed.
    spared: int
    how_long: Literal["once", "until healed"]
    arriving_bytes: int
    is_over: bool = False

    def strikes(self, call: calls.Call) -> bool:
        if self.is_over or not isinstance(call, self.call) or call.kind not in self.kinds:
            return False
        self.spared -= 1
        if self.spared >= 0:
            return False
        self.is_over = self.how_long == "once"
        return True


class FailingDisk:
    """A failing disk; created by `failing_disk`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: list[_Plan] = []
        # Bytes by which all files together may still grow; None means unlimited.
        self._room_bytes: int | None = None
        # Every call that failed by plan, so that a test can check that its plan took effect.
        self.failed: list[calls.Call] = []

    def fail(
        self,
        call: DiskCall,
        *,
        with_: Failure,
        after: int = 0,
        on: FileKind | tuple[FileKind, ...] = ("db", "wal", "journal"),
        how_long: Literal["once", "until healed"] = "until healed",
        arriving_bytes: int = 0,
    ) -> None:
        """Let the call fail after `after` more successful ones, counted from now.

        `arriving_bytes` of a failed write are written all the same.
        """
        kinds = frozenset(on if isinstance(on, tuple) else (on,))
        plan = _Plan(_CALLS[call], _CODES[with_], kinds, after, how_long, arriving_bytes)
        with self._lock:
            self._plans.append(plan)

    def fill(self, *, room_bytes: int = 0) -> None:
        """Let files grow by at most this many bytes; existing bytes can be overwritten.

        As on a real full disk, the last write is written as far as there is space.
        """
        with self._lock:
            self._room_bytes = room_bytes

    def heal(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._plans.clear()
            self._room_bytes = None

    def handle(self, call: calls.Call, carry_out: CarryOut) -> int:
        with self._lock:
            # Each plan counts by itself, so all plans must see the call.
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
    """Install a disk that can fail, for all connections opened and closed in the block."""
    disk = FailingDisk()
    with Shim(disk.handle, seed=seed):
        yield disk
