"""A long run that another process continues: its sessions, its counts and its time in a file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import attrs

from .counting_store import CountingStore, RowCounter, SavedSession


@attrs.frozen
class SavedRun:
    """The state of a run after its supervisor closed."""

    virtual_seconds: float
    turns: int
    restarts: int
    crashed: int
    sessions: list[SavedSession]

    @classmethod
    def take(cls, store: CountingStore, counter: RowCounter, virtual_seconds: float) -> SavedRun:
        counts = (counter.turns, counter.restarts, counter.crashed)
        return cls(virtual_seconds, *counts, store.save())

    @classmethod
    def read(cls, path: Path) -> SavedRun:
        fields = json.loads(gzip.decompress(path.read_bytes()))
        sessions = [SavedSession(**one) for one in fields.pop("sessions")]
        return cls(sessions=sessions, **fields)

    def write(self, path: Path) -> None:
        """Replace the file in one step: an interrupt leaves the old one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".new")
        draft.write_bytes(gzip.compress(json.dumps(attrs.asdict(self)).encode(), 1))
        draft.replace(path)

    def load(self, store: CountingStore, counter: RowCounter) -> None:
        """Continue with these sessions and counts."""
        store.load(self.sessions)
        counter.turns, counter.restarts, counter.crashed = self.turns, self.restarts, self.crashed
