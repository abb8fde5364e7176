"""Permission requests and questions of agents as requests to the client, and its answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from supervisor.core.ids import RequestId
from supervisor.core.records import Record
from supervisor.core.session_values import Decision
from supervisor.drivers.acp.content import as_mapping
from supervisor.sessions.inbox import PermissionRequest

from .tool_cards import Update, one_line

# `dismissed`: the client has closed the question without an answer, and others may answer it.
# `cancelled`: the client says that the turn is cancelled.
ClientAnswer: TypeAlias = Decision | Literal["cancelled", "dismissed"]

_NAMES: Final[Mapping[Decision, str]] = {
    "allow_once": "Allow",
    "allow_always": "Always allow",
    "reject_once": "Reject",
    "reject_always": "Always reject",
}
_FIELD: Final = "decision"


def permission_params(
    request: PermissionRequest, *, session_id: str, call_id: str, asker: str | None = None
) -> dict[str, Any]:
    """Return the params of `session/request_permission`.

    `call_id` is the tool call that it is about, `asker` the name of the child that asks.
    """
    call: dict[str, Any] = {"toolCallId": call_id, "title": _title(request, asker)}
    if request.input is not None:
        call["rawInput"] = dict(request.input)
    return {"sessionId": session_id, "toolCall": call, "options": _options(request)}


def request_of(record: Record) -> PermissionRequest:
    """Return the request of a `permission_asked` record; the inbox knows more of it."""
    body = record.body
    assert record.turn_id is not None, "only a turn asks"
    return PermissionRequest(
        id=RequestId(body["request_id"]),
        session_id=record.session_id,
        turn_id=record.turn_id,
        tool=body["tool"],
        question=body["question"],
        input=body["input"],
        options=tuple(body["options"]),
        asked_at=record.at,
    )


def request_card(request: PermissionRequest, asker: str | None) -> Update:
    """Return a tool call for a request that is about no call: it must be known before."""
    card: Update = {
        "sessionUpdate": "tool_call",
        "toolCallId": str(request.id),
        "title": _title(request, asker),
        "kind": "other",
        "status": "pending",
    }
    return card if request.input is None else card | {"rawInput": dict(request.input)}


def answered_card(request_id: RequestId, decision: object) -> Update:
    """Return the end of the tool call of a request."""
    is_allowed = decision in ("allow_once", "allow_always")
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": str(request_id),
        "status": "completed" if is_allowed else "failed",
    }


def _title(request: PermissionRequest, asker: str | None) -> str:
    title = one_line(request.question) or one_line(request.tool) or "permission"
    return title if asker is None else one_line(f"{asker}: {title}")


def _options(request: PermissionRequest) -> list[dict[str, str]]:
    return [{"optionId": one, "name": _NAMES[one], "kind": one} for one in request.options]


def call_for(request: PermissionRequest, open_calls: Mapping[str, str]) -> str | None:
    """Return the newest open call of the tool that the request names; None without one."""
    named = [call for call, name in open_calls.items() if name == request.tool]
    return named[-1] if named else None


def read_permission(answer: object, request: PermissionRequest) -> ClientAnswer:
    """Return the decision in the answer to `session/request_permission`."""
    outcome = as_mapping(as_mapping(answer).get("outcome"))
    if outcome.get("outcome") == "cancelled":
        return "cancelled"
    return _decision(outcome.get("optionId"), request) or "dismissed"


def form_params(
    request: PermissionRequest, *, session_id: str, asker: str | None = None
) -> dict[str, Any]:
    """Return the params of `elicitation/create` for a question."""
    choices = [{"const": one, "title": _NAMES[one]} for one in request.options]
    return {
        "mode": "form",
        "sessionId": session_id,
        "message": _title(request, asker),
        "requestedSchema": {
            "type": "object",
            "properties": {_FIELD: {"type": "string", "title": "Answer", "oneOf": choices}},
            "required": [_FIELD],
        },
    }


def read_form(answer: object, request: PermissionRequest) -> ClientAnswer:
    """Return the decision in the answer to `elicitation/create`."""
    fields = as_mapping(answer)
    if fields.get("action") == "accept":
        return _decision(as_mapping(fields.get("content")).get(_FIELD), request) or "dismissed"
    if fields.get("action") == "decline":
        return _decision("reject_once", request) or "dismissed"
    return "dismissed"


def _decision(value: object, request: PermissionRequest) -> Decision | None:
    return next((one for one in request.options if one == value), None)
