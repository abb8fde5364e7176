"""Operations on permission requests, questions and permission rules."""

from __future__ import annotations

from supervisor.api.operation import NotFound, operation
from supervisor.api.params import OperationCall, body_params_of
from supervisor.core.errors import (
    InputRefused,
    InputTooLarge,
    InvalidDecision,
    PermissionConflict,
    PermissionNotFound,
    SessionNotFound,
    StoreDegraded,
)
from supervisor.core.state import PermissionRule
from supervisor.handles.shapes import Page
from supervisor.handles.supervisor import Supervisor
from supervisor.sessions.inbox import PermissionRequest


@operation("GET", "/v1/permissions")
async def permissions(call: OperationCall) -> Page[PermissionRequest]:
    """List the pending permission requests and questions of all sessions, oldest first."""
    return Page(await call.sup.permissions(), None)


@operation(
    "POST",
    "/v1/permissions/{request}",
    body_params_of(Supervisor.answer, only=("decision",), kinds={"decision": str}),
    status=204,
    raises=(PermissionNotFound, PermissionConflict, InvalidDecision, StoreDegraded),
)
async def answer(call: OperationCall) -> None:
    """Answer a permission request."""
    await call.sup.answer(call.path_ids["request"], call.arguments["decision"])


@operation(
    "POST",
    "/v1/questions/{request}",
    body_params_of(Supervisor.answer_question, only=("text",)),
    status=204,
    raises=(
        PermissionNotFound,
        PermissionConflict,
        InvalidDecision,
        InputRefused,
        InputTooLarge,
        StoreDegraded,
    ),
)
async def answer_question(call: OperationCall) -> None:
    """Answer a question of an agent with a text."""
    await call.sup.answer_question(call.path_ids["request"], call.arguments["text"])


@operation("GET", "/v1/sessions/{id}/rules", raises=(SessionNotFound,))
async def rules(call: OperationCall) -> Page[PermissionRule]:
    """List the permission rules of a session."""
    return Page(tuple(await call.session.rules()), None)


@operation(
    "DELETE",
    "/v1/sessions/{id}/rules/{rule}",
    status=204,
    raises=(SessionNotFound, InputRefused, StoreDegraded),
)
async def remove_rule(call: OperationCall) -> None:
    """Remove a permission rule."""
    try:
        await call.session.remove_rule(call.path_ids["rule"])
    except InputRefused as error:
        raise NotFound(error) from None
