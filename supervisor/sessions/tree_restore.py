"""Restore the tree of sessions in memory: positions, slots, and what parents have not recorded."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs
import trio

from supervisor.core.errors import SupervisorError
from supervisor.core.ids import SessionId
from supervisor.core.log_content import Content, error_content
from supervisor.core.records import Record, body_problem
from supervisor.core.recovery import state_before_last_resume
from supervisor.core.state import SessionState
from supervisor.store.port import SuspendedRow

from .admission import Admission
from .child_notifications import Acknowledged
from .router import SessionRouter
from .services import Services

logger = logging.getLogger("supervisor")

_NO_SESSIONS: Final[Mapping[SessionId, SessionState]] = {}


@attrs.frozen
class Unacknowledged:
    """For each child: the notifications that its parent has recorded, and its unrecorded end."""

    acknowledged: Mapping[SessionId, Acknowledged]
    ends: Mapping[SessionId, SessionState]


async def find_unacknowledged(services: Services, rows: Iterable[SessionState]) -> Unacknowledged:
    """Return, for each child, the notifications that its parent has recorded and has not."""
    rows = list(rows)
    parents = {row.id: row.lineage.parent for row in rows}
    news = await services.store.records_of_kinds(("child_started", "child_ended"))
    acknowledged = _acknowledged_by_parents(
        record for record in news if _is_from_parent(record, parents)
    )
    return Unacknowledged(acknowledged, await _unacknowledged_ends(services, rows, acknowledged))


def restore_sessions(
    services: Services,
    admission: Admission,
    router: SessionRouter,
    rows: Sequence[SessionState],
    *,
    resting: Sequence[SuspendedRow],
    unheard: Unacknowledged,
) -> None:
    """Restore recovered sessions in the tree, and their input timers; parents before children."""
    restore_tree(
        admission,
        rows,
        unheard.acknowledged,
        ends=unheard.ends,
        resting=resting,
        is_offline=services.is_offline,
    )
    if not services.is_offline:
        for row in rows:
            if row.is_inactive and row.inputs:
                router.input_expiry.schedule(row)


def restore_tree(
    admission: Admission,
    rows: Sequence[SessionState],
    acknowledged: Mapping[SessionId, Acknowledged],
    *,
    ends: Mapping[SessionId, SessionState] = _NO_SESSIONS,
    resting: Iterable[SuspendedRow] = (),
    is_offline: bool,
) -> None:
    """Rebuild the tree after a restart of the supervisor; parents come before children.

    `resting` rows are only counted. Parents are notified of what they have not acknowledged,
    also of stops in `ends` from which the child was resumed. Offline, nothing is woken.
    """
    # Every ancestor of a row, also if sessions in between were deleted.
    above = {one for row in rows for one in row.lineage.above or ()}
    now = trio.current_time()
    tree, resting = admission.tree, list(resting)
    admission.names.restore(rows, resting)
    tree.apply_suspended(one.id for one in resting if not one.is_stopped)
    for row in rows:
        if row.lineage.above:
            tree.add_deleted_ancestors(row.lineage.above)
        if row.lineage.above or row.id in above or (row.limits and row.limits.has_budget):
            tree.add(row)
        tree.apply(row, lambda: now)
    if is_offline:
        return
    for row in rows:
        member = tree.find(row.id)
        if member is None and row.is_inactive:
            continue  # it does not affect other sessions and does not wait for a slot
        if member is not None:
            known = acknowledged.get(row.id, Acknowledged())
            member.is_end_reported, member.is_result_reported = known.stopped, known.task_done
            parent = member.parent
            is_in_tree = parent and tree.find(parent.id) is parent
            if parent is not None and is_in_tree and row.returns > known.returns:
                if row.id in ends:
                    admission.notifications.notify_parent(parent, member, ends[row.id])
                admission.notifications.notify_of_resume(parent, member, row)
        admission.apply(row)


def _is_from_parent(record: Record, parents: Mapping[SessionId, SessionId | None]) -> bool:
    """Return True if the parent wrote the record.

    An imported copy of a parent has the same records.
    """
    wrong = body_problem(record.kind, record.body)
    if wrong is not None:  # the damage of one record must not prevent the start
        logger.error(
            "record %s of session %s is damaged: %s",
            record.seq,
            record.session_id,
            Content(wrong, shown=record.kind),
        )
        return False
    return parents.get(SessionId(record.body["child"])) == record.session_id


def _acknowledged_by_parents(records: Iterable[Record]) -> dict[SessionId, Acknowledged]:
    """Return, for each child, the notifications that its parent has recorded."""
    acknowledged: dict[SessionId, Acknowledged] = {}
    for record in records:
        child = SessionId(record.body["child"])
        known = acknowledged.get(child, Acknowledged())
        if record.kind == "child_started":
            again = record.body["resumed"]
            acknowledged[child] = Acknowledged(
                task_done=known.task_done and again, returns=known.returns + again
            )
        else:
            over = record.body["reason"] is not None
            done = known.task_done or record.body["outcome"] is not None
            acknowledged[child] = Acknowledged(over, done, known.returns)
    return acknowledged


async def _unacknowledged_ends(
    services: Services, rows: Iterable[SessionState], acknowledged: Mapping[SessionId, Acknowledged]
) -> dict[SessionId, SessionState]:
    """Return, for each child, its state at an end of which the parent has no record.

    That includes a child that was resumed since: without its end, the parent would be notified of
    the resume of a child that never stopped.
    """
    ends: dict[SessionId, SessionState] = {}
    for row in rows:
        known = acknowledged.get(row.id, Acknowledged())
        if row.lineage.parent is None or known.stopped or row.returns <= known.returns:
            continue
        try:
            end = state_before_last_resume(await services.store.records(row.id))
        except (SupervisorError, ValueError) as error:
            logger.warning(
                "end of session %s is unreadable, parent not notified: %s",
                row.id,
                error_content(error),
            )
            continue
        if end is not None:
            ends[row.id] = end
    return ends
