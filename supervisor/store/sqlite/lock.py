"""One supervisor for each file: who came first, and how the second one hears of it.

Rule 1: the lock is the kernel's. It goes with the process that holds it, kill -9 included, so that
        there are no stale ones. What is written in the lock's file is only for the message.
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

from supervisor.core.errors import ConfigError, StoreLocked

_OWNER_ONLY = 0o600


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a store; raises `StoreLocked` with who has it.

    The lock's file stays behind: whoever deleted it could delete one that somebody else has just
    locked.
    """
    # Not inherited by agents: Python opens everything so that it ends with us.
    try:
        descriptor = os.open(lock_path(path), os.O_CREAT | os.O_RDWR, _OWNER_ONLY)
    except OSError as error:
        raise ConfigError(
            f"{path.name} cannot be locked: {error.strerror}",
            hint="name a file in a folder that you may write to",
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _taken(path, descriptor) from None
        with contextlib.suppress(OSError):  # a full disk: it is a lock all the same
            _sign(descriptor)
        _held.add(descriptor)
        yield
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
    finally:
        _held.discard(descriptor)
        os.close(descriptor)


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
