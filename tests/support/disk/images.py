"""Simulated power cuts: the possible contents of a disk after one, made from a recording.

Rule 1: a sync is a barrier for its own file only.
Rule 2: each write to a file since its last sync is kept, lost or torn, independently. Torn: only a
        beginning of it is kept, or some of its sectors are lost or garbage; never a byte outside
        of it (what SQLite calls powersafe overwrite).
Rule 3: a name is durable once its folder was synced. Until then a new file may be missing and a
        deleted one may reappear.
Rule 4: after a failed sync, the writes that it covers stay in doubt for ever.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

import attrs

from supervisor.store.new_file import UNFINISHED

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

_SECTOR_BYTES: Final = 512

# Treatment of unsynced writes. Random choice would hardly ever lose, or keep, all of them.
_Mood: TypeAlias = Literal["loses all", "keeps all", "keeps the first", "by chance"]
_MOODS: Final[tuple[_Mood, ...]] = ("loses all", "keeps all", "keeps the first", "by chance")


@attrs.frozen
class Image:
    """The files after a power cut behind the first `cut` events, and the notes up to then."""

    cut: int
    seed: str
    mood: str
    last: Operation | None
    notes: tuple[object, ...] = attrs.field(repr=False)
    database: str
    files: Mapping[str, bytes] = attrs.field(
        repr=lambda files: str({name: len(data) for name, data in files.items()})
    )

    def materialise(self, folder: Path) -> Path:
        """Write the files there, replacing an earlier image; return the database's path.

        The database is missing if the power was cut before its name was durable.
        """
        for ending in ("", "-wal", "-journal", "-shm"):
            (folder / f"{self.database}{ending}").unlink(missing_ok=True)
        for name, contents in self.files.items():
            (folder / name).write_bytes(contents)
        return folder / self.database


def images_of(operations: Sequence[Operation], *, seed: int, count: int) -> Iterator[Image]:
    """Yield `count` images ordered by cut; every cut comes once before any comes twice."""
    chance = random.Random(seed)
    places = range(len(operations) + 1)
    rounds, rest = divmod(count, len(places))
    cuts = sorted([*places] * rounds + chance.sample(places, rest))
    disk = _Disk(operations)
    for number, cut in enumerate(cuts):
        disk.catch_up(cut)
        yield disk.image(seed=f"{seed}/{number}")


def image_of(operations: Sequence[Operation], *, cut: int, seed: str) -> Image:
    """Return the image that `images_of` made for that cut and seed."""
    disk = _Disk(operations)
    disk.catch_up(cut)
    return disk.image(seed=seed)


# State of a change to a file: not yet synced, synced, or the sync failed.
_Standing: TypeAlias = Literal["open", "settled", "in doubt"]


class _Content:
    """The changes under a name, from its creation on; outlives the name."""

    def __init__(self, settled: bytes = b"") -> None:
        self._settled = bytearray(settled)
        # Changes in order. Invariant: the first is not settled, else it would be in `_settled`.
        self._changes: deque[tuple[Wrote | Truncated, _Standing]] = deque()
        # `_settled` as shared by images, until it changes.
        self._shared: bytes | None = None

    def change(self, change: Wrote | Truncated) -> None:
        self._changes.append((change, "open"))

    def sync(self) -> None:
        self._change_standing("settled")
        while self._changes and self._changes[0][1] == "settled":
            _apply(self._settled, self._changes.popleft()[0])
            self._shared = None

    def fail_to_sync(self) -> None:
        self._change_standing("in doubt")

    def _change_standing(self, standing: _Standing) -> None:
        self._changes = deque(
            (change, standing if now == "open" else now) for change, now in self._changes
        )

    def after_a_cut(self, mood: _Mood, chance: random.Random) -> bytes:
        if not self._changes:
            if self._shared is None:
                self._shared = bytes(self._settled)
            return self._shared
        data = bytearray(self._settled)
        # With the policy `first`: everything before this change is kept, and this change is torn.
        torn = chance.randrange(len(self._changes))
        for number, (change, standing) in enumerate(self._changes):
            if standing == "settled" or mood == "keeps all":
                _apply(data, change)
            elif mood == "keeps the first" and number <= torn:
                _apply(data, change) if number < torn else _tear(data, change, chance)
            elif mood == "by chance":
                _tear(data, change, chance)
        return bytes(data)


class _Disk:
    """All contents and names, up to the events that were applied."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations
        self._seen = 0
        self._notes: list[object] = []
        # A file found after the first event existed before it, too.
        found = [it for it in operations if isinstance(it, Found)]
        self._contents = {it.path: _Content(it.contents) for it in found}
        # The contents of each name at the last sync of its folder, and since then.
        self._names: dict[str, list[_Content | None]] = {
            path: [content] for path, content in self._contents.items()
        }

    def catch_up(self, cut: int) -> None:
        for operation in self._operations[self._seen : cut]:
            self._happen(operation)
        self._seen = cut

    def _happen(self, operation: Operation) -> None:
        match operation:
            case Found():
                pass  # added at the start
            case Created(path):
                self._contents[path] = _Content()
                self._names.setdefault(path, [None]).append(self._contents[path])
            case Wrote(path) | Truncated(path):
                self._contents[path].change(operation)
            case SyncFailed(path):
                self._contents[path].fail_to_sync()
            case Synced(path, and_folder):
                self._contents[path].sync()
                if and_folder:
                    self._sync_folder_of(path)
            case Deleted(path, and_folder):
                self._names[path].append(None)
                if and_folder:
                    self._sync_folder_of(path)
            case Noted(what):
                self._notes.append(what)

    def _sync_folder_of(self, path: str) -> None:
        folder = Path(path).parent
        for name, stood_for in self._names.items():
            if Path(name).parent == folder:
                del stood_for[:-1]

    def image(self, *, seed: str) -> Image:
        chance = random.Random(f"{seed}/{self._seen}")
        mood = chance.choice(_MOODS)
        files: dict[str, bytes] = {}
        for path, stood_for in self._names.items():
            content = _choose(stood_for, mood, chance)
            if content is not None:
                files[Path(path).name] = content.after_a_cut(mood, chance)
        return Image(
            cut=self._seen,
            seed=seed,
            mood=mood,
            last=self._operations[self._seen - 1] if self._seen else None,
            notes=tuple(self._notes),
            database=_database_in(self._operations),
            files=files,
        )


def _choose(
    stood_for: list[_Content | None], mood: _Mood, chance: random.Random
) -> _Content | None:
    if mood == "loses all":
        return stood_for[0]
    return stood_for[-1] if mood == "keeps all" else chance.choice(stood_for)


def _database_in(operations: Sequence[Operation]) -> str:
    """Return the database's name: the first that SQLite opened and that is not a draft.

    A draft is renamed, which SQLite does not see: the database is then found, durable.
    """
    opened = [
        it.path
        for it in operations
        if isinstance(it, Found | Created) and UNFINISHED not in it.path
    ]
    assert opened, "no database was opened on this disk"
    return Path(opened[0]).name


def _apply(data: bytearray, change: Wrote | Truncated) -> None:
    match change:
        case Wrote(_, offset, written) if written:
            _lengthen(data, offset)
            data[offset : offset + len(written)] = written
        case Truncated(_, size_bytes):
            del data[size_bytes:]
            _lengthen(data, size_bytes)
        case _:
            pass  # no byte was written


def _lengthen(data: bytearray, size_bytes: int) -> None:
    data.extend(bytes(max(0, size_bytes - len(data))))


def _tear(data: bytearray, change: Wrote | Truncated, chance: random.Random) -> None:
    """Keep the change, lose it, or, if it is a write, keep parts of it."""
    fate = chance.choice(("kept", "lost", "begun", "in sectors"))
    if fate == "lost":
        return
    if fate == "kept" or isinstance(change, Truncated):
        _apply(data, change)
    elif fate == "begun":
        length = chance.randrange(len(change.data) + 1)
        _apply(data, attrs.evolve(change, data=change.data[:length]))
    else:
        for sector in _sectors(change):
            what = chance.choice(("kept", "lost", "garbage"))
            garbage = chance.randbytes(len(sector.data))
            if what != "lost":
                torn = sector if what == "kept" else attrs.evolve(sector, data=garbage)
                _apply(data, torn)


def _sectors(write: Wrote) -> Iterator[Wrote]:
    """Split the write into parts, each in one sector of the file."""
    offset, end = write.offset, write.offset + len(write.data)
    while offset < end:
        border = min(end, (offset // _SECTOR_BYTES + 1) * _SECTOR_BYTES)
        piece = write.data[offset - write.offset : border - write.offset]
        yield Wrote(write.path, offset, piece)
        offset = border
