"""Refusals that are said in more than one place, in the same words."""

from __future__ import annotations

from collections.abc import Collection

from supervisor.core.errors import AgentUnknown, SessionNotActive, SessionNotFound, StoreDegraded
from supervisor.core.ids import SessionId
from supervisor.store.writer.health import Health


def did_not_answer(session_id: SessionId, problem: Exception | None) -> SessionNotActive:
    """Nobody knows whether it was done."""
    return SessionNotActive(
        f"session {session_id} did not answer: {problem}",
        hint="what was accepted is kept; look at the log, then try again",
    )


def problem_of_agent(name: str, agents: Collection[str]) -> AgentUnknown | None:
    """Why no agent of that name can be started, if nobody has given us one."""
    if name in agents:
        return None
    return AgentUnknown(
        f"no agent is called {name!r}", hint=f"there are: {', '.join(sorted(agents))}"
    )


def has_left() -> SessionNotActive:
    """There is no supervisor any more."""
    return SessionNotActive("the supervisor has left", hint="open it again")


def not_now(health: Health) -> StoreDegraded:
    """It met the store's trouble, and was taken back."""
    state = health.state
    return StoreDegraded(
        state.problem or "the store could not write it", hint=state.hint or "try again"
    )


def not_found(session_id: SessionId) -> SessionNotFound:
    """There is no such session."""
    return SessionNotFound(f"there is no session {session_id}", hint="list the sessions")
