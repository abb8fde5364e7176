"""The requests that a caller of tools may answer: those of its descendants, or all.

Rule 1: a request outside and one that does not exist are the same.
"""

from __future__ import annotations

from typing import Protocol, get_args

from supervisor.core.errors import InvalidDecision, PermissionNotFound, short_repr
from supervisor.core.state import Decision
from supervisor.handles.supervisor import Supervisor
from supervisor.sessions.inbox import PermissionRequest


class CallersInbox(Protocol):
    """The requests that a caller may answer."""

    async def pending(self) -> list[PermissionRequest]:
        """Return the requests that wait, the oldest first."""

    async def answer(self, request: PermissionRequest, decision: Decision) -> None:
        """Answer a permission request, within the permissions of the caller."""

    async def answer_question(self, request: PermissionRequest, text: str) -> None:
        """Answer a question."""


class PeoplesInbox:
    """The requests of all sessions; answers are those of a person."""

    def __init__(self, sup: Supervisor) -> None:
        self._sup = sup

    async def pending(self) -> list[PermissionRequest]:
        """Return the requests that wait, the oldest first."""
        return list(await self._sup.permissions())

    async def answer(self, request: PermissionRequest, decision: Decision) -> None:
        """Answer a permission request."""
        await self._sup.answer(request.id, decision)

    async def answer_question(self, request: PermissionRequest, text: str) -> None:
        """Answer a question."""
        await self._sup.answer_question(request.id, text)


def find_request(pending: list[PermissionRequest], request_id: str) -> PermissionRequest:
    """Return the request with this id; any other is unknown, wherever it is."""
    for one in pending:
        if one.id == request_id:
            return one
    raise PermissionNotFound(
        f"no request {short_repr(request_id)} waits for you",
        hint="inbox lists them; the first answer counts, and the end of its turn cancels one",
    )


def check_decision(request: PermissionRequest, decision: str) -> Decision:
    """Return the decision; raise InvalidDecision unless it is one that the request offers."""
    if decision not in get_args(Decision) or decision not in request.options:
        raise InvalidDecision(
            f"request {request.id} does not offer {short_repr(decision)}",
            hint=f"choose one of {', '.join(request.options)}",
        )
    return decision
