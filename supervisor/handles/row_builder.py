"""The row of one session, computed from its state, its slot and its place in the tree."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from supervisor.core.ids import SessionId
from supervisor.core.info import waiting_for as own_wait
from supervisor.core.state import SessionState
from supervisor.sessions.admission import Admission
from supervisor.sessions.registry import SessionRegistry
from supervisor.sessions.services import Services
from supervisor.sessions.session_info import session_info
from supervisor.sessions.slot import SessionSlot

from .last_line import LastLine
from .row_values import tightest_budget, waiting_since
from .session_rows import SessionRow, row_of


class RowEntry:
    """A row, and what decides whether it has to be computed or sent again."""

    __slots__ = ("is_up", "own_wait", "row", "sent_at", "wait_mark")

    def __init__(self, row: SessionRow) -> None:
        self.row = row
        self.sent_at = 0.0
        self.own_wait: str | None = None  # what its own state says that it waits for
        self.wait_mark: object = None  # a new one means that `waiting_since` is computed again
        self.is_up = False  # whether its parent counts it as an active child


class RowBuilder:
    """Computes rows; `lines` has the last line of each session, without unpublished text."""

    def __init__(
        self,
        services: Services,
        registry: SessionRegistry,
        admission: Admission,
        lines: Mapping[SessionId, LastLine],
    ) -> None:
        self._services = services
        self._registry = registry
        self._admission = admission
        self._lines = lines

    def entry(
        self,
        session: SessionState,
        slot: SessionSlot | None,
        before: RowEntry | None,
        *,
        last_seq: int,
        now: float,
    ) -> RowEntry:
        """Return the entry of a session's state; `before` is the previous one."""
        services, node = self._services, self._admission.tree.find(session.id)
        info = session_info(services, self._registry, self._admission, session, last_seq=last_seq)
        since, mark = self._waiting_since(session, slot, info.waiting_for, before)
        row = row_of(
            info,
            waiting_since=since,
            turn_started_at=None if session.turn is None else session.turn.started_at,
            last_text=self._last_text(session.id, slot),
            budget=tightest_budget(node, now),
        )
        entry = RowEntry(row)
        entry.own_wait, entry.wait_mark = own_wait(session), mark
        entry.is_up = node is not None and node.state == "up"
        return entry

    def with_tree_facts(self, before: RowEntry, now: float) -> RowEntry:
        """Return the entry of a session that is not in memory, with the tree as of now."""
        node = self._admission.tree.find(before.row.id)
        waits_for = self._admission.waits_for(before.row.id) or before.own_wait
        row = attrs.evolve(
            before.row,
            waiting_for=waits_for,
            waiting_since=before.row.waiting_since if waits_for else None,
            budget=tightest_budget(node, now),
            children=0 if node is None else len(node.active_child_ids()),
        )
        entry = RowEntry(row)
        entry.own_wait, entry.wait_mark, entry.is_up = before.own_wait, None, before.is_up
        return entry

    def _waiting_since(
        self,
        session: SessionState,
        slot: SessionSlot | None,
        waits_for: str | None,
        before: RowEntry | None,
    ) -> tuple[float | None, object]:
        """Return since when it waits, unchanged while nothing happened: two clocks drift apart."""
        if waits_for is None:
            return None, None
        buffer = slot.log.turn_buffer if slot is not None and slot.log is not None else None
        asked = session.turn.requests[:1] if session.turn is not None else ()
        progress = session.updated_at if buffer is None else buffer.progress_at
        mark = (waits_for, asked, progress)
        if before is not None and before.wait_mark == mark:
            return before.row.waiting_since, mark
        services = self._services
        return waiting_since(session, slot, services.clock, services.active_clock), mark

    def _last_text(self, session_id: SessionId, slot: SessionSlot | None) -> str | None:
        line = self._lines.get(session_id)
        if line is None:
            return None
        pieces = slot.log.unpublished_text() if slot is not None and slot.log is not None else ()
        if pieces:
            line = line.copy()
            for text, continues in pieces:
                line.add(text, continues=continues)
        return line.text
