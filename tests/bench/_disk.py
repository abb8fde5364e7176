"""A slow disk for every database opened in this process, ours and those of peers.

What a durable turn is worth depends on the disk. Where an `fsync` takes a tenth of a millisecond,
as on a virtual machine whose host does not wait for its own disk, every library is bound by Python;
common disks take one to ten.
"""

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_void_p
from typing import Any

from tests.support.disk import sqlite_library

_NAME = b"understudy-slow-disk"
_WITH_TABLE_OF_ITS_OWN = (
    sqlite_library.OPEN_MAIN_DB | sqlite_library.OPEN_WAL | sqlite_library.OPEN_MAIN_JOURNAL
)


@contextmanager
def slower_disk(seconds: float) -> Iterator[None]:
    """Delay every `fsync` of SQLite by `seconds`; nothing else changes."""
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
        self._sqlite = sqlite_library.sqlite_library()
        # By the address of the table below. C points at what is here.
        self._tables: dict[int, sqlite_library.IoMethods] = {}
        self._open_function = sqlite_library.OpenFunction(self._open)
        self._sync_functions: list[Any] = []

    def put_in_place(self) -> None:
        self._address_below = self._sqlite.sqlite3_vfs_find(None)
        below = sqlite_library.Vfs.from_address(self._address_below)
        self._open_below: Callable[..., int] = sqlite_library.OpenFunction(below.xOpen)
        self._vfs = sqlite_library.Vfs.from_buffer_copy(below)
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
            opened = sqlite_library.File.from_address(file)
            address = opened.pMethods
            if address not in self._tables:
                self._tables[address] = self._tabled(sqlite_library.IoMethods.from_address(address))
            opened.pMethods = ctypes.addressof(self._tables[address])
        return code

    def _tabled(self, below: sqlite_library.IoMethods) -> sqlite_library.IoMethods:
        sync_below: Callable[..., int] = sqlite_library.SyncFunction(below.xSync)

        def sync(file: int, flags: int) -> int:
            time.sleep(self._seconds)
            return sync_below(file, flags)

        function = sqlite_library.SyncFunction(sync)
        self._sync_functions.append(function)
        table = sqlite_library.IoMethods.from_buffer_copy(below)
        table.xSync = _address(function)
        return table


def _address(function: Any) -> int | None:  # noqa: ANN401 - any of ctypes' functions
    return ctypes.cast(function, c_void_p).value
