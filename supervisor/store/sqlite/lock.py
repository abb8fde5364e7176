"""One supervisor for each file: who came first, and how the second one hears of it.

Rule 1: the lock is the kernel's. It goes with the process that holds it, kill -9 included, so that
        there are no stale ones. What is written in the lock's file is only for the message.
Rule 2: others go by the file's name. Whoever has the lock looks whether its file is still there.
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

from .place import identity

_OWNER_ONLY = 0o600


@contextmanager
def locked(path: Path) -> Iterator[Lock]:
    """Hold the lock of a store; raises `StoreLocked` with who has it.

    The lock's file stays behind: whoever deleted it could delete one that somebody else has just
    locked.
    """
    lock = Lock(path)
    try:
        yield lock
        lock.sign_off()
    finally:
        lock.let_go()


class Lock:
    """The lock of a store, from its making until it is let go."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = _take(path)
        self._identity = identity(self._descriptor)

    def check(self) -> None:
        """Take it again if somebody has deleted its file, by which others would go.

        Raises `StoreDegraded` if somebody else has taken it before us, or it cannot be taken.
        """
        if identity(lock_path(self._path)) == self._identity:
            return
        try:
            descriptor = _take(self._path)
        except (StoreLocked, ConfigError) as error:
            name = self._path.name
            raise StoreDegraded(
                f"the store {name} cannot be used: its lock is gone, and {error.args[0]}",
                hint="stop one of the two supervisors; nobody may delete the file of a lock",
                is_certain=True,
            ) from error
        self.let_go()
        self._descriptor, self._identity = descriptor, identity(descriptor)

    def sign_off(self) -> None:
        """Say that whoever had it has left in order; else it shows who was gone all at once."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)

    def let_go(self) -> None:
        """Whoever wants it may have it."""
        _held.discard(self._descriptor)
        os.close(self._descriptor)


def _take(path: Path) -> int:
    """The descriptor by which we have the lock; raises who has it."""
    # Not inherited by agents: Python opens everything so that it ends with us.
    try:
        descriptor = os.open(lock_path(path), os.O_CREAT | os.O_RDWR, _OWNER_ONLY)
    except OSError as error:
        raise _not_lockable(path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        is_taken = isinstance(error, BlockingIOError)
        refusal = _taken(path, descriptor) if is_taken else _not_lockable(path, error)
        os.close(descriptor)
        raise refusal from None
    with contextlib.suppress(OSError):  # a full disk: it is a lock all the same
        _sign(descriptor)
    _held.add(descriptor)
    return descriptor


def _not_lockable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"{path.name} cannot be locked: {error.strerror}",
        hint="name a file in a folder that you may write to",
    )


# Locks of this process. A child that is forked without another program in it has them too, and
# would keep them when we are gone.
_held: Final[set[int]] = set()


def _let_go_in_child() -> None:
    for descriptor in _held:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_let_go_in_child)


def lock_path(path: Path) -> Path:
    """Where a store's lock is: beside it."""
    return path.with_name(f"{path.name}.lock")


def _sign(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    signature = {"pid": os.getpid(), "since": time.time()}
    os.pwrite(descriptor, json.dumps(signature).encode(), 0)


def _taken(path: Path, descriptor: int) -> StoreLocked:
    who = "another process"
    # Whoever has it may be about to sign.
    with contextlib.suppress(ValueError, KeyError, TypeError, OverflowError, OSError):
        signature = json.loads(os.pread(descriptor, 4096, 0))
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(signature["since"]))
        who = f"process {int(signature['pid'])}, since {since},"
    return StoreLocked(
        f"{who} has {path.name} open",
        hint="use that supervisor, or stop it first",
    )
