"""Info of a session: from its row, the tree, and its progress in memory."""

from __future__ import annotations

import attrs
import trio

from supervisor.core.info import Info, make_info
from supervisor.core.session_values import Spending
from supervisor.core.state import SessionState

from .admission import Admission
from .liveness import process_problem
from .registry import SessionRegistry
from .services import Services


def session_info(
    services: Services,
    registry: SessionRegistry,
    admission: Admission,
    session: SessionState,
    *,
    last_seq: int,
) -> Info:
    """Return the session's Info, with its place in the tree and the reason why it waits."""
    info = _make_info(registry, admission, session, last_seq=last_seq)
    if info.expires_at is None:
        return info
    return attrs.evolve(info, expires_at=services.clock.wall_time_of(info.expires_at))


def _make_info(
    registry: SessionRegistry, admission: Admission, session: SessionState, *, last_seq: int
) -> Info:
    waits_for = find_outer_wait(registry, admission, session)
    member = admission.tree.find(session.id)
    if member is None:
        spent = _spent_alone(admission, session)
        return make_info(session, last_seq=last_seq, spent=spent, waits_for=waits_for)
    return make_info(
        session,
        last_seq=last_seq,
        limits=member.shown_limits,
        children=member.active_child_ids(),
        spent=member.spent_by(trio.current_time()),
        waits_for=waits_for,
    )


def _spent_alone(admission: Admission, session: SessionState) -> Spending:
    """Return the spending of a session that has no node, its running turn included."""
    spent, slot = session.spending, admission.tree.turn_slots.get(session.id)
    ran = None if slot is None else slot.ran_seconds(trio.current_time())
    return spent if ran is None else attrs.evolve(spent, wall_seconds=spent.wall_seconds + ran)


def find_outer_wait(
    registry: SessionRegistry, admission: Admission, session: SessionState
) -> str | None:
    """Return what the session waits for that its own state does not show, or None."""
    return admission.waits_for(session.id) or _waits_for_other(registry, session)


def _waits_for_other(registry: SessionRegistry, session: SessionState) -> str | None:
    slot = registry.find_slot(session.id)
    if slot is None:
        return None
    turn = session.turn
    if slot.progress.awaited_sessions and turn and not turn.requests:
        return "child"
    if process_problem(slot) is not None and not (turn and turn.requests):
        return "process"
    return None
