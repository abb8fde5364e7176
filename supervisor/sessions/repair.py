"""Repair of stored sessions: examine records, rebuild unreadable rows from their records.

Rule 1: a session with an unreadable row does not run until it is repaired. It still holds its key.
Rule 2: the commit that rebuilds a row also contains the recovery step that the start could not
        take for it. Afterwards the supervisor treats the session as if its row had been read at
        start-up.
"""

from __future__ import annotations

import contextlib
from functools import partial

from supervisor.core.errors import NotStorable, RepairRefused, SessionNotFound
from supervisor.core.ids import SessionId
from supervisor.core.limits import MAX_INT64
from supervisor.core.state import Phase, SessionState
from supervisor.store.port import RawRow, Write
from supervisor.store.repair import (
    RepairReport,
    RepairResult,
    repair_records,
    repair_refusal,
    repair_row,
    row_damage,
)
from supervisor.store.threads import run_in_thread
from supervisor.store.writer_messages import Claim

from .admission import Admission
from .keys import KeyIndex
from .lifecycle import commit_write
from .registry import SessionRegistry
from .router import SessionRouter
from .services import Services, StopSession
from .tree_restore import find_unacknowledged, restore_sessions
from .writer_requests import ask_repeatedly


class SessionRepair:
    """Examines and repairs stored sessions. `stop` requests a stop without waiting."""

    def __init__(
        self,
        services: Services,
        registry: SessionRegistry,
        router: SessionRouter,
        admission: Admission,
        keys: KeyIndex,
        *,
        stop: StopSession,
    ) -> None:
        self._services = services
        self._registry = registry
        self._router = router
        self._admission = admission
        self._keys = keys
        self._stop = stop

    async def read_row_or_raw(self, session_id: SessionId) -> SessionState | RawRow:
        """Return the session's row, or the raw row if it is unreadable.

        Raise SessionNotFound if the session does not exist.
        """
        while True:
            try:
                return (await self._registry.stored(session_id)).row
            except NotStorable:
                raw = await self._services.store.raw_row(session_id)
            if raw is not None and row_damage(raw) is not None:  # not repaired meanwhile
                return raw

    async def examine_row(self, damaged: RawRow, *, dry_run: bool, force: bool) -> RepairResult:
        """Return the problems and the row rebuilt from the records.

        Raise RepairRefused if the records have errors and `force` is not set.
        """
        session_id = damaged.session_id
        refused = repair_refusal(
            session_id,
            (),
            live=self._registry.is_live_or_starting(session_id),
            dry_run=dry_run,
            force=force,
        )
        if refused is not None:
            raise refused  # a live actor has the row in memory and stores it with its next commit
        raw = await self._services.store.raw_records(session_id)
        last = max((one.seq for one in raw if isinstance(one.seq, int)), default=0)
        snapshot = await self._services.store.snapshot(session_id, at=MAX_INT64)
        examine = partial(
            repair_row,
            damaged,
            raw,
            snapshot,
            at=self._services.clock.now(),
            last_seq=last,
            dry_run=dry_run,
            force=force,
        )
        return await run_in_thread(examine, self._services.thread_limiter)

    async def rebuild_row(self, session_id: SessionId, *, force: bool) -> RepairReport:
        """Rebuild an unreadable row from its records.

        Raise RepairRefused if the records do not allow it, and KeyTaken if its key is taken.
        """
        work = partial(self._rebuild_row, session_id, force=force)
        return await self._services.detached_tasks.exclusive(f"session {session_id}", work)

    async def _rebuild_row(self, session_id: SessionId, *, force: bool) -> RepairReport:
        damaged = await self.read_row_or_raw(session_id)
        if isinstance(damaged, SessionState):
            # Another caller has repaired it meanwhile.
            return RepairReport(session_id, dry_run=False, problems=())
        mended = await self.examine_row(damaged, dry_run=False, force=force)
        row = mended.row
        assert row is not None  # otherwise the repair was refused
        if not row.archived:
            self._keys.refuse_if_taken(row)
        await self._add_ancestors(row)
        unheard = await find_unacknowledged(self._services, [row])
        await commit_write(
            self._services, Write(session_id, damaged.epoch, mended.report.appended, row)
        )
        # No await from here on: a task that needs the session claims it only after this step.
        if self._admission.tree.is_deleted_ancestor(session_id):
            self._admission.tree.add(row)
        self._keys.restore([row], ())
        restore_sessions(
            self._services, self._admission, self._router, [row], resting=(), unheard=unheard
        )
        self._services.feeds.notify()
        if not self._services.is_offline and session_id not in self._services.removals:
            self._start_rebuilt(row)
        return mended.report

    async def _add_ancestors(self, row: SessionState) -> None:
        """Add the row's ancestors to the session tree, the root first.

        An inactive session without known children does not have a tree node.
        """
        tree = self._admission.tree
        for above in row.lineage.above or ():
            with contextlib.suppress(NotStorable, SessionNotFound):
                if tree.find(above) is None:
                    found = await self._registry.row(above)
                    tree.add_deleted_ancestors(found.lineage.above or ())
                    tree.add(found)

    def _start_rebuilt(self, row: SessionState) -> None:
        """Stop or wake the rebuilt session, as recovery would have done at start-up."""
        if row.phase is not Phase.STOPPED and self._admission.must_stop_with_parent(row):
            self._stop(row.id, "parent_stopped", None)
        elif row.phase is Phase.RESTARTING or (row.phase is Phase.SUSPENDED and row.inputs):
            self._registry.wake(row.id)

    async def repair(self, session_id: SessionId, *, dry_run: bool, force: bool) -> RepairReport:
        """Examine a session and repair it; see `Session.repair`."""
        if not dry_run:
            self._services.refuse_if_shutting_down()
        row = await self.read_row_or_raw(session_id)
        if isinstance(row, RawRow):
            if dry_run:
                return (await self.examine_row(row, dry_run=True, force=force)).report
            return await self.rebuild_row(session_id, force=force)
        self._refuse_if_live(session_id, row)
        if dry_run:
            return await self._examine(session_id, row, None, force=force)
        work = partial(self._repair, session_id, force=force)
        return await self._services.detached_tasks.exclusive(f"session {session_id}", work)

    def _refuse_if_live(self, session_id: SessionId, row: SessionState) -> None:
        live = self._registry.is_live_or_starting(session_id) or not row.is_inactive
        if live and self._services.is_offline:
            raise RepairRefused(
                f"session {session_id} was active when its supervisor exited",
                hint="open the store once with a supervisor, which closes open turns",
            )
        refused = repair_refusal(session_id, (), live=live, dry_run=True, force=False)
        if refused is not None:
            raise refused

    async def _repair(self, session_id: SessionId, *, force: bool) -> RepairReport:
        """Claim the session and repair it.

        An actor that starts meanwhile claims the session too, which fences this repair.
        """
        row = (await self._registry.stored(session_id)).row
        self._refuse_if_live(session_id, row)  # no await between this check and the claim request
        stored = await ask_repeatedly(self._services.writer, Claim(session_id))
        if stored is None:
            return RepairReport(session_id, dry_run=False, problems=(), appended=())
        return await self._examine(session_id, stored.row, stored.epoch, force=force)

    async def _examine(
        self,
        session_id: SessionId,
        row: SessionState,
        epoch: int | None,
        *,
        force: bool,
    ) -> RepairReport:
        """Return the problems; with the epoch of a claim, also append the repair to the records."""
        raw = await self._services.store.raw_records(session_id)
        last = max((one.seq for one in raw if isinstance(one.seq, int)), default=0)
        mended = await run_in_thread(
            partial(
                repair_records,
                session_id,
                raw,
                row,
                at=self._services.clock.now(),
                last_seq=last,
                epoch=epoch,
                dry_run=epoch is None,
                force=force,
            ),
            self._services.thread_limiter,
        )
        if epoch is not None and mended.row is not None:
            await commit_write(
                self._services, Write(session_id, epoch, mended.report.appended, mended.row)
            )
        return mended.report
