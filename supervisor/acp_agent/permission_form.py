"""Permission requests and questions of agents as requests to the client, and its answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

from supervisor.core.ids import RequestId
from supervisor.core.records import Record
from supervisor.core.session_values import Decision
from supervisor.drivers.acp.content import as_mapping, as_text
from supervisor.sessions.inbox import PermissionRequest

from .tool_cards import Update, one_line


@attrs.frozen
class QuestionAnswer:
    """The text that answers a question of an agent."""

    text: str


# `dismissed`: the client has closed the question without an answer, and others may answer it.
# `cancelled`: the client says that the turn is cancelled.
ClientAnswer: TypeAlias = Decision | QuestionAnswer | Literal["cancelled", "dismissed"]

_NAMES: Final[Mapping[Decision, str]] = {
    "allow_once": "Allow",
    "allow_always": "Always allow",
    "reject_once": "Reject",
    "reject_always": "Always reject",
}
# The fields of the form for a question: one of its choices, or any other text.
_CHOICE: Final = "choice"
_TEXT: Final = "text"
# In a client without forms, choices are the options of a permission request.
_CHOICE_OPTION: Final = "choice:"


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
    is_allowed = decision in ("allow_once", "allow_always", "answered")
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": str(request_id),
        "status": "completed" if is_allowed else "failed",
    }


def _title(request: PermissionRequest, asker: str | None) -> str:
    title = one_line(request.question) or one_line(request.tool) or "permission"
    return title if asker is None else one_line(f"{asker}: {title}")


def _options(request: PermissionRequest) -> list[dict[str, str]]:
    if request.asks == "question":
        return [
            {"optionId": f"{_CHOICE_OPTION}{number}", "name": choice, "kind": "allow_once"}
            for number, choice in enumerate(request.choices)
        ]
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
    chosen = outcome.get("optionId")
    if request.asks == "question":
        numbered = enumerate(request.choices)
        choices = {f"{_CHOICE_OPTION}{number}": choice for number, choice in numbered}
        text = choices.get(chosen) if isinstance(chosen, str) else None
        return "dismissed" if text is None else QuestionAnswer(text)
    return next((one for one in request.options if one == chosen), "dismissed")


def form_params(
    request: PermissionRequest, *, session_id: str, asker: str | None = None
) -> dict[str, Any]:
    """Return the params of `elicitation/create` for a question."""
    choices = [{"const": one, "title": one} for one in request.choices]
    fields: dict[str, Any] = {_TEXT: {"type": "string", "title": "Answer"}}
    if choices:
        fields = {
            _CHOICE: {"type": "string", "title": "Answer", "oneOf": choices},
            _TEXT: {"type": "string", "title": "Another answer"},
        }
    return {
        "mode": "form",
        "sessionId": session_id,
        "message": _title(request, asker),
        "requestedSchema": {
            "type": "object",
            "properties": fields,
            "required": [] if choices else [_TEXT],
        },
    }


def read_form(answer: object) -> ClientAnswer:
    """Return the answer in the answer to `elicitation/create`; without a text it is dismissed."""
    fields = as_mapping(answer)
    content = as_mapping(fields.get("content"))
    texts = [as_text(content.get(name)) for name in (_TEXT, _CHOICE)]
    given = next((text for text in texts if text is not None and text.strip()), None)
    if fields.get("action") != "accept" or given is None:
        return "dismissed"
    return QuestionAnswer(given)
