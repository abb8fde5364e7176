"""A VFS below SQLite inside this process: every call can be observed, changed or refused.

Rule 1: the shim replaces the default file system, so every database opened while it is installed
        uses it, with an unchanged path. Shims may be nested: the one entered last is called first
        and passes the call on to the previous one.
Rule 2: nothing is really synced. Power cuts are simulated (see `images`), and fsync costs a
        millisecond.
Rule 3: SQLite's randomness is seeded too, so that the same work writes the same bytes.
Rule 4: locks and shared memory are passed through, so several connections see each other as
        usual. But do not use ONE connection from two threads at once: Python takes its mutex while
        it holds the GIL, which our functions wait for.
"""

from __future__ import annotations

import ctypes
import gc
import random
from collections.abc import Callable
from ctypes import c_void_p
from types import TracebackType
from typing import Any, Final

import attrs

from tests.support.disk import calls, sqlite_library

from .calls import OK, CarryOut, FileKind, Handle

_IOERR: Final = 10
_NAME: Final = b"understudy-disk-"


class FilesLeftOpen(Exception):
    """A database was not closed before its shim was removed."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__(f"still open: {', '.join(sorted(paths))} (hint: close every connection)")


@attrs.frozen
class _Below:
    """The functions of the disk below for one kind of file, and our table that calls them."""

    close: Callable[..., int]
    write: Callable[..., int]
    truncate: Callable[..., int]
    sync: Callable[..., int]
    table: sqlite_library.IoMethods


@attrs.frozen
class _OpenFile:
    path: str
    kind: FileKind
    below: _Below


class Shim:
    """A context in which SQLite calls `handle` before it opens, changes or deletes a file."""

    def __init__(self, handle: Handle, *, seed: int = 0) -> None:
        self._handle = handle
        self._chance = random.Random(seed)
        self._sqlite = sqlite_library.sqlite_library()
        # By the address of SQLite's object, while it is open.
        self._files: dict[int, _OpenFile] = {}
        # By the address of the table below. C code keeps pointers to these values.
        self._tables: dict[int, _Below] = {}
        self._name = _NAME + f"{id(self):x}".encode()
        # Exceptions of our own functions, which cannot be raised through C.
        self._defects: list[BaseException] = []
        # C calls these without a reference to them.
        self._functions = (
            sqlite_library.OpenFunction(self._guarded(self._open)),
            sqlite_library.DeleteFunction(self._guarded(self._delete)),
            sqlite_library.RandomnessFunction(self._randomness),
        )
        self._file_functions = (
            sqlite_library.CloseFunction(self._guarded(self._close)),
            sqlite_library.WriteFunction(self._guarded(self._write)),
            sqlite_library.TruncateFunction(self._guarded(self._truncate)),
            sqlite_library.SyncFunction(self._guarded(self._sync)),
        )

    def __enter__(self) -> None:
        self._address_below = self._sqlite.sqlite3_vfs_find(None)
        below = sqlite_library.Vfs.from_address(self._address_below)
        assert below.iVersion >= sqlite_library.TABLE_VERSION
        self._below_is_real = not below.zName.startswith(_NAME)
        self._open_below: Callable[..., int] = sqlite_library.OpenFunction(below.xOpen)
        self._delete_below: Callable[..., int] = sqlite_library.DeleteFunction(below.xDelete)
        self._vfs = sqlite_library.Vfs.from_buffer_copy(below)
        self._vfs.zName = self._name
        self._vfs.xOpen, self._vfs.xDelete, self._vfs.xRandomness = map(_address, self._functions)
        assert self._sqlite.sqlite3_vfs_register(ctypes.byref(self._vfs), 1) == OK
        self._forget_chance()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._sqlite.sqlite3_vfs_unregister(ctypes.byref(self._vfs))
        self._sqlite.sqlite3_vfs_register(self._address_below, 1)
        self._forget_chance()
        if self._files:
            gc.collect()
        left_open = [file.path for file in self._files.values()]
        if left_open:
            # SQLite may still call us: a leak is better than a crash of the interpreter.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        if self._defects:
            raise self._defects[0]
        if left_open and error is None:
            raise FilesLeftOpen(left_open)

    def _forget_chance(self) -> None:
        # SQLite asks the default file system for a seed once, and again after this.
        self._sqlite.sqlite3_randomness(0, None)

    def _guarded(self, function: Callable[..., int]) -> Callable[..., int]:
        # An exception that leaves a function called by C is printed, and SQLite sees success.
        def call(*arguments: Any) -> int:  # noqa: ANN401 - called by C
            try:
                return function(*arguments)
            except BaseException as error:  # noqa: BLE001 - raised when the context is left
                self._defects.append(error)
                return _IOERR

        return call

    # Called by SQLite ---------------------------------------------------------------------

    def _open(self, _: int, name: int | None, file: int, flags: int, flags_out: int) -> int:
        def carry_out(_: calls.Call) -> int:
            return self._open_below(self._address_below, name, file, flags, flags_out)

        kind = _kind_by_flags(flags)
        # After a failed open, NULL tells SQLite that there is nothing to close.
        sqlite_library.File.from_address(file).pMethods = None
        if name is None or kind is None:
            return self._open_below(self._address_below, name, file, flags, flags_out)
        path = ctypes.string_at(name).decode()
        call = calls.Open(path, kind, may_create=bool(flags & sqlite_library.OPEN_CREATE))
        code = self._handle(call, carry_out)
        if code == OK:
            self._adopt(file, path, kind)
        return code

    def _adopt(self, file: int, path: str, kind: FileKind) -> None:
        opened = sqlite_library.File.from_address(file)
        address = opened.pMethods
        if address not in self._tables:
            self._tables[address] = self._tabled(sqlite_library.IoMethods.from_address(address))
        below = self._tables[address]
        self._files[file] = _OpenFile(path, kind, below)
        opened.pMethods = ctypes.addressof(below.table)

    def _tabled(self, below: sqlite_library.IoMethods) -> _Below:
        assert below.iVersion >= sqlite_library.TABLE_VERSION
        table = sqlite_library.IoMethods.from_buffer_copy(below)
        table.xClose, table.xWrite, table.xTruncate, table.xSync = map(
            _address, self._file_functions
        )
        return _Below(
            sqlite_library.CloseFunction(below.xClose),
            sqlite_library.WriteFunction(below.xWrite),
            sqlite_library.TruncateFunction(below.xTruncate),
            sqlite_library.SyncFunction(below.xSync),
            table,
        )

    def _close(self, file: int) -> int:
        # Before the close: its memory may be reused for another file at once.
        return self._files.pop(file).below.close(file)

    def _write(self, file: int, data: int, length: int, offset: int) -> int:
        there = self._files[file]

        def carry_out(call: calls.Call) -> int:
            assert isinstance(call, calls.Write)
            return there.below.write(file, call.data, len(call.data), call.offset)

        call = calls.Write(there.path, there.kind, offset, ctypes.string_at(data, length))
        return self._handle(call, carry_out)

    def _truncate(self, file: int, size_bytes: int) -> int:
        there = self._files[file]
        call = calls.Truncate(there.path, there.kind, size_bytes)
        return self._handle(call, lambda _: there.below.truncate(file, size_bytes))

    def _sync(self, file: int, flags: int) -> int:
        there = self._files[file]

        def carry_out(_: calls.Call) -> int:
            return OK if self._below_is_real else there.below.sync(file, flags)

        return self._handle(calls.Sync(there.path, there.kind), carry_out)

    def _delete(self, _: int, name: int, sync_folder: int) -> int:
        def carry_out(_: calls.Call) -> int:
            return self._delete_below(
                self._address_below, name, 0 if self._below_is_real else sync_folder
            )

        path = ctypes.string_at(name).decode()
        kind = _kind_by_name(path)
        return self._handle(calls.Delete(path, kind, bool(sync_folder)), carry_out)

    def _randomness(self, _: int, length: int, place: int) -> int:
        ctypes.memmove(place, self._chance.randbytes(length), length)
        return length


def swift_disk() -> Shim:
    """Install a disk that skips syncs, to read many images fast."""

    def handle(call: calls.Call, carry_out: CarryOut) -> int:
        return carry_out(call)

    return Shim(handle)


def _address(function: Any) -> int | None:  # noqa: ANN401 - any ctypes function
    return ctypes.cast(function, c_void_p).value


def _kind_by_flags(flags: int) -> FileKind | None:
    if flags & sqlite_library.OPEN_MAIN_DB:
        return "db"
    if flags & sqlite_library.OPEN_WAL:
        return "wal"
    return "journal" if flags & sqlite_library.OPEN_MAIN_JOURNAL else None


def _kind_by_name(path: str) -> FileKind:
    if path.endswith("-wal"):
        return "wal"
    return "journal" if path.endswith("-journal") else "db"
