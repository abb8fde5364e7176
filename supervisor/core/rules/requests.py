"""Permissions and questions: answered by the rights, by a rule, by the mode, or by a person."""

from __future__ import annotations

from supervisor.core.effects import AnswerRequest, SetRequestTimer, SetTimer
from supervisor.core.errors import InputRefused, InvalidDecision, PermissionNotFound, shown
from supervisor.core.events import PermissionAsked, RequestAnswered, RequestTimedOut, RuleRemoved
from supervisor.core.ids import RequestId
from supervisor.core.liveness import first_look
from supervisor.core.permissions import DEFAULT_MODE, answer_by_mode
from supervisor.core.session import Decision, Request, Session
from supervisor.core.step import Draft

from .door import refuse_archived


def ask(draft: Draft, event: PermissionAsked) -> None:
    """An agent wants to know whether it may; whoever can answer first does."""
    turn = draft.session.turn
    if turn is None or turn.id != event.turn:
        return
    answered = _answer_without_people(draft.session, event)
    _note_question(draft, event, by="person" if answered is None else answered[1])
    if answered is None:
        seconds = draft.session.terms.permission_timeout_seconds
        draft.do(SetRequestTimer(event.request, seconds))
    else:
        decision, by = answered
        _answer(draft, event.request, decision, by)


def ask_too_late(draft: Draft, event: PermissionAsked) -> None:
    """The turn is on its way out: nothing new is allowed."""
    draft.do(AnswerRequest(event.request, "cancelled"))


def _note_question(draft: Draft, event: PermissionAsked, *, by: str) -> None:
    draft.note(
        "permission_asked",
        request_id=event.request,
        tool=event.tool,
        question=event.question,
        input=event.input,
        options=list(event.options),
        asks=by,
    )


def _answer_without_people(session: Session, event: PermissionAsked) -> tuple[Decision, str] | None:
    if not session.permissions.allows("tools", event.tool):
        return "reject_once", "permissions"
    if event.denied_by is not None:
        return "reject_once", "hook"
    for rule in session.rules:
        if rule.tool == event.tool:
            return ("allow_once" if rule.decision == "allow_always" else "reject_once"), "rule"
    mode = session.permissions.mode or DEFAULT_MODE
    match answer_by_mode(mode, event.kind, inside_workspace=event.inside_workspace):
        case "allow":
            return "allow_once", "mode"
        case "reject":
            return "reject_once", "mode"
        case "ask":
            return None


def answer(draft: Draft, event: RequestAnswered) -> None:
    """Somebody decided."""
    request = _find(draft.session, event.request)
    if request is None:
        refuse_answer(draft, event)
    elif event.decision not in request.options:
        draft.refuse(
            InvalidDecision(
                f"request {request.id} does not offer {event.decision!r}",
                hint=f"choose one of {', '.join(request.options)}",
            )
        )
    else:
        _answer(draft, request.id, event.decision, event.by)
        if event.decision in ("allow_always", "reject_always"):
            draft.note(
                "rule_changed",
                rule_id=request.id,
                tool=request.tool,
                decision=event.decision,
            )
        draft.accept()


def refuse_answer(draft: Draft, event: RequestAnswered) -> None:
    """Nothing of that id waits here."""
    draft.refuse(
        PermissionNotFound(
            f"no request {event.request} is waiting in session {draft.session.id}",
            hint="its turn is over, or it was answered: list the requests",
        )
    )


def time_out(draft: Draft, event: RequestTimedOut) -> None:
    """Nobody decided in time, which is a no, for once."""
    if _find(draft.session, event.request) is not None:
        _answer(draft, event.request, "reject_once", "timeout")


def remove_rule(draft: Draft, event: RuleRemoved) -> None:
    """An answer for always is taken back."""
    if draft.session.archived:
        refuse_archived(draft)
        return
    rule = next((rule for rule in draft.session.rules if rule.id == event.rule), None)
    if rule is None:
        draft.refuse(
            InputRefused(
                f"there is no rule {shown(event.rule)}", hint="list the rules of the session"
            )
        )
        return
    draft.note("rule_changed", rule_id=rule.id, tool=rule.tool, decision=None)
    draft.accept()


def _answer(draft: Draft, request: RequestId, decision: Decision, by: str) -> None:
    draft.note("permission_answered", request_id=request, decision=decision, by=by)
    draft.do(AnswerRequest(request, decision), SetTimer("silence", first_look(draft.session.terms)))


def _find(session: Session, request_id: RequestId) -> Request | None:
    requests = session.turn.requests if session.turn else ()
    return next((request for request in requests if request.id == request_id), None)
