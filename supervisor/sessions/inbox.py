"""What waits for a person: permissions and questions, over all sessions, the oldest first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import attrs

from supervisor.core.errors import PermissionConflict, PermissionNotFound, shown
from supervisor.core.ids import RequestId, SessionId, TurnId
from supervisor.core.records import Record
from supervisor.core.session import Decision, Session

# So many answers are remembered, to tell who comes second from who is mistaken.
MAX_ANSWERED: Final = 10_000
# The kinds of records that an inbox takes.
KINDS_OF_REQUESTS: Final = frozenset({"permission_asked", "permission_answered"})


@attrs.frozen
class PermissionRequest:
    """Something an agent may not do before somebody has decided."""

    id: RequestId
    session_id: SessionId
    turn_id: TurnId
    tool: str
    question: str
    input: Mapping[str, Any] | None
    options: tuple[Decision, ...]
    asked_at: float


class Inbox:
    """Filled and emptied by what is published, so it never says more than the records do."""

    def __init__(self) -> None:
        self._waiting: dict[RequestId, PermissionRequest] = {}
        self._answered: OrderedDict[RequestId, str] = OrderedDict()

    def take(self, record: Record) -> None:
        """A request was made or answered."""
        body = record.body
        request_id = RequestId(body["request_id"])
        if record.kind == "permission_asked":
            assert record.turn_id is not None
            self._waiting[request_id] = PermissionRequest(
                id=request_id,
                session_id=record.session_id,
                turn_id=record.turn_id,
                tool=body["tool"],
                question=body["question"],
                input=body["input"],
                options=tuple(body["options"]),
                asked_at=record.at,
            )
            return
        self._waiting.pop(request_id, None)
        self._answered[request_id] = body["decision"]
        if len(self._answered) > MAX_ANSWERED:
            self._answered.popitem(last=False)

    def forget_others(self, session: Session) -> None:
        """What its row does not know is over: whoever wrote that has died before saying so."""
        asks = {request.id for request in session.turn.requests} if session.turn else set()
        for request in self.waiting():
            if request.session_id == session.id and request.id not in asks:
                del self._waiting[request.id]

    def waiting(self) -> tuple[PermissionRequest, ...]:
        """All that wait, the oldest first."""
        return tuple(self._waiting.values())

    def find(self, request_id: str) -> PermissionRequest:
        """The request of that id; raises `PermissionConflict` if it was answered already."""
        waiting = self._waiting.get(RequestId(request_id))
        if waiting is not None:
            return waiting
        decision = self._answered.get(RequestId(request_id))
        if decision is not None:
            raise PermissionConflict(
                f"request {request_id} was answered already: {decision}",
                hint="the first answer counts; interrupt the turn to stop what it allowed",
            )
        raise PermissionNotFound(
            f"no request {shown(request_id)} is waiting",
            hint="list the requests that wait; an interrupted turn cancels its own",
        )
