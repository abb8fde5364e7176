"""Folds of the records about the agent of a session and its options."""

from __future__ import annotations

import functools
from typing import Final

import attrs

from .agent_options import AgentOption, changed_wishes, with_current
from .facts import Fact
from .records import Body, Changes
from .state import Agent, Capabilities, Failure, Phase, SavedAgent, SessionState


def agent_changed(session: SessionState, body: Body) -> Changes:
    """Return the changes of a `session_changed` record that concern the agent."""
    if "agent_gone" in body:
        return no_agent(session)
    if "agent_session_id" in body:
        return {"remembered": _with_session_id(session, body["agent_session_id"])}
    if "auth" in body:
        return {"remembered": _with_authentication(session, auth=body["auth"])}
    return {}


def no_agent(session: SessionState) -> Changes:
    """Return the changes when the agent has exited; the id of its conversation is kept."""
    return {"agent": None, "remembered": _with_authentication(session, auth=None)}


def _with_authentication(session: SessionState, *, auth: str | None) -> SavedAgent | None:
    known = session.remembered or SavedAgent()
    if known.session_id is None and auth is None:
        return None
    return attrs.evolve(known, auth=auth)


def _with_session_id(session: SessionState, named: str | None) -> SavedAgent:
    """Return the saved agent for a conversation id.

    A new id also stores the session's cost so far.
    """
    known = session.remembered
    if known is not None and known.session_id == named:
        return attrs.evolve(known, auth=None)
    return SavedAgent(named, cost_before=session.usage.cost or None)


def agent_attached(session: SessionState, body: Body, _: Fact) -> Changes:
    able = body["capabilities"]
    capabilities = _capabilities(
        able["steering"], able["cancels_calls"], able["loads_sessions"], tuple(able["ladder"])
    )
    named = body["agent_session_id"]
    return {
        "agent": _agent(capabilities, named, body["pid"]),
        "remembered": _with_authentication(session, auth=None)
        if named is None
        else _with_session_id(session, named),
    }


# There are as many capabilities as kinds of agents, and as many agents as sessions.
_capabilities: Final = functools.lru_cache(maxsize=256)(Capabilities)

_agent: Final = functools.lru_cache(maxsize=256)(Agent)


def agent_restarting(session: SessionState, body: Body, _: Fact) -> Changes:
    return {
        "phase": Phase.RESTARTING,
        **no_agent(session),
        "last_failure": Failure(**body["failure"]),
        "restarts": session.restarts + 1,
        "recent_restarts": tuple(body["recent"]),
    }


def options_changed(session: SessionState, body: Body, _: Fact) -> Changes:
    changes: Changes = {}
    offered = session.offered
    if "offered" in body:
        offered = _offer(tuple(_option(option) for option in body["offered"]))
        changes |= {"offered": offered, "knows_offer": True}
    if "current" in body:
        changes["offered"] = offered = _offer(with_current(offered, body["current"]))
    if "options" in body:
        changes["options"] = changed_wishes(session.options, body["options"], offered)
    return changes


def _option(body: Body) -> AgentOption:
    return AgentOption(**{**body, "values": tuple(body["values"])})


@functools.lru_cache(maxsize=256)
def _offer(offered: tuple[AgentOption, ...]) -> tuple[AgentOption, ...]:
    return offered  # the first of all equal offers, so that sessions of an agent share it
