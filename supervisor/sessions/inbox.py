"""Inbox: the pending permission requests and questions of all sessions, the oldest first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from supervisor.core.errors import PermissionConflict, PermissionNotFound, short_repr
from supervisor.core.ids import RequestId, SessionId, TurnId
from supervisor.core.session_values import Decision, RequestKind

if TYPE_CHECKING:
    from supervisor.core.facts import AnyRecord
    from supervisor.core.state import SessionState

# Number of answered requests remembered, to tell a second answer from an unknown id.
MAX_ANSWERED: Final = 10_000
# The record kinds that `Inbox.apply` handles.
REQUEST_KINDS: Final = frozenset({"permission_asked", "permission_answered"})


@attrs.frozen
class PermissionRequest:
    """A permission request of an agent that waits for a decision, or a question for a text."""

    id: RequestId
    session_id: SessionId
    turn_id: TurnId
    tool: str
    question: str
    input: Mapping[str, Any] | None
    options: tuple[Decision, ...]
    asked_at: float
    expires_at: float | None = None  # then it is rejected once; None: it waits for an answer
    asks: RequestKind = "permission"
    # Of a question, which has no options: answers to choose from; any other text answers it too.
    choices: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Return what it asks, on behalf of which tool."""
        return self.question if self.asks == "question" else f"{self.tool}: {self.question}"


@attrs.frozen
class AnsweredRequest:
    """A request that was answered or cancelled, by the record with number `seq`."""

    session_id: SessionId
    seq: int
    decision: str


class Inbox:
    """Pending permission requests, derived only from published records.

    `wall_time_of` converts steady time, which records have, to wall time, for people.
    """

    def __init__(self, wall_time_of: Callable[[float | None], float | None]) -> None:
        self._wall_time_of = wall_time_of
        self._pending: dict[RequestId, PermissionRequest] = {}
        self._answered: OrderedDict[RequestId, AnsweredRequest] = OrderedDict()

    def apply(self, record: AnyRecord) -> None:
        """Add or remove a request by a permission_asked or permission_answered record."""
        body = record.body
        request_id = RequestId(body["request_id"])
        if record.kind == "permission_asked":
            assert record.turn_id is not None
            self._pending[request_id] = PermissionRequest(
                id=request_id,
                session_id=record.session_id,
                turn_id=record.turn_id,
                tool=body["tool"],
                question=body["question"],
                input=body["input"],
                options=tuple(body["options"]),
                asked_at=record.at,
                expires_at=body.get("expires_at"),
                asks=body.get("kind", "permission"),
                choices=tuple(body.get("choices", ())),
            )
            return
        self._pending.pop(request_id, None)
        self._answered[request_id] = AnsweredRequest(
            record.session_id, record.seq, body["decision"]
        )
        if len(self._answered) > MAX_ANSWERED:
            self._answered.popitem(last=False)

    def prune(self, session: SessionState) -> None:
        """Drop requests of the session that are not in its row.

        The incarnation that ended those requests has exited before it published their end.
        """
        asks = {request.id for request in session.turn.requests} if session.turn else set()
        for request in self.pending():
            if request.session_id == session.id and request.id not in asks:
                del self._pending[request.id]

    def pending(self) -> tuple[PermissionRequest, ...]:
        """Return all pending requests, the oldest first."""
        return tuple([self._shown(request) for request in self._pending.values()])

    def _shown(self, request: PermissionRequest) -> PermissionRequest:
        if request.expires_at is None:
            return request
        return attrs.evolve(request, expires_at=self._wall_time_of(request.expires_at))

    def decision_of(self, request_id: RequestId) -> str | None:
        """Return the decision on a request that was answered a while ago, or None."""
        answered = self._answered.get(request_id)
        return None if answered is None else answered.decision

    def find_answered(self, request_id: RequestId) -> AnsweredRequest | None:
        """Return a request that was answered or cancelled a while ago, or None."""
        return self._answered.get(request_id)

    def is_pending(self, request_id: RequestId) -> bool:
        """Return True if the request waits."""
        return request_id in self._pending

    def find(self, request_id: str) -> PermissionRequest:
        """Return the pending request with that id.

        Raise PermissionConflict if it is already answered, and PermissionNotFound if it is unknown.
        """
        waiting = self._pending.get(RequestId(request_id))
        if waiting is not None:
            return waiting
        decision = self.decision_of(RequestId(request_id))
        if decision is not None:
            raise PermissionConflict(
                f"request {request_id} is already answered: {decision}",
                hint="the first answer counts; interrupt the turn to stop the allowed action",
            )
        raise PermissionNotFound(
            f"no pending request {short_repr(request_id)}",
            hint="list the pending requests; an interrupted turn cancels its requests",
        )
