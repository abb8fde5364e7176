"""What becomes of the agent that a session has, and of what it remembers of us."""

from __future__ import annotations

import functools
from typing import Final

import attrs

from supervisor.core.facts import Body, Changes, Fact
from supervisor.core.session import Agent, Capabilities, Failure, Phase, Remembered, Session


def agent_changed(session: Session, body: Body) -> Changes:
    """What of a `session_changed` is about its agent."""
    if "agent_gone" in body:
        return no_agent(session)
    if "agent_session_id" in body:
        return {"remembered": _named(session, body["agent_session_id"])}
    if "auth" in body:
        return {"remembered": _remembered(session, auth=body["auth"])}
    return {}


def no_agent(session: Session) -> Changes:
    """Whoever waited to be told who we are is gone too; the name of the conversation stays."""
    return {"agent": None, "remembered": _remembered(session, auth=None)}


def _remembered(session: Session, *, auth: str | None) -> Remembered | None:
    known = session.remembered or Remembered()
    if known.session_id is None and auth is None:
        return None
    return attrs.evolve(known, auth=auth)


def _named(session: Session, named: str | None) -> Remembered:
    """By that name an agent knows the conversation; under another one it begins to count anew."""
    known = session.remembered
    if known is not None and known.session_id == named:
        return attrs.evolve(known, auth=None)
    return Remembered(named, cost_before=session.usage.cost or None)


def agent_attached(session: Session, body: Body, _: Fact) -> Changes:
    able = body["capabilities"]
    capabilities = _capabilities(
        able["steering"], able["cancels_calls"], able["loads_sessions"], tuple(able["ladder"])
    )
    named = body["agent_session_id"]
    return {
        "agent": _agent(capabilities, named, body["pid"]),
        "remembered": _remembered(session, auth=None) if named is None else _named(session, named),
    }


# There are as many as there are kinds of agents, and as many agents as there are sessions.
_capabilities: Final = functools.lru_cache(maxsize=256)(Capabilities)
_agent: Final = functools.lru_cache(maxsize=256)(Agent)


def agent_restarting(session: Session, body: Body, _: Fact) -> Changes:
    return {
        "phase": Phase.RESTARTING,
        **no_agent(session),
        "last_failure": Failure(**body["failure"]),
        "restarts": session.restarts + 1,
        "recent_restarts": tuple(body["recent"]),
    }


def untold(session: Session) -> Changes:
    """Somebody else has put a message into the history: who knows the conversation missed that."""
    known = session.remembered
    if known is None or known.session_id is None:
        return {}
    return {"remembered": attrs.evolve(known, untold=(known.untold or 0) + 1)}
