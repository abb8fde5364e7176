"""What the tools of agents and assistants need besides the handles."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor.config import Settings
from supervisor.core import events as ev
from supervisor.core.errors import SupervisorError
from supervisor.core.ids import SessionId
from supervisor.store.port import Hit

from .every_session import EverySession
from .parts import Parts
from .questions import SessionQuestions
from .session_inbox import SessionInbox
from .subtree import Subtree
from .tool_search import search_sessions


class ToolAccess:
    """The subtrees of sessions, and the record of each call of a tool."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def subtree(self, session_id: SessionId) -> Subtree:
        """Return the part of a tree that the agent of this session may reach."""
        return Subtree(self._parts, session_id)

    def every_session(self) -> EverySession:
        """Return all sessions, for the assistant of a person."""
        return EverySession(self._parts)

    async def search(
        self,
        words: str,
        session_ids: Sequence[SessionId] | None,
        *,
        before: int | None,
        limit: int,
    ) -> list[Hit]:
        """Return messages with all words, the newest first; in these sessions, or with None in all.

        `before` is the position of the last hit of the page before.
        """
        store = self._parts.services.store
        if session_ids is None:
            return await store.search(words, before=before, limit=limit)
        return await search_sessions(store, words, session_ids, before=before, limit=limit)

    def questions(self, session_id: SessionId) -> SessionQuestions:
        """Return the questions that the agent of this session asks people."""
        return SessionQuestions(self._parts, session_id)

    def inbox(self, session_id: SessionId) -> SessionInbox:
        """Return the requests that the agent of this session may answer for its descendants."""
        return SessionInbox(self._parts, session_id)

    def may_answer(self, session_id: SessionId) -> bool:
        """Return True if the session is live and was given the right to answer for its children."""
        slot = self._parts.registry.find_slot(session_id)
        state = None if slot is None else slot.session
        return state is not None and state.terms.answers_for_children

    @property
    def settings(self) -> Settings:
        """The current settings; another object after a reload that changed one."""
        return self._parts.services.settings()

    def make_call_event(
        self,
        *,
        caller: str,
        tool: str,
        outcome: str,
        target: SessionId | None,
        seconds: float,
        refused: int,
    ) -> ev.ToolCalled:
        """Return the event of a call that is over."""
        return ev.ToolCalled(
            caller=caller,
            tool=tool,
            outcome=outcome,
            target=target,
            seconds=seconds,
            refused=refused,
            **self._parts.services.stamp(),
        )

    async def record_call(self, session_id: SessionId, call: ev.ToolCalled) -> None:
        """Record a call in a session; return when the record is durable.

        While the store is degraded, or if the session is stopped or suspended by now, the record
        follows later: a call that reduces activity must not fail for it.
        """
        if self._parts.registry.is_live_or_starting(session_id):
            try:
                await self._parts.router.ask(session_id, call, urgent=True)
            except SupervisorError:
                pass
            else:
                return
        self.record_call_later(session_id, call)

    def record_call_later(self, session_id: SessionId, call: ev.ToolCalled) -> None:
        """Record a call when the session can; used where nothing may be awaited."""
        self._parts.router.tell_eventually(session_id, call)

    def mark_progress(self, session_id: SessionId) -> None:
        """Record that the agent of the session has called a tool, which is progress of its turn."""
        slot = self._parts.registry.find_slot(session_id)
        if slot is not None:
            slot.mark_progress()
