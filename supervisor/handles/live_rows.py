"""Rows of all sessions that a list shows, kept current in memory while a feed is open.

Rule 1: without a feed nothing is kept, and no session does anything for it.
Rule 2: the store is read once, when the first feed opens. Then rows follow from published records
        and from what sessions have in memory; only a session that was created is read again.
Rule 3: a row is computed at most every `COALESCE_SECONDS`, and sent only if it changed.
Rule 4: a session without a change costs nothing. Those with a running turn are compared with a few
        numbers of their last look, because their output passes no common place.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

import attrs
import trio

from supervisor.core.errors import SupervisorError
from supervisor.core.facts import AnyRecord
from supervisor.core.ids import RequestId, SessionId
from supervisor.core.log_content import error_content
from supervisor.core.state import Phase, SessionState
from supervisor.core.tree.node import TreeNode
from supervisor.sessions.admission import Admission
from supervisor.sessions.inbox import PermissionRequest
from supervisor.sessions.registry import SessionRegistry
from supervisor.sessions.services import Services
from supervisor.sessions.session_info import find_outer_wait
from supervisor.store.list_filter import Filter
from supervisor.store.pending import StoreState

from .last_line import LastLine
from .row_builder import RowBuilder, RowEntry
from .row_reader import RowItem, RowReader
from .row_values import budgets_of, is_major_change, needs_a_look
from .session_rows import (
    RequestClosed,
    RequestOpened,
    SessionGone,
    SessionRow,
    Snapshot,
    StoreChanged,
)

logger = logging.getLogger("supervisor")

COALESCE_SECONDS: Final = 0.25
# Without a change: how often what no record says is compared (the store, idle agent processes).
SWEEP_SECONDS: Final = 1.0
# A change of minor numbers alone is sent at most this often.
MINOR_SECONDS: Final = 2.0
# How long rows are kept for the next feed: another set of sessions is watched by reconnecting.
LINGER_SECONDS: Final = 10.0
# Sessions whose last lines are read at once.
_BATCH: Final = 500

_SHOWN: Final = (
    *(Filter(phase=phase) for phase in Phase if phase is not Phase.STOPPED),
    Filter(badge="failed", archived=False),
    Filter(phase=Phase.STOPPED, archived=False, attention=True),
)


@attrs.frozen
class _Change:
    """A changed session: the state and number last published; None if only the tree changed."""

    session: SessionState | None = None
    last_seq: int = 0


_TREE_CHANGE: Final = _Change()


class LiveRows:
    """The rows of all sessions that are live or that a person should look at."""

    def __init__(self, services: Services, registry: SessionRegistry, admission: Admission) -> None:
        self._services = services
        self._registry = registry
        self._admission = admission
        self._opened_at = services.clock.now()
        self._readers: list[RowReader] = []
        self._entries: dict[SessionId, RowEntry] = {}
        self._lines: dict[SessionId, LastLine] = {}
        self._builder = RowBuilder(services, registry, admission, self._lines)
        self._changes: dict[SessionId, _Change] = {}
        # Changed sessions that are neither in memory nor known: they are read from the store.
        self._unknown: set[SessionId] = set()
        # Changed sessions whose last line has to be read first: their rows were not kept.
        self._lineless: set[SessionId] = set()
        # Figures of the last look: of sessions with a turn or a process, and of owners of budgets.
        self._marks: dict[SessionId, object] = {}
        self._budget_marks: dict[SessionId, object] = {}
        self._requests: dict[RequestId, PermissionRequest] = {}
        self._store = StoreState()
        self._load_lock = trio.Lock()
        self._is_tracking = self._is_loaded = False
        # Sessions deleted during the load, whose rows may have been read before.
        self._deleted: set[SessionId] = set()
        self._keep_until = 0.0
        self._swept_at = 0.0
        self._wake = trio.Event()

    # From feeds ---------------------------------------------------------------------------

    async def open(self, reader: RowReader) -> None:
        """Keep all rows current from now on; push each change to the reader until `close`."""
        self._readers.append(reader)
        self._wake.set()
        if not self._is_tracking:
            self._begin()
        async with self._load_lock:
            if not self._is_loaded:
                await self._load()

    def close(self, reader: RowReader) -> None:
        """Stop pushing to the reader; ignore one that was not opened."""
        if reader in self._readers:
            self._readers.remove(reader)
        self._keep_until = trio.current_time() + LINGER_SECONDS

    def snapshot(self, position: int, *, is_reset: bool) -> Snapshot:
        """Return all rows as of now; what was pushed before is contained."""
        self._flush()
        rows = [entry.row for entry in self._entries.values()]
        return Snapshot(
            position=position,
            rows=tuple(sorted(rows, key=lambda row: (row.created_at, row.id))),
            requests=tuple(self._requests.values()),
            store=self._store,
            daemon_started_at=self._opened_at,
            is_reset=is_reset,
        )

    # Begin and end ------------------------------------------------------------------------

    def _begin(self) -> None:
        instruments = self._services.instruments
        instruments.change_callbacks.append(self._on_change)
        instruments.deletion_callbacks.append(self._on_deleted)
        self._is_tracking = True
        self._services.tasks.start_soon(self._run)

    def _end(self) -> None:
        instruments = self._services.instruments
        instruments.change_callbacks.remove(self._on_change)
        instruments.deletion_callbacks.remove(self._on_deleted)
        self._is_tracking = self._is_loaded = False
        for kept in (self._entries, self._lines, self._changes, self._marks, self._budget_marks):
            kept.clear()
        self._unknown.clear()
        self._lineless.clear()
        self._requests.clear()

    async def _run(self) -> None:
        while self._readers or trio.current_time() < self._keep_until:
            if not self._admission.tree.turn_slots or not self._readers:
                with trio.move_on_after(SWEEP_SECONDS):
                    await self._wake.wait()
            self._wake = trio.Event()
            if self._readers and self._is_loaded:
                await self._look()
            await trio.sleep(COALESCE_SECONDS)
        self._end()

    async def _look(self) -> None:
        try:
            self._flush()
            if self._unknown:
                await self._read_unknown()
            if self._lineless:
                await self._read_missing_lines()
        except SupervisorError as error:  # the store fails; tried again
            logger.warning("rows of sessions are not current: %s", error_content(error))
        except Exception:
            logger.exception("rows of sessions could not be computed")

    # The store ----------------------------------------------------------------------------

    async def _load(self) -> None:
        """Read the rows and the last lines of all sessions that a list shows."""
        self._deleted.clear()
        for slot in self._registry.live():
            self._changes.setdefault(slot.id, _TREE_CHANGE)
        for wanted in _SHOWN:
            async with aclosing(self._services.store.rows(matching=wanted)) as rows:
                async for stored in rows:
                    session_id = stored.row.id
                    if session_id not in self._deleted:
                        change = self._changes.get(session_id)
                        if change is None or change.session is None:
                            self._changes[session_id] = _Change(stored.row, stored.last_seq)
        await self._read_lines([one for one in self._changes if one not in self._lines])
        self._store = self._services.health.state
        self._requests = {one.id: one for one in self._services.inbox.pending()}
        await self._compute_all()
        self._is_loaded = True

    async def _compute_all(self) -> None:
        """Compute all rows, with checkpoints: there may be ten thousand."""
        now = self._services.clock.loop_time()
        for number, session_id in enumerate(list(self._changes)):
            change = self._changes.pop(session_id, None)
            if change is not None:
                self._update(session_id, change, now)
            if number % 50 == 0:
                await trio.lowlevel.checkpoint()

    async def _read_lines(self, session_ids: Sequence[SessionId]) -> None:
        for start in range(0, len(session_ids), _BATCH):
            batch = session_ids[start : start + _BATCH]
            # Text that is published from now on: later than any text that is read.
            self._lines.update((one, LastLine()) for one in batch)
            texts = await self._services.store.latest_texts(batch)
            for session_id, text in texts.items():
                line = self._lines.get(session_id)
                if line is not None and line.text is None:
                    line.add(text)

    async def _read_unknown(self) -> None:
        while self._unknown:
            session_id = next(iter(self._unknown))
            stored = await self._services.store.read(session_id)
            self._unknown.discard(session_id)
            if stored is not None and session_id not in self._entries:
                await self._read_lines([session_id])
                self._changes.setdefault(session_id, _Change(stored.row, stored.last_seq))
                self._wake.set()

    async def _read_missing_lines(self) -> None:
        wanted = [one for one in self._lineless if one not in self._lines]
        self._lineless.clear()
        await self._read_lines(wanted)
        self._wake.set()  # their changes wait

    # From sessions ------------------------------------------------------------------------

    def _on_change(self, records: Sequence[AnyRecord], session: SessionState | None) -> None:
        session_id = records[0].session_id
        line = self._lines.get(session_id)
        if line is None and records[0].seq == 1:
            line = self._lines[session_id] = LastLine()
        if line is not None:
            for record in records:
                if record.kind == "agent_text":
                    body = record.body
                    line.add(str(body["text"]), continues=bool(body.get("continues")))
        before = self._changes.get(session_id)
        if session is None and before is not None:
            session = before.session
        self._changes[session_id] = _Change(session, records[-1].seq)
        self._wake.set()

    def _on_deleted(self, session_id: SessionId) -> None:
        if not self._is_loaded:
            self._deleted.add(session_id)
        entry = self._forget(session_id)
        self._changes.pop(session_id, None)
        self._unknown.discard(session_id)
        if entry is not None:
            self._mark_parent(entry.row)
        self._push(session_id, SessionGone(session_id))

    def _forget(self, session_id: SessionId) -> RowEntry | None:
        self._lines.pop(session_id, None)
        self._marks.pop(session_id, None)
        return self._entries.pop(session_id, None)

    def _mark_parent(self, row: SessionRow) -> None:
        if row.parent is not None and row.parent in self._entries:
            self._changes.setdefault(row.parent, _TREE_CHANGE)
            self._wake.set()

    def _push(self, key: str, item: RowItem) -> None:
        for reader in self._readers:
            reader.push(key, item)

    # Computing ----------------------------------------------------------------------------

    def _flush(self) -> None:
        """Compute the rows of all changed sessions, and push those that differ."""
        now = self._services.clock.loop_time()
        self._compare_active(now)
        self._compare_budgets(now)
        changes, self._changes = self._changes, {}
        for session_id, change in changes.items():
            self._update(session_id, change, now)
        self._compare_requests()
        state = self._services.health.state
        if state != self._store:
            self._store = state
            self._push("store", StoreChanged(state))

    def _compare_active(self, now: float) -> None:
        """Mark sessions whose turn or process did something without a record."""
        tree = self._admission.tree
        active = list(tree.turn_slots)
        if now - self._swept_at >= SWEEP_SECONDS:
            self._swept_at = now
            active += tree.processes
        for session_id in active:
            slot = self._registry.find_slot(session_id)
            if slot is None or slot.session is None or slot.log is None:
                continue
            buffer = slot.log.turn_buffer
            outer_wait = find_outer_wait(self._registry, self._admission, slot.session)
            progress = None if buffer is None else (buffer.progress_at, buffer.bytes)
            if self._marks.get(session_id) != (progress, outer_wait):
                self._marks[session_id] = (progress, outer_wait)
                self._changes.setdefault(session_id, _TREE_CHANGE)

    def _compare_budgets(self, now: float) -> None:
        """Mark all sessions below a budget that changed.

        While a turn runs, by a whole percent only: each step would change the whole tree.
        """
        tree, seen = self._admission.tree, set[SessionId]()
        for session_id in (*self._changes, *tree.turn_slots):
            node = tree.find(session_id)
            for one in () if node is None else node.path():
                if one.id in seen:
                    break  # so are its ancestors
                seen.add(one.id)
                self._compare_budget(one, now)

    def _compare_budget(self, owner: TreeNode, now: float) -> None:
        mark = tuple(
            (one.name, one.allowed, int(100 * one.share) if owner.running_turns else one.used)
            for one in budgets_of(owner, now)
        )
        if mark == self._budget_marks.get(owner.id, ()):
            return
        self._budget_marks[owner.id] = mark
        for node in (owner, *owner.iter_descendants()):
            if node.id in self._entries:
                self._changes.setdefault(node.id, _TREE_CHANGE)

    def _compare_requests(self) -> None:
        inbox = self._services.inbox
        pending = {one.id: one for one in inbox.pending()}
        if pending.keys() == self._requests.keys():
            return
        before, self._requests = self._requests, pending
        for request_id, request in before.items():
            if request_id not in pending:
                closed = RequestClosed(
                    request_id, request.session_id, inbox.decision_of(request_id)
                )
                self._push(request_id, closed)
        for request_id, request in pending.items():
            if request_id not in before:
                self._push(request_id, RequestOpened(request))

    def _update(self, session_id: SessionId, change: _Change, now: float) -> None:
        """Compute the row of a changed session; push it if it differs."""
        entry = self._entries.get(session_id)
        slot = self._registry.find_slot(session_id)
        session, last_seq = change.session, change.last_seq
        if slot is not None and slot.session is not None and slot.log is not None:
            session, last_seq = slot.session, slot.log.published_seq
        if session is not None and session_id not in self._lines:
            self._lineless.add(session_id)
            self._changes.setdefault(session_id, change)
            return
        if session is not None:
            before = entry
            entry = self._builder.entry(session, slot, before, last_seq=last_seq, now=now)
        elif entry is not None:
            before, entry = entry, self._builder.with_tree_facts(entry, now)
        else:
            self._unknown.add(session_id)
            return
        self._take(change, before, entry, now)

    def _take(self, change: _Change, before: RowEntry | None, entry: RowEntry, now: float) -> None:
        row = entry.row
        if before is not None:
            entry.sent_at = before.sent_at
            if row == before.row:
                return
            is_minor = row.turn_id is not None and not is_major_change(before.row, row)
            if is_minor and now - before.sent_at < MINOR_SECONDS:
                self._changes.setdefault(row.id, change)
                return
        entry.sent_at = now
        self._entries[row.id] = entry
        if before is None or before.is_up != entry.is_up:
            self._mark_parent(row)
        self._push(row.id, row)
        if not needs_a_look(row):
            self._forget(row.id)
