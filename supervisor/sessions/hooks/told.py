"""What observers are told: what records say, and how a session is by the look of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from supervisor.core.info import badge_of
from supervisor.core.records import Record
from supervisor.core.session import Session

from . import ObservedPoint

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House

# Kinds of records that are a point of their own, and which of its fields the point has.
_POINTS: Final[dict[str, tuple[ObservedPoint, tuple[str, ...]]]] = {
    "session_stopped": ("session_stop", ("reason", "detail")),
    "turn_ended": ("turn_end", ("outcome", "stop_reason", "text", "error")),
    "tool_ended": ("tool_after", ("call_id", "name", "outcome", "result")),
}


def tell_of_record(house: House, record: Record) -> None:
    """A record is durable: tell whoever observes what it says."""
    body = record.body

    def tell(point: ObservedPoint, **data: object) -> None:
        house.hooks.notify(point, session_id=record.session_id, turn_id=record.turn_id, **data)

    tell("record_written", seq=record.seq, at=record.at, kind=record.kind, body=body)
    if record.kind in _POINTS:
        point, fields = _POINTS[record.kind]
        tell(point, **{field: body[field] for field in fields})
    elif record.kind == "agent_attached":
        row = _row(house, record)
        tell("session_start", agent=row.agent_name if row else None)
    elif record.kind == "child_started" and not body["resumed"]:
        names = {field: body[field] for field in ("agent", "name", "role")}
        tell("spawn_after", child_id=body["child"], **names)
    end = _end_of(house, record)
    if end is not None:
        tell("session_end", reason=end)


def tell_of_health(house: House, before: Session | None, session: Session) -> None:
    """A session is so: if it looks different by that, say how."""
    old = None if before is None else badge_of(before)
    new = badge_of(session)
    if old is not None and old != new:
        house.hooks.notify(
            "health_changed", session_id=session.id, badge=new, before=old, detail=None
        )


def _end_of(house: House, record: Record) -> str | None:
    """Why a conversation is over by this record, if it is."""
    match record.kind:
        case "session_archived" if record.body["archived"]:
            return "new" if record.session_id in house.tree.ending else "archive"
        case "session_cleared":
            return "reset"
        case "session_stopped" if record.body["reason"] == "ttl_expired":
            return "timeout"
        case _:
            return None


def _row(house: House, record: Record) -> Session | None:
    seat = house.tree.find_seat(record.session_id)
    return seat.session if seat is not None else None
