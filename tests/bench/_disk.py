"""A disk that takes its time, for whoever opens a database in this process, ours and peers'.

What a durable turn is worth depends on the disk. Where an `fsync` takes a tenth of a millisecond,
as on a virtual machine whose host does not wait for its own disk, everybody is bound by Python;
the disks that people have take one to ten.
"""

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_void_p
from typing import Any

from tests.store.disk import library

_NAME = b"understudy-slow-disk"
_WITH_TABLE_OF_ITS_OWN = library.OPEN_MAIN_DB | library.OPEN_WAL | library.OPEN_MAIN_JOURNAL


@contextmanager
def slower_disk(seconds: float) -> Iterator[None]:
    """Have every `fsync` that SQLite asks for take so much longer; all else is as it was."""
    disk = _SlowDisk(seconds)
    disk.put_in_place()
    try:
        yield
    finally:
        disk.take_away()


class _SlowDisk:
    # Only what opens a file, and what syncs one, comes by here: all other calls stay in C.

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._sqlite = library.sqlite_library()
        # By the address of the table below. C points at what is here.
        self._tables: dict[int, library.IoMethods] = {}
        self._open_function = library.OpenFunction(self._open)
        self._sync_functions: list[Any] = []

    def put_in_place(self) -> None:
        self._address_below = self._sqlite.sqlite3_vfs_find(None)
        below = library.Vfs.from_address(self._address_below)
        self._open_below: Callable[..., int] = library.OpenFunction(below.xOpen)
        self._vfs = library.Vfs.from_buffer_copy(below)
        self._vfs.zName = _NAME
        self._vfs.xOpen = _address(self._open_function)
        assert self._sqlite.sqlite3_vfs_register(ctypes.byref(self._vfs), 1) == 0

    def take_away(self) -> None:
        self._sqlite.sqlite3_vfs_unregister(ctypes.byref(self._vfs))
        self._sqlite.sqlite3_vfs_register(self._address_below, 1)
        # A peer may not have closed all that it has opened: better a leak than a crash.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def _open(self, _: int, name: int | None, file: int, flags: int, flags_out: int) -> int:
        code = self._open_below(self._address_below, name, file, flags, flags_out)
        if code == 0 and flags & _WITH_TABLE_OF_ITS_OWN:
            opened = library.File.from_address(file)
            address = opened.pMethods
            if address not in self._tables:
                self._tables[address] = self._tabled(library.IoMethods.from_address(address))
            opened.pMethods = ctypes.addressof(self._tables[address])
        return code

    def _tabled(self, below: library.IoMethods) -> library.IoMethods:
        sync_below: Callable[..., int] = library.SyncFunction(below.xSync)

        def sync(file: int, flags: int) -> int:
            time.sleep(self._seconds)
            return sync_below(file, flags)

        function = library.SyncFunction(sync)
        self._sync_functions.append(function)
        table = library.IoMethods.from_buffer_copy(below)
        table.xSync = _address(function)
        return table


def _address(function: Any) -> int | None:  # noqa: ANN401 - any of ctypes' functions
    return ctypes.cast(function, c_void_p).value
