"""Lock that allows one supervisor per file.

Rule 1: the lock is the kernel's (flock). It ends with the process that holds it, kill -9 included,
        so there are no stale locks. The content of the lock file (`run_notes`) is not a lock.
Rule 2: other processes find the lock by its name, so the holder checks that its file still exists.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from supervisor.core.errors import ConfigError, StoreDegraded, StoreLocked
from supervisor.core.steady_time import ClockReading

from .files import device_and_inode, disk_full_error, is_disk_full
from .run_notes import (
    MAX_NOTES_BYTES,
    POSITION_OFFSET,
    RunNotes,
    decode_notes,
    encode_notes,
    encode_position,
)

_OWNER_ONLY = 0o600
# Pauses between attempts to take the lock.
_PAUSES_SECONDS: Final = (0.001, 0.002, 0.004, 0.008)


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
        # The notes of the previous holder.
        self.previous = _read(self._descriptor)
        self._notes = attrs.evolve(
            self.previous, pid=os.getpid(), since=time.time(), is_recovering=True
        )
        self._write()

    def note_clock(self, reading: ClockReading) -> None:
        """Note a reading of the clocks."""
        self._notes = attrs.evolve(self._notes, clock=reading)
        self._write()

    def note_recovered(self) -> None:
        """Note that recovery is written, so that the stored rows are current."""
        self._notes = attrs.evolve(self._notes, is_recovering=False)
        self._write()

    def note_open(self, *, is_open: bool) -> None:
        """Note that the database was opened, or closed with its WAL moved into it."""
        self._notes = attrs.evolve(self._notes, is_open=is_open)
        self._write()

    def note_position(self, position: int) -> None:
        """Note the last position of the store, after its commit."""
        if position != self._notes.position:
            self._notes = attrs.evolve(self._notes, position=position)
            with contextlib.suppress(OSError):  # the notes are only hints
                os.pwrite(self._descriptor, encode_position(position), POSITION_OFFSET)

    def _write(self) -> None:
        content = encode_notes(self._notes)
        # Not truncated first: a reader, or a kill in between, would find nothing.
        with contextlib.suppress(OSError):  # on a full disk the lock holds all the same
            os.pwrite(self._descriptor, content, 0)
            os.ftruncate(self._descriptor, len(content))

    def check(self) -> None:
        """Acquire the lock again if its file was deleted.

        Raise `StoreDegraded` if another process has acquired the lock, or it cannot be acquired.
        """
        if device_and_inode(lock_path(self._path)) == self._identity:
            return
        try:
            descriptor = _acquire(self._path)
        except (StoreLocked, StoreDegraded, ConfigError) as error:
            name = self._path.name
            raise StoreDegraded(
                f"the store {name} cannot be used: its lock is gone, and {error.args[0]}",
                hint="stop one of the two supervisors, and do not delete lock files",
                is_surely_unwritten=True,
            ) from error
        self.release()
        self._descriptor, self._identity = descriptor, device_and_inode(descriptor)
        self._write()

    def clear_owner(self) -> None:
        """Remove the holder from the notes at an orderly exit; after a crash they name it."""
        self._notes = attrs.evolve(self._notes, pid=None, since=None)
        self._write()

    def release(self) -> None:
        """Release the lock."""
        _held_descriptors.discard(self._descriptor)
        os.close(self._descriptor)


def _acquire(path: Path) -> int:
    """Acquire the lock and return its descriptor.

    Raise `StoreLocked` if another process holds it, `StoreDegraded` if its file cannot be created
    because the disk is full, and `ConfigError` if its file cannot be opened.
    """
    # Not inherited by agents: Python opens files with O_CLOEXEC.
    try:
        descriptor = os.open(lock_path(path), os.O_CREAT | os.O_RDWR, _OWNER_ONLY)
    except OSError as error:
        raise _lock_error(path, error) from error
    try:
        _lock(descriptor)
    except OSError as error:
        is_taken = isinstance(error, BlockingIOError)
        refusal = _locked_error(path, descriptor) if is_taken else _lock_error(path, error)
        os.close(descriptor)
        raise refusal from None
    _held_descriptors.add(descriptor)
    return descriptor


def _lock(descriptor: int) -> None:
    """Take the lock; raise BlockingIOError if another process keeps it.

    `is_held` holds the lock for an instant, which must not refuse a supervisor.
    """
    for pause_seconds in _PAUSES_SECONDS:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(pause_seconds)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_held(path: Path) -> bool:
    """Return True if a supervisor holds the lock of the store."""
    try:
        descriptor = os.open(lock_path(path), os.O_RDONLY)
    except OSError:  # no supervisor has ever opened the store
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no locks on this file system, so no supervisor has one
        return False
    finally:
        os.close(descriptor)
    return False


def are_rows_current(path: Path) -> bool:
    """Return True if a supervisor holds the store and has recovered its sessions."""
    return is_held(path) and not read_notes(path).is_recovering


def read_notes(path: Path) -> RunNotes:
    """Return the notes of the last supervisor of a store; empty if there are none."""
    try:
        descriptor = os.open(lock_path(path), os.O_RDONLY)
    except OSError:
        return RunNotes()
    try:
        return _read(descriptor)
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> RunNotes:
    with contextlib.suppress(OSError):
        return decode_notes(os.pread(descriptor, MAX_NOTES_BYTES, 0))
    return RunNotes()


def _lock_error(path: Path, error: OSError) -> ConfigError | StoreDegraded:
    if is_disk_full(error, path):
        return disk_full_error(f"{path.name} cannot be locked")
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


def _locked_error(path: Path, descriptor: int) -> StoreLocked:
    holder = "another process"
    owner = _read(descriptor)
    # The holder may not have written its name yet.
    with contextlib.suppress(ValueError, TypeError, OverflowError, OSError):
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(owner.since))
        if owner.pid is not None and owner.since is not None:
            holder = f"process {owner.pid}, since {since},"
    return StoreLocked(
        f"{holder} has {path.name} open",
        hint="use that supervisor, or stop it first",
    )
