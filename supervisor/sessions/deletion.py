"""Deletion of sessions.

Rule 1: sessions of one tree are deleted one after the other, so that the spending of each is added
        to an ancestor exactly once.
Rule 2: a deletion runs to completion, even if its caller is cancelled.
Rule 3: once the session is no longer stored, memory drops it before anything else may fail.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Final

import trio

from actors import ActorStopped, MailboxFull
from supervisor.core import events as ev
from supervisor.core.errors import KeyTaken, RepairRefused, SupervisorError
from supervisor.core.ids import SessionId, SessionKey
from supervisor.core.state import Phase, SessionState, Spending
from supervisor.store.port import RawRow
from supervisor.store.writer_messages import AwaitPurge, Delete, OptimizeIndex

from .admission import Admission
from .hooks.hook_run import hook_path
from .keys import KeyIndex
from .lifecycle import exclusive_by_key
from .refusals import session_not_found
from .registry import SessionRegistry
from .repair import SessionRepair
from .router import SessionRouter
from .services import Services
from .timers import Timer
from .writer_requests import ask_repeatedly

_OPTIMIZE_AFTER_SECONDS: Final = 1.0
# How long a deletion waits for the observers of its session_end.
_OBSERVER_SECONDS: Final = 5.0


class Deletion:
    """Stops sessions and removes all their data."""

    def __init__(
        self,
        services: Services,
        registry: SessionRegistry,
        router: SessionRouter,
        admission: Admission,
        keys: KeyIndex,
        *,
        repair: SessionRepair,
    ) -> None:
        self._services = services
        self._registry = registry
        self._router = router
        self._admission = admission
        self._keys = keys
        self._repair = repair
        # Due when no session was deleted for _OPTIMIZE_AFTER_SECONDS.
        self._optimize_timer = Timer("tidy", self._optimize_index)

    async def delete(self, session_id: SessionId, *, only_if_stopped: bool = False) -> bool:
        """Stop a session and delete all its data; return True if it was deleted.

        With `only_if_stopped`, a session that is not stopped, or was resumed meanwhile, is kept.
        """
        self._services.health.refuse_if_degraded()
        found = await self._repair.read_row_or_raw(session_id)
        root = found.lineage.root or session_id if isinstance(found, SessionState) else found.root
        # Sessions of one tree are deleted one after the other: the spending of a deleted session
        # moves to its nearest ancestor, which must not be deleted at the same time.
        work = partial(self._delete_exclusive, session_id, only_if_stopped=only_if_stopped)
        return await self._services.detached_tasks.exclusive(f"deletion below {root}", work)

    async def _delete_exclusive(self, session_id: SessionId, *, only_if_stopped: bool) -> bool:
        self._services.removals.add(session_id)  # from now on it cannot be resumed
        try:
            row = await self._repair.read_row_or_raw(session_id)
            if only_if_stopped and (isinstance(row, RawRow) or row.phase is not Phase.STOPPED):
                return False  # an unreadable row may not be of a stopped session
            if isinstance(row, RawRow):
                row = await self._make_readable(session_id)
            if isinstance(row, RawRow):
                name = row.key or f"session {session_id}"
                await self._services.detached_tasks.exclusive(
                    name, self._erase_all, session_id, row.key, None
                )
            else:
                await exclusive_by_key(self._services, self._registry, session_id, self._delete)
        finally:
            self._services.removals.discard((session_id,))
        return True

    async def _make_readable(self, session_id: SessionId) -> SessionState | RawRow:
        """Return the row, rebuilt if it was unreadable, so that relatives are notified of its end.

        If it cannot be rebuilt, return the raw row.
        """
        if self._registry.is_live_or_starting(session_id):
            await self._router.stop(session_id, "deleted")  # this commits its row
        else:
            with contextlib.suppress(RepairRefused, KeyTaken):
                await self._repair.rebuild_row(session_id, force=True)
        return await self._repair.read_row_or_raw(session_id)

    async def _delete(self, session_id: SessionId, key: SessionKey | None) -> None:
        await self._router.stop(session_id, "deleted")
        row = (await self._registry.stored(session_id)).row
        await self._erase_all(session_id, key, row)

    async def _erase_all(
        self, session_id: SessionId, key: SessionKey | str | None, row: SessionState | None
    ) -> None:
        """Delete the session from memory and from the store; `row` is None if it is unreadable."""
        if row is None:
            self._admission.stop_dependents(session_id)
        await self._notify_observers(session_id)
        try:
            await self._erase(session_id, row)
        except SupervisorError:
            if await self._registry.exists(session_id):
                raise
            # Otherwise the deletion is stored, and only the reply is missing.
        await self._forget(session_id, key)
        await ask_repeatedly(self._services.writer, AwaitPurge())

    async def _forget(self, session_id: SessionId, key: SessionKey | str | None) -> None:
        """Drop everything in memory about a session that is no longer stored."""
        self._keys.release(key, session_id)
        slot = self._registry.find_slot(session_id)
        if slot is not None:
            if slot.ref is not None:
                # A zombie keeps its actor running, but a deleted session does not need one.
                slot.ref.stop_nowait()
                await self._registry.wait_exit(slot.ref)
            slot.close(session_not_found(session_id))
            self._registry.drop_unused(slot)
        self._admission.delete(session_id)
        self._services.given_servers.forget(session_id)
        self._services.timers.set(self._optimize_timer, _OPTIMIZE_AFTER_SECONDS)

    async def _notify_observers(self, session_id: SessionId) -> None:
        """Notify observers while the session can still be read, and wait for them, for a while."""
        hooks = self._services.hooks
        if not hooks.observes("session_end"):
            return
        hooks.notify("session_end", session_id=session_id, reason="delete")
        if not hook_path():  # an observer that deletes would wait for itself
            with trio.move_on_after(_OBSERVER_SECONDS):
                await hooks.wait_delivered()

    def _optimize_index(self, _: str) -> None:
        """Optimize the full-text index, once for several deletions.

        That takes time in proportion to the size of the index.
        """
        with contextlib.suppress(MailboxFull, ActorStopped):
            self._services.writer.tell(OptimizeIndex())

    async def _erase(self, session_id: SessionId, row: SessionState | None) -> None:
        """Delete the session, and add its spending to its nearest ancestor, in one commit."""
        tree = self._admission.tree
        member = tree.find(session_id)
        above = member.parent.path() if member is not None and member.parent is not None else ()
        # The spending of its descendants is in their own rows.
        own = member.own_spent if member is not None else Spending()
        forgotten = ev.ChildDeleted(
            child=session_id,
            spent=own if row is None else row.spending + row.family.deleted,
            spawns=1 if row is None else row.family.deleted_spawns + 1,
            **self._services.stamp(),
        )
        for payer in above:
            if tree.find(payer.id) is not payer:
                continue  # deleted itself
            try:
                await self._router.ask(payer.id, forgotten, removes=session_id)
            except SupervisorError:
                if await self._registry.exists(payer.id):
                    raise
                if not await self._registry.exists(session_id):
                    raise  # the payer had committed it before it was deleted itself
                continue  # deleted meanwhile
            return
        await ask_repeatedly(self._services.writer, Delete(session_id))
