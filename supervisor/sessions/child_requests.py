"""Requests of the descendants of a session, and its answers to them."""

from __future__ import annotations

from supervisor.core import events as ev
from supervisor.core.errors import InvalidDecision, PermissionDenied, short_repr
from supervisor.core.permissions import may_allow
from supervisor.core.state import Decision, SessionState

from .admission import Admission
from .inbox import PermissionRequest
from .router import SessionRouter
from .services import Services


class ChildRequests:
    """What a session with `answers_for_children` may answer, and with what."""

    def __init__(self, services: Services, admission: Admission, router: SessionRouter) -> None:
        self._services = services
        self._admission = admission
        self._router = router

    def pending(self, session: SessionState) -> list[PermissionRequest]:
        """Return the requests and questions of descendants that the session may answer."""
        if not session.terms.answers_for_children:
            return []
        return [
            asked
            for asked in self._services.inbox.pending()
            if self._admission.is_descendant(asked.session_id, session.id)
        ]

    async def answer_request(
        self, session: SessionState, request_id: str, decision: Decision
    ) -> None:
        """Answer a descendant's request, if the session itself has the permission.

        Raise PermissionDenied if it has not, and InvalidDecision if the request does not offer the
        decision.
        """
        asked = self._find(session, request_id)
        if asked.asks == "question":
            raise InvalidDecision(f"request {asked.id} is a question", hint="answer it with a text")
        if decision not in asked.options:
            raise InvalidDecision(
                f"request {asked.id} does not offer {short_repr(decision)}",
                hint=f"choose one of {', '.join(asked.options)}",
            )
        allows = decision in ("allow_once", "allow_always")
        if allows and not may_allow(session.permissions, session.rules, asked.tool):
            raise PermissionDenied(
                f"session {session.id} may not allow {asked.tool!r}: it needs permission itself",
                hint="reject the request, or let a person answer it",
            )
        event = ev.RequestAnswered(
            request=asked.id, decision=decision, by="parent", **self._services.stamp()
        )
        await self._router.ask(asked.session_id, event, urgent=True)

    async def answer_question(self, session: SessionState, request_id: str, text: str) -> None:
        """Answer a descendant's question; a text grants nothing that needs a permission.

        Raise PermissionDenied if the session may not answer it, and InvalidDecision if the request
        is not a question.
        """
        asked = self._find(session, request_id)
        event = ev.QuestionAnswered(
            request=asked.id, text=text, by="parent", **self._services.stamp()
        )
        await self._router.ask(asked.session_id, event, urgent=True)

    def _find(self, session: SessionState, request_id: str) -> PermissionRequest:
        asked = self._services.inbox.find(request_id)
        is_below = self._admission.is_descendant(asked.session_id, session.id)
        if not session.terms.answers_for_children or not is_below:
            raise PermissionDenied(
                f"session {session.id} may not answer request {request_id}",
                hint="the request must be of a descendant, and needs answers_for_children=True",
            )
        return asked
