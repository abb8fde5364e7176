"""Notifications of parents about their children, and about refused spawns.

Rule 1: a notification stays queued until the parent has committed it, so that a parent that crashes
        meanwhile receives it in its next incarnation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from supervisor.core import agent_events
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.info import badge_of
from supervisor.core.state import Phase, SessionState
from supervisor.core.tree.node import TreeNode

from .registry import SessionRegistry
from .services import Services


@attrs.frozen
class Acknowledged:
    """Notifications about one child that its parent has recorded: its stop, its finished input."""

    stopped: bool = False
    task_done: bool = False
    # Number of resumes of the child that the parent has recorded.
    returns: int = 0


class ChildNotifications:
    """Queue of notifications for each parent."""

    def __init__(self, services: Services, registry: SessionRegistry) -> None:
        self._services = services
        self._registry = registry
        # Notifications that parents have not committed.
        self._pending: dict[SessionId, list[agent_events.ChildNews]] = {}
        # For each parent that commits some now, the number that it had committed before.
        self._offered: dict[SessionId, int] = {}

    def forget(self, session_id: SessionId) -> None:
        """Drop everything about a deleted session."""
        self._pending.pop(session_id, None)
        self._offered.pop(session_id, None)
        self._registry.forget_recheck(session_id)

    def notify_parent(self, parent: TreeNode, member: TreeNode, session: SessionState) -> None:
        """Queue notifications about the child's state that the parent has not received."""
        is_over, is_done = session.phase is Phase.STOPPED, session.family.outcome is not None
        if member.is_end_reported and not is_over:
            self._enqueue(parent, member, "started", session)
        if is_over and not member.is_end_reported:
            self._enqueue(parent, member, "over", session, was_done=member.is_result_reported)
        elif is_done and not member.is_result_reported:
            if session.phase is Phase.STOPPING:
                return  # the notification of its stop follows and contains both
            self._enqueue(parent, member, "done", session)
        member.is_end_reported, member.is_result_reported = is_over, is_done

    def _enqueue(
        self,
        parent: TreeNode,
        member: TreeNode,
        what: agent_events.NewsKind,
        session: SessionState,
        *,
        was_done: bool = False,
    ) -> None:
        over = what == "over"
        news = agent_events.ChildNews(
            kind=what,
            child=member.id,
            agent=member.agent,
            name=member.name,
            role=member.role,
            on_end=member.on_end,
            outcome=session.family.outcome,
            text=session.family.text,
            reason=session.stop_reason if over else None,
            detail=session.stop_detail if over else None,
            failed=over and badge_of(session) == "failed",
            was_reported_done=was_done,
        )
        self._pending.setdefault(parent.id, []).append(news)
        self._registry.wake(parent.id)

    @contextmanager
    def pending_for(self, session: SessionState) -> Iterator[agent_events.TreeChanged]:
        """Yield the event for a recheck; its notifications stay queued if the block raises."""
        session_id = session.id
        self._registry.begin_recheck(session_id)
        waiting = self._pending.get(session_id, [])
        # If an earlier incarnation crashed during the commit, the row may contain some of them.
        offered_at = self._offered.pop(session_id, session.family.news)
        del waiting[: session.family.news - offered_at]
        news = tuple(waiting)
        if news:
            self._offered[session_id] = session.family.news
        input_id = InputId(self._services.ids.new("in"))
        yield agent_events.TreeChanged(input=input_id, news=news, **self._services.stamp())
        self._offered.pop(session_id, None)
        rest = self._pending.pop(session_id, [])[len(news) :]
        if rest:
            self._pending[session_id] = rest
        self._registry.end_recheck(session_id)

    def notify_of_resume(self, parent: TreeNode, member: TreeNode, session: SessionState) -> None:
        """Queue a notification of the child's resume."""
        self._enqueue(parent, member, "started", session)
        member.is_end_reported = False


class SpawnRefusals:
    """The limits by which an agent was refused a child in its current turn."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[SessionId, tuple[TurnId, set[str]]] = {}

    def add(self, parent_id: SessionId, turn: TurnId, limit: str) -> bool:
        """Record a refusal; return True if it is the first by that limit in the turn."""
        known = self._refused.setdefault(parent_id, (turn, set()))
        if known[0] != turn:
            known = self._refused[parent_id] = (turn, set())
        if limit in known[1]:
            return False
        known[1].add(limit)
        return True

    def forget(self, session_id: SessionId) -> None:
        """Drop the refusals of a deleted session."""
        self._refused.pop(session_id, None)
