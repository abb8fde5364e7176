"""Lock that allows one supervisor per file.

Rule 1: the lock is the kernel's (flock). It ends with the process that holds it, kill -9 included,
        so there are no stale locks. The content of the lock file is only for the error message.
Rule 2: other processes find the lock by its name, so the holder checks that its file still exists.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from supervisor.core.errors import ConfigError, StoreDegraded, StoreLocked

from .files import device_and_inode

_OWNER_ONLY = 0o600


@contextmanager
def locked(path: Path) -> Iterator[Lock]:
    """Hold the lock of a store in the block; raise `StoreLocked` if another process holds it.

    The lock file is not deleted afterwards, because another process may just have locked it.
    """
    lock = Lock(path)
    try:
        yield lock
        lock.clear_owner()
    finally:
        lock.release()


class Lock:
    """The lock of a store, held from construction until `release`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = _acquire(path)
        self._identity = device_and_inode(self._descriptor)

    def check(self) -> None:
        """Acquire the lock again if its file was deleted.

        Raise `StoreDegraded` if another process has acquired the lock, or it cannot be acquired.
        """
        if device_and_inode(lock_path(self._path)) == self._identity:
            return
        try:
            descriptor = _acquire(self._path)
        except (StoreLocked, ConfigError) as error:
            name = self._path.name
            raise StoreDegraded(
                f"the store {name} cannot be used: its lock is gone, and {error.args[0]}",
                hint="stop one of the two supervisors, and do not delete lock files",
                is_surely_unwritten=True,
            ) from error
        self.release()
        self._descriptor, self._identity = descriptor, device_and_inode(descriptor)

    def clear_owner(self) -> None:
        """Empty the lock file after an orderly exit; after a crash it names the dead owner."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)

    def release(self) -> None:
        """Release the lock."""
        _held_descriptors.discard(self._descriptor)
        os.close(self._descriptor)


def _acquire(path: Path) -> int:
    """Acquire the lock and return its descriptor.

    Raise `StoreLocked` if another process holds it, and `ConfigError` if its file cannot be opened.
    """
    # Not inherited by agents: Python opens files with O_CLOEXEC.
    try:
        descriptor = os.open(lock_path(path), os.O_CREAT | os.O_RDWR, _OWNER_ONLY)
    except OSError as error:
        raise _lock_error(path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        is_taken = isinstance(error, BlockingIOError)
        refusal = _locked_error(path, descriptor) if is_taken else _lock_error(path, error)
        os.close(descriptor)
        raise refusal from None
    with contextlib.suppress(OSError):  # on a full disk the lock holds all the same
        _write_owner(descriptor)
    _held_descriptors.add(descriptor)
    return descriptor


def _lock_error(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"{path.name} cannot be locked: {error.strerror}",
        hint="name a file in a directory that you can write to",
    )


# Descriptors of the locks of this process. A child forked without exec inherits them, and would
# hold the locks after this process has ended.
_held_descriptors: Final[set[int]] = set()


def _release_in_child() -> None:
    for descriptor in _held_descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _held_descriptors.clear()


os.register_at_fork(after_in_child=_release_in_child)


def lock_path(path: Path) -> Path:
    """Return the path of a store's lock file, beside the store."""
    return path.with_name(f"{path.name}.lock")


def _write_owner(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    owner = {"pid": os.getpid(), "since": time.time()}
    os.pwrite(descriptor, json.dumps(owner).encode(), 0)


def _locked_error(path: Path, descriptor: int) -> StoreLocked:
    holder = "another process"
    # The holder may not have written its name yet.
    with contextlib.suppress(ValueError, KeyError, TypeError, OverflowError, OSError):
        owner = json.loads(os.pread(descriptor, 4096, 0))
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(owner["since"]))
        holder = f"process {int(owner['pid'])}, since {since},"
    return StoreLocked(
        f"{holder} has {path.name} open",
        hint="use that supervisor, or stop it first",
    )
