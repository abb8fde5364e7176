"""The SQLite library that Python's `sqlite3` uses, accessed through ctypes.

Only the structures of a VFS: two tables of functions, and a file that starts with a pointer to one
of them. The fields have SQLite's own names.
"""

from __future__ import annotations

import _sqlite3
import ctypes
from ctypes import CFUNCTYPE, c_char_p, c_int, c_int64, c_void_p
from typing import Final

# xOpen(vfs, name, file, flags, flags out): the name stays a pointer, because the parameters of a
# URI follow its end.
OpenFunction = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
DeleteFunction = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)
RandomnessFunction = CFUNCTYPE(c_int, c_void_p, c_int, c_void_p)
CloseFunction = CFUNCTYPE(c_int, c_void_p)
WriteFunction = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
TruncateFunction = CFUNCTYPE(c_int, c_void_p, c_int64)
SyncFunction = CFUNCTYPE(c_int, c_void_p, c_int)

OPEN_CREATE: Final = 0x4
OPEN_MAIN_DB: Final = 0x100
OPEN_MAIN_JOURNAL: Final = 0x800
OPEN_WAL: Final = 0x80000

# Both tables have these fields since SQLite 3.7.17.
TABLE_VERSION: Final = 3


class Vfs(ctypes.Structure):
    """sqlite3_vfs."""

    _fields_ = (
        ("iVersion", c_int),
        ("szOsFile", c_int),
        ("mxPathname", c_int),
        ("pNext", c_void_p),
        ("zName", c_char_p),
        ("pAppData", c_void_p),
        ("xOpen", c_void_p),
        ("xDelete", c_void_p),
        ("xAccess", c_void_p),
        ("xFullPathname", c_void_p),
        ("xDlOpen", c_void_p),
        ("xDlError", c_void_p),
        ("xDlSym", c_void_p),
        ("xDlClose", c_void_p),
        ("xRandomness", c_void_p),
        ("xSleep", c_void_p),
        ("xCurrentTime", c_void_p),
        ("xGetLastError", c_void_p),
        ("xCurrentTimeInt64", c_void_p),
        ("xSetSystemCall", c_void_p),
        ("xGetSystemCall", c_void_p),
        ("xNextSystemCall", c_void_p),
    )


class IoMethods(ctypes.Structure):
    """sqlite3_io_methods."""

    _fields_ = (
        ("iVersion", c_int),
        ("xClose", c_void_p),
        ("xRead", c_void_p),
        ("xWrite", c_void_p),
        ("xTruncate", c_void_p),
        ("xSync", c_void_p),
        ("xFileSize", c_void_p),
        ("xLock", c_void_p),
        ("xUnlock", c_void_p),
        ("xCheckReservedLock", c_void_p),
        ("xFileControl", c_void_p),
        ("xSectorSize", c_void_p),
        ("xDeviceCharacteristics", c_void_p),
        ("xShmMap", c_void_p),
        ("xShmLock", c_void_p),
        ("xShmBarrier", c_void_p),
        ("xShmUnmap", c_void_p),
        ("xFetch", c_void_p),
        ("xUnfetch", c_void_p),
    )


class File(ctypes.Structure):
    """sqlite3_file; the data of the VFS below for an open file follows in the same memory."""

    _fields_ = (("pMethods", c_void_p),)


def sqlite_library() -> ctypes.CDLL:
    """Return the library instance that `sqlite3` calls.

    A name is looked up in Python's extension module and its dependencies, so this works whether the
    library is shared or built in; if it is built in and hidden, the lookup raises AttributeError.
    """
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_find.argtypes = (c_char_p,)
    library.sqlite3_vfs_find.restype = c_void_p
    library.sqlite3_vfs_register.argtypes = (c_void_p, c_int)
    library.sqlite3_vfs_register.restype = c_int
    library.sqlite3_vfs_unregister.argtypes = (c_void_p,)
    library.sqlite3_vfs_unregister.restype = c_int
    library.sqlite3_randomness.argtypes = (c_int, c_void_p)
    library.sqlite3_randomness.restype = None
    return library
