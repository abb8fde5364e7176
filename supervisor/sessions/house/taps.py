"""Taps: who is told what the house does, in the very step in which it does it.

Hooks are for users: they wait in a queue, run in tasks of their own and may be dropped. Taps are
for the process around the house, which counts and logs everything and needs no task for it.

Rule 1: a tap never waits and changes nothing. One that fails is logged; nobody else notices.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from supervisor.core.ids import SessionId
from supervisor.core.records import Record

logger = logging.getLogger("supervisor")

RecordTap: TypeAlias = Callable[[Record], object]
DeletionTap: TypeAlias = Callable[[SessionId], object]
# How long a commit took, and how many writes were in it.
CommitTap: TypeAlias = Callable[[float, int], object]


class Taps:
    """One for each house; whoever is put in stays until the house is left."""

    def __init__(self) -> None:
        self.of_records: list[RecordTap] = []
        self.of_deletions: list[DeletionTap] = []
        self.of_commits: list[CommitTap] = []

    def published(self, records: Sequence[Record]) -> None:
        """These records are durable."""
        for take in self.of_records:
            for record in records:
                _tell(take, record)

    def deleted(self, session_id: SessionId) -> None:
        """Nothing is left of the session."""
        for take in self.of_deletions:
            _tell(take, session_id)

    def committed(self, seconds: float, writes: int) -> None:
        """The store has answered, or failed."""
        for take in self.of_commits:
            _tell(take, seconds, writes)


def _tell(take: Callable[..., object], *news: object) -> None:
    try:
        take(*news)
    except Exception:
        logger.exception("somebody who was told what has happened failed")
