"""Claims made in memory while the store is degraded, written before anything of their sessions.

A session without an actor must be claimed before it can be stopped. A degraded store cannot write
the claim, but its row can be read: the writer answers with the epoch that the claim will have, and
writes the claim when the store recovers, before the pending writes.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from supervisor.core.errors import NotStorable, StoreDegraded
from supervisor.core.ids import SessionId

from .pending import Backlog, StoreHealth
from .port import Store, Stored, Write


class PendingClaims:
    """The claims of one store that are not written yet; they outlive a crash of the writer."""

    def __init__(self, store: Store, health: StoreHealth) -> None:
        self._store = store
        self._health = health
        self._backlog: Backlog = health.backlog

    async def add(self, session_id: SessionId, refusal: StoreDegraded) -> Stored | None:
        """Claim a session in memory and return it as stored, with its new epoch.

        Raise the refusal if its row is not final: a write of the session is pending, recovery has
        not been written, or the store never writes again.
        """
        health = self._health
        is_pending = any(_concerns(write, session_id) for write, _ in self._backlog.writes)
        if health.is_read_only or health.is_recovery_pending or is_pending:
            raise refusal
        stored = await self._store.read(session_id)
        if stored is None:
            return None
        epochs = self._backlog.claimed_epochs
        epochs[session_id] = max(stored.epoch, epochs.get(session_id, 0)) + 1
        return attrs.evolve(stored, epoch=epochs[session_id])

    async def write(self) -> None:
        """Write the claims; raise StoreDegraded if the store cannot.

        A repeated call continues: a claim whose outcome was unknown is not made twice.
        """
        epochs = self._backlog.claimed_epochs
        while epochs:
            due = await self._find_unwritten()
            if not due:
                epochs.clear()
                return
            await self._store.claim(due)

    async def _find_unwritten(self) -> Sequence[SessionId]:
        due: list[SessionId] = []
        for session_id, epoch in self._backlog.claimed_epochs.items():
            try:
                stored = await self._store.read(session_id)
            except NotStorable:
                continue  # damaged since: its writes are refused
            if stored is not None and stored.epoch < epoch:
                due.append(session_id)
        return due


def _concerns(write: Write, session_id: SessionId) -> bool:
    """Return True if the write, or one that is committed with it, changes the session."""
    return any(session_id in (part.session_id, part.deletes) for part in write.parts)
