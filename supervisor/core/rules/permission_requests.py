"""Rules for permission requests: decided by rights, by a rule, by the mode, or by a person.

A request that is open when its turn ends or is interrupted is cancelled; so is a question, which is
one more kind of request (`questions.py`).
"""

from __future__ import annotations

from supervisor.core.agent_events import PermissionAsked, RequestTimedOut
from supervisor.core.effects import AnswerRequest, CloseQuestion, SetRequestTimer, SetTimer
from supervisor.core.errors import InputRefused, InvalidDecision, PermissionNotFound, short_repr
from supervisor.core.events import QuestionAnswered, RequestAnswered, RuleRemoved
from supervisor.core.ids import RequestId
from supervisor.core.liveness import first_check_seconds
from supervisor.core.permissions import DEFAULT_MODE, answer_by_mode
from supervisor.core.state import Decision, OpenRequest, SessionState
from supervisor.core.step import Draft

from .refusals import refuse_archived


def ask_permission(draft: Draft, event: PermissionAsked) -> None:
    """Record a permission request, and answer it at once if rights, hook, rule or mode decide."""
    turn = draft.state.turn
    if turn is None or turn.id != event.turn:
        return
    answered = _automatic_answer(draft.state, event)
    if answered is not None:
        decision, by = answered
        _record_question(draft, event, by=by)
        _record_answer(draft, event.request, decision, by)
        return
    seconds = draft.state.terms.permission_timeout_seconds
    if seconds is None:
        _record_question(draft, event, by="person")
    else:
        _record_question(draft, event, by="person", expires_at=event.steady_at + seconds)
        draft.do(SetRequestTimer(event.request, seconds))


def cancel_late_request(draft: Draft, event: PermissionAsked) -> None:
    """Cancel a request that arrives while the turn is ending."""
    draft.do(AnswerRequest(event.request, "cancelled"))


def _record_question(
    draft: Draft, event: PermissionAsked, *, by: str, expires_at: float | None = None
) -> None:
    draft.note(
        "permission_asked",
        request_id=event.request,
        tool=event.tool,
        question=event.question,
        input=event.input,
        options=list(event.options),
        asks=by,
        **({} if expires_at is None else {"expires_at": expires_at}),
    )


def _automatic_answer(session: SessionState, event: PermissionAsked) -> tuple[Decision, str] | None:
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


def answer_request(draft: Draft, event: RequestAnswered) -> None:
    """Record a decision, and a permission rule for allow_always and reject_always."""
    request = find_request(draft.state, event.request)
    if request is None:
        refuse_answer(draft, event)
    elif request.kind == "question":
        draft.refuse(
            InvalidDecision(f"request {request.id} is a question", hint="answer it with a text")
        )
    elif event.decision not in request.options:
        draft.refuse(
            InvalidDecision(
                f"request {request.id} does not offer {event.decision!r}",
                hint=f"choose one of {', '.join(request.options)}",
            )
        )
    else:
        _record_answer(draft, request.id, event.decision, event.by)
        if event.decision in ("allow_always", "reject_always"):
            draft.note(
                "rule_changed",
                rule_id=request.id,
                tool=request.tool,
                decision=event.decision,
            )
        draft.accept()


def refuse_answer(draft: Draft, event: RequestAnswered | QuestionAnswered) -> None:
    """Refuse an answer, because no request with that id is pending."""
    draft.refuse(
        PermissionNotFound(
            f"no request {event.request} is waiting in session {draft.state.id}",
            hint="its turn is over, or it was answered: list the requests",
        )
    )


def time_out_request(draft: Draft, event: RequestTimedOut) -> None:
    """Reject the request for once, or close the question, because no answer came in time."""
    request = find_request(draft.state, event.request)
    if request is None:
        return
    if request.kind == "question":
        close_question(draft, request.id, "cancelled", by="timeout")
    else:
        _record_answer(draft, request.id, "reject_once", "timeout")


def remove_rule(draft: Draft, event: RuleRemoved) -> None:
    """Remove a permission rule."""
    if draft.state.archived:
        refuse_archived(draft)
        return
    rule = next((rule for rule in draft.state.rules if rule.id == event.rule), None)
    if rule is None:
        draft.refuse(
            InputRefused(
                f"no rule has the id {short_repr(event.rule)}", hint="list the rules of the session"
            )
        )
        return
    draft.note("rule_changed", rule_id=rule.id, tool=rule.tool, decision=None)
    draft.accept()


def _record_answer(draft: Draft, request: RequestId, decision: Decision, by: str) -> None:
    draft.note("permission_answered", request_id=request, decision=decision, by=by)
    draft.do(
        AnswerRequest(request, decision),
        SetTimer("silence", first_check_seconds(draft.state.terms)),
    )


def close_question(
    draft: Draft, request: RequestId, decision: str, *, by: str, **text: str
) -> None:
    """Record how a question ended: answered with a text, or cancelled."""
    draft.note("permission_answered", request_id=request, decision=decision, by=by, **text)
    draft.do(CloseQuestion(request), SetTimer("silence", first_check_seconds(draft.state.terms)))


def find_request(session: SessionState, request_id: RequestId) -> OpenRequest | None:
    """Return the open request with that id, or None."""
    requests = session.turn.requests if session.turn else ()
    return next((request for request in requests if request.id == request_id), None)


def cancel_requests(draft: Draft) -> None:
    """Cancel the open permission requests and questions of the turn."""
    turn = draft.state.turn
    for request in turn.requests if turn is not None else ():
        draft.note("permission_answered", request_id=request.id, decision="cancelled", by="turn")
        is_question = request.kind == "question"
        draft.do(
            CloseQuestion(request.id) if is_question else AnswerRequest(request.id, "cancelled")
        )
