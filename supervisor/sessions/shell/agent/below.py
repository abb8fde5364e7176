"""What an agent may know of those below it, and decide for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.core import events as ev
from supervisor.core.errors import InvalidDecision, PermissionDenied, shown
from supervisor.core.permissions import may_allow
from supervisor.core.records import Record
from supervisor.core.session import Decision, Session
from supervisor.drivers.port import ChildRequest, News

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House


def news_of(record: Record) -> News:
    """What a `child_started` or a `child_ended` record tells a parent."""
    body = record.body
    ended = record.kind == "child_ended"
    return News(
        kind="child_ended" if ended else "child_started",
        child=body["child"],
        agent=body["agent"],
        name=body["name"],
        role=body["role"],
        at=record.at,
        outcome=body["outcome"] if ended else None,
        text=body["text"],
        reason=body["reason"] if ended else None,
        detail=body["detail"] if ended else None,
    )


def requests_below(house: House, session: Session) -> list[ChildRequest]:
    """What waits in the inbox that this session may answer; nothing without that right."""
    if not session.terms.answers_for_children:
        return []
    return [
        ChildRequest(asked.id, asked.session_id, asked.tool, asked.question, asked.options)
        for asked in house.inbox.waiting()
        if house.desk.is_below(asked.session_id, session.id)
    ]


async def answer_below(house: House, session: Session, request_id: str, decision: Decision) -> None:
    """Decide a request of a descendant: never more than the session itself would be allowed."""
    asked = house.inbox.find(request_id)
    if not session.terms.answers_for_children or not house.desk.is_below(
        asked.session_id, session.id
    ):
        raise PermissionDenied(
            f"session {session.id} may not answer request {request_id}",
            hint="only for descendants, and only with answers_for_children=True",
        )
    if decision not in asked.options:
        raise InvalidDecision(
            f"request {asked.id} does not offer {shown(decision)}",
            hint=f"choose one of {', '.join(asked.options)}",
        )
    allows = decision in ("allow_once", "allow_always")
    if allows and not may_allow(session.permissions, session.rules, asked.tool):
        raise PermissionDenied(
            f"session {session.id} would have to ask for {asked.tool!r} itself",
            hint="reject it, or leave it to a person",
        )
    event = ev.RequestAnswered(request=asked.id, decision=decision, by="parent", **house.stamp())
    await house.lines.ask(asked.session_id, event, urgent=True)
