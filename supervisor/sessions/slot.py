"""Per-session state that outlives the session's actor, with the signs of its progress."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import trio

from actors import ActorStopped, MailboxFull, Ref
from supervisor.core.agent_events import ProgressMade
from supervisor.core.errors import SupervisorError
from supervisor.core.ids import SessionId
from supervisor.core.records import Delta
from supervisor.core.state import SessionState
from supervisor.drivers.port import BlockedOn
from supervisor.store.writer_messages import Claim

from .clock import ActiveClock
from .log import Log
from .services import Services
from .subscribers import StateCondition, StateWait, Subscribers
from .turn_buffer import TurnBuffer


class Progress:
    """The sessions that a turn waits for, what blocks its agent, and the end of the last turn."""

    __slots__ = (
        "_active_clock",
        "awaited_sessions",
        "awaiting_agents",
        "blocked_on",
        "is_asking_hooks",
        "turn_ended_at",
    )

    def __init__(self, active_clock: ActiveClock) -> None:
        self._active_clock = active_clock
        # End of the last turn, by the active clock: progress for a session that waits for it.
        self.turn_ended_at = -math.inf
        # Whether the turn waits for blocking hooks.
        self.is_asking_hooks = False
        # Sessions whose turns the agent waits for inside its own; None for none.
        self.awaited_sessions: list[SessionId] | None = None
        # Number of agents that wait for this session inside their turns.
        self.awaiting_agents = 0
        # Returns the reason why the agent's process cannot work; None without a process.
        self.blocked_on: Callable[[], BlockedOn | None] | None = None

    def mark_turn_ended(self) -> None:
        """Record that the turn has ended, or that its end has been reported."""
        self.turn_ended_at = self._active_clock.now()

    def add_awaited(self, other: SessionId) -> None:
        """Record that the agent waits for another session."""
        if self.awaited_sessions is None:
            self.awaited_sessions = []
        self.awaited_sessions.append(other)

    def remove_awaited(self, other: SessionId) -> None:
        """Record that the agent no longer waits for the other session."""
        assert self.awaited_sessions is not None
        self.awaited_sessions.remove(other)


class Recheck:
    """Message to a session actor: the tree around the session has changed."""


RECHECK: Final = Recheck()


class PendingStart:
    """A start of an actor in progress: an event for its end, and the error if it failed."""

    __slots__ = ("done", "error", "may_claim_in_memory")

    def __init__(self, *, may_claim_in_memory: bool) -> None:
        # Whether the actor may start while the store is degraded, to reduce activity.
        self.may_claim_in_memory = may_claim_in_memory
        self.done = trio.Event()
        self.error: Exception | None = None


class SessionSlot:
    """State of one session, kept while it has an actor, a start, a subscriber or a waiting agent.

    A waiting agent is one that waits for this session inside its own turn.
    """

    __slots__ = (
        "_services",
        "callers",
        "fence_error",
        "id",
        "is_stopping_idle",
        "log",
        "pending_start",
        "progress",
        "ref",
        "session",
        "subscribers",
    )

    def __init__(self, services: Services, session_id: SessionId) -> None:
        self._services = services
        self.id = session_id
        self.subscribers = Subscribers(services.publisher)
        self.progress = Progress(services.active_clock)
        # The actor, from before its start until its exit is known.
        self.ref: Ref | None = None
        # Why the actor exited by itself: another supervisor has claimed the session.
        self.fence_error: SupervisorError | None = None
        # Set by the actor when it stops because it is idle: it takes no more messages.
        self.is_stopping_idle = False
        # The start under way, for which every caller that needs the actor waits.
        self.pending_start: PendingStart | None = None
        # Number of callers that wait for the start; the actor does not stop idle before they ask.
        self.callers = 0
        # The state as of the last commit, while there is an actor.
        self.session: SessionState | None = None
        self.log: Log | None = None

    @property
    def is_in_use(self) -> bool:
        """Whether the slot has an actor, a start, a subscriber or a waiting agent."""
        return bool(
            self.ref or self.pending_start or self.subscribers or self.progress.awaiting_agents
        )

    # From the actor -----------------------------------------------------------------------

    def claim(self) -> Claim:
        """Return the request that claims the session for a new incarnation."""
        start = self.pending_start  # None for a restart of the actor
        return Claim(self.id, in_memory=start is not None and start.may_claim_in_memory)

    def adopt(self, session: SessionState) -> None:
        """Take over the state of a committed step."""
        before, self.session = self.session, session
        if session.turn is None and before is not None and before.turn is not None:
            self.progress.mark_turn_ended()
        self.subscribers.adopt(before, session)

    def mark_progress(self) -> None:
        """Record progress of the turn; if the turn was reported silent, notify the actor."""
        log = self.log
        if log is not None and log.turn_buffer is not None:
            output = log.turn_buffer
            output.progress_at = self._services.active_clock.now()
            if output.is_reported_silent:
                self._report_progress(output)

    def _report_progress(self, output: TurnBuffer) -> None:
        """Notify the actor of progress after silence."""
        session = self.session
        output.is_reported_silent = False
        if session is not None and session.turn is not None and self.ref is not None:
            event = ProgressMade(turn=session.turn.id, **self._services.stamp())
            try:
                self.ref.tell(event, urgent=True)
            except MailboxFull:
                output.is_reported_silent = True  # tell with the next progress
            except ActorStopped:
                pass

    @property
    def has_actor(self) -> bool:
        """Whether there is an actor that takes messages; not one that stops because it is idle."""
        return self.ref is not None and not self.is_stopping_idle

    def clear(self, error: SupervisorError | None = None) -> None:
        """Drop the state of an actor that exited; with an error, fail all waits."""
        self.ref = self.session = self.log = None
        self.is_stopping_idle = False
        self.fence_error = None
        self.subscribers.clear(error)

    def close(self, error: SupervisorError) -> None:
        """End all subscribers, because the session is deleted or the supervisor is closed."""
        self.clear(error)
        self.subscribers.end_watchers()

    # From handles -------------------------------------------------------------------------

    def add_wait(self, condition: StateCondition) -> StateWait:
        """Return a wait for the condition, settled at once if the current state meets it."""
        return self.subscribers.add_wait(condition, self.session)

    def partial_delta(self) -> Delta | None:
        """Return the streamed text of the open record; None without one."""
        return self.log.partial_delta() if self.log is not None else None
