"""Synchronous instrumentation callbacks, for metrics and logs.

Hooks are for users: they are queued, run in their own tasks and may be dropped. Instruments are for
the process around the supervisor, which counts and logs each event without a task.

Rule 1: a callback never waits and changes nothing. An exception that it raises is logged and has no
        other effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from supervisor.core.facts import AnyRecord
from supervisor.core.ids import SessionId

logger = logging.getLogger("supervisor")

RecordCallback: TypeAlias = Callable[[AnyRecord], object]
DeletionCallback: TypeAlias = Callable[[SessionId], object]
# Called with the duration of a commit in seconds and the number of its writes.
CommitCallback: TypeAlias = Callable[[float, int], object]


class Instruments:
    """Callbacks of one supervisor; a callback stays registered until the supervisor closes."""

    def __init__(self) -> None:
        self.record_callbacks: list[RecordCallback] = []
        self.deletion_callbacks: list[DeletionCallback] = []
        self.commit_callbacks: list[CommitCallback] = []

    def published(self, records: Sequence[AnyRecord]) -> None:
        """Call the callbacks with records that are durable."""
        for take in self.record_callbacks:
            for record in records:
                _call(take, record)

    def deleted(self, session_id: SessionId) -> None:
        """Call the callbacks with the id of a deleted session."""
        for take in self.deletion_callbacks:
            _call(take, session_id)

    def committed(self, seconds: float, writes: int) -> None:
        """Call the callbacks with the duration and the number of writes of a commit."""
        for take in self.commit_callbacks:
            _call(take, seconds, writes)


def _call(take: Callable[..., object], *news: object) -> None:
    try:
        take(*news)
    except Exception:
        logger.exception("instrumentation callback raised")
