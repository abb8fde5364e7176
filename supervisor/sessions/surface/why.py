"""Why nothing happens: what a session waits for, whom that one waits for, and so on to the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.core.ids import SessionId
from supervisor.core.info import badge_of
from supervisor.core.session import Phase, Session
from supervisor.sessions.shell.watch.liveness import (
    evidence_of,
    login_wanted,
    own_silent_seconds,
    process_trouble,
)

from .shapes import Waits, Why

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House


async def why(house: House, session_id: SessionId) -> Why:
    """See `Session.why`."""
    chain: list[Waits] = []
    at: SessionId | None = session_id
    while at is not None:
        row = await house.tree.row(at)
        waits, at = _look(house, row)
        chain.append(waits)
        seen = [one.session_id for one in chain]
        if at in seen:
            return Why(session_id, tuple(chain), tuple(seen[seen.index(at) :]))
    return Why(session_id, tuple(chain))


def _look(house: House, row: Session) -> tuple[Waits, SessionId | None]:
    """What the session waits for, and whom."""
    seat = house.tree.find_seat(row.id)
    now = house.clock.now()
    # What people change about a session that is idle does not begin its wait anew.
    seconds = now - (row.last_active_at if row.phase is Phase.IDLE else row.updated_at)
    waits_for, detail, other = _between_turns(house, row)
    if row.turn is not None and seat is not None:
        evidence = evidence_of(seat)
        waits_for, detail = evidence.waits_for, evidence.detail
        other = SessionId(detail) if waits_for == "child" and detail is not None else None
        seconds = own_silent_seconds(seat)
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


def _between_turns(  # noqa: PLR0911 - one for each way to wait
    house: House, row: Session
) -> tuple[str, str | None, SessionId | None]:
    """What a session waits for that has no turn."""
    if row.zombie is not None:
        return "zombie", row.zombie, None
    if row.waits_for_auth and row.phase is not Phase.STOPPED:
        return "person", login_wanted(row), None
    match row.phase:
        case Phase.STARTING:
            return "start", None, None
        case Phase.RESTARTING:
            failure = row.last_failure
            return "restart", None if failure is None else failure.detail, None
        case Phase.STOPPED:
            return "nothing", row.stop_reason, None
        case Phase.STOPPING:
            below = house.desk.last_dependent(row.id)
            return ("child", below, below) if below is not None else ("end", None, None)
        case Phase.SUSPENDED if house.desk.waits_for_a_place(row.id):
            return "place", row.lineage.parent, None
        case Phase.IDLE if row.inputs:
            return "turn", None, None
        case Phase.IDLE if trouble := process_trouble(house.tree.find_seat(row.id)):
            return "process", trouble, None
        case _:
            return "input", None, None
