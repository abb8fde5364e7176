"""The questions that the agent of one session asks people, for the tools of agents.

Rule 1: a question belongs to the running turn, and ends with it.
Rule 2: how it ended is read from its record, so every caller that asks gets the same.
"""

from __future__ import annotations

from typing import Literal

import attrs

from supervisor.core import events as ev
from supervisor.core.errors import NotRunning, PermissionNotFound, short_repr
from supervisor.core.ids import RequestId, SessionId
from supervisor.core.state import SessionState

from .parts import Parts


@attrs.frozen
class QuestionEnd:
    """How a question ended; `by` is a person, the parent, a timeout or the end of the turn."""

    outcome: Literal["answered", "cancelled"]
    by: str
    text: str | None = None


class SessionQuestions:
    """The questions of one session."""

    def __init__(self, parts: Parts, session_id: SessionId) -> None:
        self._parts = parts
        self._services = parts.services
        self._id = session_id

    async def ask(self, question: str, choices: tuple[str, ...] = ()) -> RequestId:
        """Put a question into the inbox, and return its id when it is durable.

        The same question, while it is open, is one question. Raise NotRunning without a turn that
        runs on.
        """
        turn = (await self._parts.registry.row(self._id)).turn
        if turn is None:
            raise NotRunning(
                f"no turn of session {self._id} runs",
                hint="a question belongs to a running turn: wait for the next input",
            )
        event = ev.QuestionAsked(
            turn=turn.id,
            question_id=RequestId(self._services.ids.new("req")),
            question=question,
            choices=choices,
            **self._services.stamp(),
        )
        asked = await self._parts.router.ask(self._id, event, urgent=True)
        assert isinstance(asked, str)
        return RequestId(asked)

    async def wait(self, request_id: str) -> QuestionEnd:
        """Return when a question of this session has ended, and how.

        Raise PermissionNotFound for a request of another session as for one that never was.
        """
        state = await self._parts.registry.row(self._id)
        if _is_open(state, request_id):
            await self._parts.registry.wait_until(
                self._id, lambda state: not _is_open(state, request_id)
            )
        elif not self._has_ended(request_id):
            raise PermissionNotFound(
                f"you have no question {short_repr(request_id)}",
                hint="ask again: questions end with their turn, and old ones are forgotten",
            )
        return await self._end(RequestId(request_id))

    def _has_ended(self, request_id: str) -> bool:
        found = self._services.inbox.find_answered(RequestId(request_id))
        return found is not None and found.session_id == self._id

    async def _end(self, request_id: RequestId) -> QuestionEnd:
        found = self._services.inbox.find_answered(request_id)
        if found is None:  # the incarnation that ended it has exited before it said so
            return QuestionEnd("cancelled", "turn")
        records = await self._services.store.records(self._id, after=found.seq - 1, limit=1)
        if not records or records[0].seq != found.seq:
            return QuestionEnd("cancelled", "turn")
        body = records[0].body
        if body["decision"] == "answered":
            return QuestionEnd("answered", body["by"], body["text"])
        return QuestionEnd("cancelled", body["by"])


def _is_open(state: SessionState, request_id: str) -> bool:
    requests = () if state.turn is None else state.turn.requests
    return any(one.id == request_id and one.kind == "question" for one in requests)
