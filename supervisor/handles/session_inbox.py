"""The requests that the agent of a session may answer for its descendants, for the tools."""

from __future__ import annotations

from supervisor.core.ids import SessionId
from supervisor.core.state import Decision
from supervisor.sessions.child_requests import ChildRequests
from supervisor.sessions.inbox import PermissionRequest

from .parts import Parts


class SessionInbox:
    """The requests of the descendants of a session; it answers as their parent."""

    def __init__(self, parts: Parts, session_id: SessionId) -> None:
        self._parts = parts
        self._id = session_id
        self._requests = ChildRequests(parts.services, parts.admission, parts.router)

    async def pending(self) -> list[PermissionRequest]:
        """Return the requests that wait, the oldest first; none without the right."""
        return self._requests.pending(await self._parts.registry.row(self._id))

    async def answer(self, request: PermissionRequest, decision: Decision) -> None:
        """Answer a permission request, within the permissions of the session."""
        session = await self._parts.registry.row(self._id)
        await self._requests.answer_request(session, request.id, decision)

    async def answer_question(self, request: PermissionRequest, text: str) -> None:
        """Answer a question."""
        session = await self._parts.registry.row(self._id)
        await self._requests.answer_question(session, request.id, text)
