"""A disk that records everything that happens to it.

with recorded_disk() as disk:
    connection = sqlite3.connect(path)
    ...
    disk.note("an acknowledgement")
for image in disk.images(seed=1, count=300):
    path = image.materialise(folder)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.disk import calls

from .calls import OK, CarryOut
from .disk_events import (
    Created,
    Deleted,
    Found,
    Noted,
    Operation,
    Synced,
    SyncFailed,
    Truncated,
    Wrote,
)
from .images import Image, image_of, images_of
from .shim import Shim


class RecordedDisk:
    """A recording disk; created by `recorded_disk`."""

    def __init__(self) -> None:
        self._operations: list[Operation] = []
        # Held during a call, so that the recorded order is the real one.
        self._lock = threading.Lock()
        # Names of files that are recorded from their first byte.
        self._known: set[str] = set()
        # New logs and journals: SQLite's first sync of one also syncs its folder.
        self._folder_is_due: set[str] = set()

    @property
    def operations(self) -> tuple[Operation, ...]:
        return tuple(self._operations)

    def note(self, what: object) -> None:
        """Record an acknowledgement: images of later power cuts have it in `notes`."""
        with self._lock:
            self._operations.append(Noted(what))

    def images(self, *, seed: int, count: int) -> Iterator[Image]:
        """Yield `count` power cuts, spread evenly over the events."""
        return images_of(self.operations, seed=seed, count=count)

    def image(self, *, cut: int, seed: str) -> Image:
        """Return one of the images again, by the cut and seed in its repr."""
        return image_of(self.operations, cut=cut, seed=seed)

    def handle(self, call: calls.Call, carry_out: CarryOut) -> int:
        with self._lock:
            if call.path not in self._known:
                self._look_for(call.path)
            code = carry_out(call)
            self._write_down(call, code)
            return code

    def _look_for(self, path: str) -> None:
        # An empty file is treated like a new one.
        if Path(path).exists() and (contents := Path(path).read_bytes()):
            self._operations.append(Found(path, contents))
            self._known.add(path)

    def _write_down(self, call: calls.Call, code: int) -> None:
        match call:
            case calls.Open() if code == OK:
                self._opened(call)
            case calls.Write(path, _, offset, data):
                # It is unknown how much of a failed write was written: read it.
                arrived = data if code == OK else _read(path, offset, len(data))
                self._operations.append(Wrote(path, offset, arrived))
            case calls.Truncate(path, _, size_bytes) if code == OK:
                self._operations.append(Truncated(path, size_bytes))
            case calls.Sync(path):
                synced = Synced(path, and_folder=path in self._folder_is_due)
                self._operations.append(synced if code == OK else SyncFailed(path))
                if code == OK:
                    self._folder_is_due.discard(path)
            case calls.Delete(path, _, and_sync_folder) if code == OK and path in self._known:
                self._known.discard(path)
                self._operations.append(Deleted(path, and_sync_folder))
            case _:
                pass  # it failed without an effect

    def _opened(self, call: calls.Open) -> None:
        if call.path not in self._known:
            self._operations.append(Created(call.path))
            self._known.add(call.path)
        if call.may_create and call.kind != "db":
            self._folder_is_due.add(call.path)


@contextmanager
def recorded_disk(*, seed: int = 0) -> Iterator[RecordedDisk]:
    """Record the calls of all SQLite connections opened and closed in the block."""
    disk = RecordedDisk()
    with Shim(disk.handle, seed=seed):
        yield disk


def _read(path: str, offset: int, length: int) -> bytes:
    with Path(path).open("rb") as file:
        file.seek(offset)
        return file.read(length)
