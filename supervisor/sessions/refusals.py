"""Errors that several modules raise: no reply, unknown agent or session, closed, degraded."""

from __future__ import annotations

from supervisor.core.agent_list import agent_unknown
from supervisor.core.errors import (
    AgentStartFailed,
    AgentUnknown,
    SessionNotActive,
    SessionNotFound,
    StoreDegraded,
)
from supervisor.core.ids import SessionId
from supervisor.core.state import Phase, SessionState
from supervisor.store.pending import StoreHealth

from .agents_cell import AgentsCell


def no_reply(session_id: SessionId, problem: Exception | None) -> SessionNotActive:
    """Return the error for a request whose outcome is unknown."""
    return SessionNotActive(
        f"session {session_id} did not answer: {problem}",
        hint="accepted inputs are stored; read the log, then try again",
    )


def unknown_agent_problem(name: str, agents: AgentsCell) -> AgentUnknown | None:
    """Return the error for an agent name that is not registered; None if it can be used."""
    known = agents.look_for(name)
    return None if name in known else agent_unknown(name, known, agents.install_hints())


def supervisor_closed() -> SessionNotActive:
    """Return the error for a call to a closed supervisor."""
    return SessionNotActive("the supervisor is closed", hint="open it again")


def store_degraded(health: StoreHealth) -> StoreDegraded:
    """Return the error for a write withdrawn because the store is degraded."""
    state = health.state
    return StoreDegraded(state.problem or "the store cannot write", hint=state.hint or "try again")


def session_not_found(session_id: SessionId) -> SessionNotFound:
    """Return the error for a session that does not exist."""
    return SessionNotFound(f"session {session_id} does not exist", hint="list the sessions")


def refuse_failed_start(session: SessionState) -> None:
    """Raise AgentStartFailed if the session stopped because its agent did not start."""
    if session.phase is Phase.STOPPED and session.stop_reason == "start_failed":
        raise AgentStartFailed(
            f"the agent of session {session.id} did not start: {session.stop_detail}",
            hint="fix the cause, then resume the session",
        )
