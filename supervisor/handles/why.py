"""Chains of waiting sessions: from a session to the session that it waits for, and so on."""

from __future__ import annotations

from supervisor.core.ids import SessionId
from supervisor.core.info import badge_of
from supervisor.core.state import Phase, SessionState
from supervisor.sessions.liveness import (
    find_evidence,
    login_hint,
    own_silent_seconds,
    process_problem,
)

from .parts import Parts
from .shapes import Waits, Why


async def why(parts: Parts, session_id: SessionId) -> Why:
    """Return the chain of waits that starts at a session; see `Session.why`."""
    chain: list[Waits] = []
    at: SessionId | None = session_id
    while at is not None:
        row = await parts.registry.row(at)
        waits, at = _find_wait(parts, row)
        chain.append(waits)
        seen = [one.session_id for one in chain]
        if at in seen:
            return Why(session_id, tuple(chain), tuple(seen[seen.index(at) :]))
    return Why(session_id, tuple(chain))


def _find_wait(parts: Parts, row: SessionState) -> tuple[Waits, SessionId | None]:
    """Return the wait of the session, and the id of the session that it waits for, or None."""
    slot = parts.registry.find_slot(row.id)
    now = parts.services.clock.now()
    # A changed title or tag of an idle session does not restart its wait.
    seconds = now - (row.last_active_at if row.phase is Phase.IDLE else row.updated_at)
    waits_for, detail, other = _wait_without_turn(parts, row)
    if row.turn is not None and slot is not None:
        evidence = find_evidence(slot)
        waits_for, detail = evidence.waits_for, evidence.detail
        other = SessionId(detail) if waits_for == "child" and detail is not None else None
        seconds = own_silent_seconds(parts.services.active_clock, slot)
    seconds = max(0.0, seconds)
    waits = Waits(
        session_id=row.id,
        agent=row.agent_name,
        badge=badge_of(row),
        waits_for=waits_for,
        detail=detail,
        since=now - seconds,
        seconds=seconds,
    )
    return waits, other


def _wait_without_turn(  # noqa: PLR0911 - one return for each kind of wait
    parts: Parts, row: SessionState
) -> tuple[str, str | None, SessionId | None]:
    """Return kind, detail and session of the wait of a session without a running turn."""
    if row.zombie is not None:
        return "zombie", row.zombie, None
    if row.waits_for_auth and row.phase is not Phase.STOPPED:
        return "person", login_hint(row), None
    match row.phase:
        case Phase.STARTING:
            return "start", None, None
        case Phase.RESTARTING:
            failure = row.last_failure
            return "restart", None if failure is None else failure.detail, None
        case Phase.STOPPED:
            return "nothing", row.stop_reason, None
        case Phase.STOPPING:
            below = parts.admission.last_dependent(row.id)
            return ("child", below, below) if below is not None else ("end", None, None)
        case Phase.SUSPENDED if parts.admission.waits_for_child_slot(row.id):
            return "child_slot", row.lineage.parent, None
        case Phase.IDLE if row.inputs:
            return "turn_slot", None, None
        case Phase.IDLE if trouble := process_problem(parts.registry.find_slot(row.id)):
            return "process", trouble, None
        case _:
            return "input", _bad_outcome(row), None


def _bad_outcome(row: SessionState) -> str | None:
    """Return how the last turn ended, unless it was completed."""
    if row.last_turn is None or row.last_turn[0] == "completed":
        return None
    outcome, reason, *_ = row.last_turn
    return f"its last turn ended as {outcome}" + (f": {reason}" if reason else "")
