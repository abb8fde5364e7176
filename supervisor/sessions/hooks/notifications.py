"""Notifications for observers, derived from records and badges."""

from __future__ import annotations

from typing import Final

from supervisor.core.facts import AnyRecord
from supervisor.core.info import badge_of
from supervisor.core.state import SessionState

from .dispatch import Hooks
from .points import ObservedPoint

# Record kinds with a point of their own, and the body fields that its event has.
_POINTS: Final[dict[str, tuple[ObservedPoint, tuple[str, ...]]]] = {
    "session_stopped": ("session_stop", ("reason", "detail")),
    "turn_ended": ("turn_end", ("outcome", "stop_reason", "text", "error")),
    "tool_ended": ("tool_after", ("call_id", "name", "outcome", "result")),
}


def notify_record(
    hooks: Hooks, record: AnyRecord, *, session: SessionState | None, is_replaced: bool
) -> None:
    """Notify the observers of each point that a durable record corresponds to.

    `session` is the session's state while it has an actor; `is_replaced` is True if another session
    takes its key.
    """
    body = record.body

    def tell(point: ObservedPoint, **data: object) -> None:
        hooks.notify(point, session_id=record.session_id, turn_id=record.turn_id, **data)

    tell("record_written", seq=record.seq, at=record.at, kind=record.kind, body=body)
    if record.kind in _POINTS:
        point, fields = _POINTS[record.kind]
        tell(point, **{field: body[field] for field in fields})
    elif record.kind == "agent_attached":
        tell("session_start", agent=session.agent_name if session else None)
    elif record.kind == "child_started" and not body["resumed"]:
        names = {field: body[field] for field in ("agent", "name", "role")}
        tell("spawn_after", child_id=body["child"], **names)
    end = _end_reason(record, is_replaced=is_replaced)
    if end is not None:
        tell("session_end", reason=end)


def notify_badge(hooks: Hooks, before: SessionState | None, session: SessionState) -> None:
    """Notify observers of health_changed if the session's badge has changed."""
    old = None if before is None else badge_of(before)
    new = badge_of(session)
    if old is not None and old != new:
        hooks.notify("health_changed", session_id=session.id, badge=new, before=old, detail=None)


def _end_reason(record: AnyRecord, *, is_replaced: bool) -> str | None:
    """Return the reason for which the record ends a conversation; None if it does not."""
    match record.kind:
        case "session_archived" if record.body["archived"]:
            return "new" if is_replaced else "archive"
        case "session_cleared":
            return "reset"
        case "session_stopped" if record.body["reason"] == "ttl_expired":
            return "timeout"
        case _:
            return None
