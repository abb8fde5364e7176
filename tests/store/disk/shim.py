"""A disk of our own below SQLite, inside this process: every call can be seen, changed or refused.

Rule 1: the shim stands in for the default file system, so whatever opens a database while it is
        there goes through it, without a word about it in the path. Shims may be nested: the one
        entered last is asked first, and hands on to the one before.
Rule 2: nothing is really synced. Power is cut on paper only (see `images`), and fsync costs a
        millisecond.
Rule 3: SQLite's chance is seeded too, so that the same work writes the same bytes.
Rule 4: locks and shared memory pass straight through, so several connections see each other as
        ever. But do not use ONE connection from two threads at once: Python takes its mutex while
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

from . import calls, library
from .calls import OK, CarryOut, FileKind, Handle

_IOERR: Final = 10
_NAME: Final = b"understudy-disk-"


class FilesLeftOpen(Exception):
    """A database was not closed before its disk was taken away."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__(f"still open: {', '.join(sorted(paths))} (hint: close every connection)")


@attrs.frozen
class _Below:
    """The functions of the disk below for one sort of file, and our table that calls them."""

    close: Callable[..., int]
    write: Callable[..., int]
    truncate: Callable[..., int]
    sync: Callable[..., int]
    table: library.IoMethods


@attrs.frozen
class _OpenFile:
    path: str
    kind: FileKind
    below: _Below


class Shim:
    """A context in which SQLite asks `handle` before it opens, changes or deletes a file."""

    def __init__(self, handle: Handle, *, seed: int = 0) -> None:
        self._handle = handle
        self._chance = random.Random(seed)
        self._sqlite = library.sqlite_library()
        # By the address of SQLite's own object, from its opening to its closing.
        self._files: dict[int, _OpenFile] = {}
        # By the address of the table below. C points at what is in here.
        self._tables: dict[int, _Below] = {}
        self._name = _NAME + f"{id(self):x}".encode()
        # What went wrong in our own functions, where nobody could raise it.
        self._defects: list[BaseException] = []
        # C calls these without holding on to them.
        self._functions = (
            library.OpenFunction(self._guarded(self._open)),
            library.DeleteFunction(self._guarded(self._delete)),
            library.RandomnessFunction(self._randomness),
        )
        self._file_functions = (
            library.CloseFunction(self._guarded(self._close)),
            library.WriteFunction(self._guarded(self._write)),
            library.TruncateFunction(self._guarded(self._truncate)),
            library.SyncFunction(self._guarded(self._sync)),
        )

    def __enter__(self) -> None:
        self._address_below = self._sqlite.sqlite3_vfs_find(None)
        below = library.Vfs.from_address(self._address_below)
        assert below.iVersion >= library.TABLE_VERSION
        self._below_is_real = not below.zName.startswith(_NAME)
        self._open_below: Callable[..., int] = library.OpenFunction(below.xOpen)
        self._delete_below: Callable[..., int] = library.DeleteFunction(below.xDelete)
        self._vfs = library.Vfs.from_buffer_copy(below)
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
            # SQLite may still call us: better a leak than a crash of the interpreter.
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
        def call(*arguments: Any) -> int:  # noqa: ANN401 - as C calls it
            try:
                return function(*arguments)
            except BaseException as error:  # noqa: BLE001 - raised when the context is left
                self._defects.append(error)
                return _IOERR

        return call

    # What SQLite calls --------------------------------------------------------------------

    def _open(self, _: int, name: int | None, file: int, flags: int, flags_out: int) -> int:
        def carry_out(_: calls.Call) -> int:
            return self._open_below(self._address_below, name, file, flags, flags_out)

        kind = _kind_by_flags(flags)
        # When an open fails, this is how SQLite knows that there is nothing to close.
        library.File.from_address(file).pMethods = None
        if name is None or kind is None:
            return self._open_below(self._address_below, name, file, flags, flags_out)
        path = ctypes.string_at(name).decode()
        call = calls.Open(path, kind, may_create=bool(flags & library.OPEN_CREATE))
        code = self._handle(call, carry_out)
        if code == OK:
            self._adopt(file, path, kind)
        return code

    def _adopt(self, file: int, path: str, kind: FileKind) -> None:
        opened = library.File.from_address(file)
        address = opened.pMethods
        if address not in self._tables:
            self._tables[address] = self._tabled(library.IoMethods.from_address(address))
        below = self._tables[address]
        self._files[file] = _OpenFile(path, kind, below)
        opened.pMethods = ctypes.addressof(below.table)

    def _tabled(self, below: library.IoMethods) -> _Below:
        assert below.iVersion >= library.TABLE_VERSION
        table = library.IoMethods.from_buffer_copy(below)
        table.xClose, table.xWrite, table.xTruncate, table.xSync = map(
            _address, self._file_functions
        )
        return _Below(
            library.CloseFunction(below.xClose),
            library.WriteFunction(below.xWrite),
            library.TruncateFunction(below.xTruncate),
            library.SyncFunction(below.xSync),
            table,
        )

    def _close(self, file: int) -> int:
        # Before it is closed: its memory may be another file's at once.
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
    """A disk that does everything but sync: for looking at many images."""

    def handle(call: calls.Call, carry_out: CarryOut) -> int:
        return carry_out(call)

    return Shim(handle)


def _address(function: Any) -> int | None:  # noqa: ANN401 - any of ctypes' functions
    return ctypes.cast(function, c_void_p).value


def _kind_by_flags(flags: int) -> FileKind | None:
    if flags & library.OPEN_MAIN_DB:
        return "db"
    if flags & library.OPEN_WAL:
        return "wal"
    return "journal" if flags & library.OPEN_MAIN_JOURNAL else None


def _kind_by_name(path: str) -> FileKind:
    if path.endswith("-wal"):
        return "wal"
    return "journal" if path.endswith("-journal") else "db"
