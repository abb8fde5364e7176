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
from supervisor.core.state import SessionState

logger = logging.getLogger("supervisor")

RecordCallback: TypeAlias = Callable[[AnyRecord], object]
DeletionCallback: TypeAlias = Callable[[SessionId], object]
# Called with the records of one session, and its state while it has an actor.
ChangeCallback: TypeAlias = Callable[[Sequence[AnyRecord], SessionState | None], object]
# Called with the duration of a commit in seconds and the number of its writes.
CommitCallback: TypeAlias = Callable[[float, int], object]


class Instruments:
    """Callbacks of one supervisor; those for metrics stay registered until it closes."""

    def __init__(self) -> None:
        self.record_callbacks: list[RecordCallback] = []
        self.change_callbacks: list[ChangeCallback] = []
        self.deletion_callbacks: list[DeletionCallback] = []
        self.commit_callbacks: list[CommitCallback] = []

    def published(self, records: Sequence[AnyRecord]) -> None:
        """Call the callbacks with records that are durable."""
        for take in self.record_callbacks:
            for record in records:
                _call(take, record)

    def changed(self, records: Sequence[AnyRecord], session: SessionState | None) -> None:
        """Call the callbacks with durable records of one session, at least one, and its state."""
        for take in self.change_callbacks:
            _call(take, records, session)

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
