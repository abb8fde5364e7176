"""The questions that agents have put and not read the end of, so that a repeated call goes on.

Rule 1: it holds questions of the running turn of each session only, and a bounded number of them.
Rule 2: what it has forgotten is asked again, or found by the id of the request.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from supervisor.core.ids import RequestId, SessionId

_MAX_SESSIONS: Final = 1_000
_MAX_EACH: Final = 32


class UnreadQuestions:
    """Requests by session, question and options."""

    def __init__(self) -> None:
        self._by_session: OrderedDict[SessionId, OrderedDict[tuple[str, ...], RequestId]] = (
            OrderedDict()
        )

    def find(self, session_id: SessionId, asked: tuple[str, ...]) -> RequestId | None:
        """Return the request of a question whose end was not read, or None."""
        return self._by_session.get(session_id, OrderedDict()).get(asked)

    def add(self, session_id: SessionId, asked: tuple[str, ...], request: RequestId) -> None:
        """Remember a question."""
        of_session = self._by_session.setdefault(session_id, OrderedDict())
        of_session[asked] = request
        self._by_session.move_to_end(session_id)
        if len(of_session) > _MAX_EACH:
            of_session.popitem(last=False)
        if len(self._by_session) > _MAX_SESSIONS:
            self._by_session.popitem(last=False)

    def remove(self, session_id: SessionId, request: str) -> None:
        """Forget a question, because its end was read."""
        of_session = self._by_session.get(session_id, OrderedDict())
        for asked in [one for one, known in of_session.items() if known == request]:
            del of_session[asked]
        if not of_session:
            self._by_session.pop(session_id, None)
