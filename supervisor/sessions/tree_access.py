"""Access of an agent to the descendants of its session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from supervisor.core import events as ev
from supervisor.core.creation import SpawnOptions
from supervisor.core.errors import BudgetSpent, PermissionDenied, short_repr
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.state import Decision, SessionState, Usage
from supervisor.drivers.port import ChildHandle, ChildRequest, TurnHandle

from .admission import Admission
from .child_requests import ChildRequests
from .router import SessionRouter
from .services import Services
from .workspaces import Workspaces

# Make the handle of a session for the agent of an ancestor, valid during a turn.
MakeChild: TypeAlias = Callable[[SessionId, SessionId, TurnHandle], ChildHandle]
# Spawn a child of a session in a turn: agent, text, options.
SpawnChild: TypeAlias = Callable[
    [SessionId, TurnHandle, str, str, SpawnOptions], Awaitable[ChildHandle]
]


class TreeAccess:
    """Spawns, handles, requests and usage of an agent, limited to its session and descendants."""

    def __init__(
        self,
        services: Services,
        admission: Admission,
        router: SessionRouter,
        *,
        child: MakeChild,
        spawn: SpawnChild,
        workspaces: Workspaces,
    ) -> None:
        self._services = services
        self._admission = admission
        self._router = router
        self._requests = ChildRequests(services, admission, router)
        self._child = child
        self._spawn = spawn
        self.workspaces = workspaces

    async def spawn(
        self,
        session_id: SessionId,
        turn: TurnHandle,
        agent: str,
        text: str,
        options: SpawnOptions,
    ) -> ChildHandle:
        """Spawn a child of the session; raise SpawnRefused if a limit or permission forbids it."""
        return await self._spawn(session_id, turn, agent, text, options)

    def descendant(
        self, session_id: SessionId, turn: TurnHandle, descendant_id: str
    ) -> ChildHandle:
        """Return the handle of a descendant; raise PermissionDenied for any other session."""
        if not self._admission.is_descendant(descendant_id, session_id):
            raise PermissionDenied(
                f"{short_repr(descendant_id)} is not a descendant of session {session_id}",
                hint="an agent may only use sessions that it or its descendants have spawned",
            )
        return self._child(SessionId(descendant_id), session_id, turn)

    def record_usage(self, session_id: SessionId, turn: TurnId, usage: Usage) -> None:
        """Count usage of a turn; raise BudgetSpent if a budget was exhausted before."""
        budgets = self._admission.budgets
        spent = budgets.exhausted_budget(session_id)
        if spent is not None:
            raise BudgetSpent(
                f"session {session_id} has exhausted a budget: {spent}",
                hint="the turn is being interrupted; return from the agent's function",
                limit=spent.limit,
                used=spent.used,
                allowed=spent.allowed,
            )
        budgets.record_usage(session_id, turn, usage)

    def requests(self, session: SessionState) -> list[ChildRequest]:
        """Return the pending permission requests of descendants that the session may answer."""
        return [
            ChildRequest(asked.id, asked.session_id, asked.tool, asked.question, asked.options)
            for asked in self._requests.pending(session)
            if asked.asks == "permission"
        ]

    async def answer_request(
        self, session: SessionState, request_id: str, decision: Decision
    ) -> None:
        """Answer a descendant's request, if the session itself has the permission."""
        await self._requests.answer_request(session, request_id, decision)

    def tell_if_live(self, session_id: SessionId, event: ev.Event) -> None:
        """Send the event to the session's actor; drop the event if the actor is not running."""
        self._router.tell_if_live(session_id, event)
