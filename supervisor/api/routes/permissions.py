"""What waits for a person, and the answers that were given for always."""

from __future__ import annotations

from supervisor.api.describing.forms import form_of
from supervisor.api.describing.operations import Call, NotThere, operation
from supervisor.core.errors import (
    InputRefused,
    InvalidDecision,
    PermissionConflict,
    PermissionNotFound,
    SessionNotFound,
    StoreDegraded,
)
from supervisor.core.session import PermissionRule
from supervisor.sessions.inbox import PermissionRequest
from supervisor.sessions.surface.shapes import Page
from supervisor.sessions.surface.supervisor import Supervisor


@operation("GET", "/v1/permissions")
async def permissions(call: Call) -> Page[PermissionRequest]:
    """What waits for a decision, over all sessions, the oldest first."""
    return Page(await call.sup.permissions(), None)


@operation(
    "POST",
    "/v1/permissions/{request}",
    form_of(Supervisor.answer, only=("decision",), kinds={"decision": str}),
    status=204,
    raises=(PermissionNotFound, PermissionConflict, InvalidDecision, StoreDegraded),
)
async def answer(call: Call) -> None:
    """Decide what waits."""
    await call.sup.answer(call.ids["request"], call.given["decision"])


@operation("GET", "/v1/sessions/{id}/rules", raises=(SessionNotFound,))
async def rules(call: Call) -> Page[PermissionRule]:
    """The answers that were given for always."""
    return Page(tuple(await call.session.rules()), None)


@operation(
    "DELETE",
    "/v1/sessions/{id}/rules/{rule}",
    status=204,
    raises=(SessionNotFound, InputRefused, StoreDegraded),
)
async def remove_rule(call: Call) -> None:
    """Take such an answer back."""
    try:
        await call.session.remove_rule(call.ids["rule"])
    except InputRefused as error:
        raise NotThere(error) from None
