"""What the records of a session's life make of it: its making, its rest, its end, its return."""

from __future__ import annotations

import functools
from typing import TypeVar

import attrs

from supervisor.core.facts import Body, Changes, Fact
from supervisor.core.ids import SessionId, SessionKey
from supervisor.core.limits import Ladder, Limits, Restart
from supervisor.core.permissions import Permissions
from supervisor.core.session import Failure, Lineage, Phase, Session, Spending, Stopping, Terms

from .agent import agent_changed, no_agent
from .turn import in_turn

T = TypeVar("T")


def begin(session_id: SessionId, created: Fact) -> Session:
    """The session that a `session_created` fact begins."""
    body = created.body
    key = body["key"]
    return Session(
        id=session_id,
        agent_name=body["agent"],
        key=None if key is None else SessionKey.parse(key),
        kind=body["kind"],
        name=body["name"],
        title=body["title"],
        tags=tuple(body["tags"]),
        custom=body["custom"],
        workspace=body["workspace"],
        lineage=_shared(_lineage(body["lineage"])),
        created_at=created.at,
        updated_at=created.at,
        last_active_at=created.at,
        **_granted(body),
    )


def _lineage(body: Body) -> Lineage:
    above = body.get("above")
    return Lineage(**{**body, "above": None if above is None else tuple(above)})


def _granted(body: Body) -> Changes:
    """What a session may do."""
    terms = dict(body["terms"])
    terms["ladder"] = Ladder(**terms["ladder"])
    terms["restart"] = Restart(**terms["restart"])
    return {
        "terms": _shared(Terms(**terms)),
        "limits": None if body["limits"] is None else _shared(Limits(**body["limits"])),
        "permissions": _shared(Permissions(**body["permissions"])),
    }


@functools.lru_cache(maxsize=1_024)
def _equal(thing: object) -> object:
    return thing  # the first of those that are equal to it


def _shared(thing: T) -> T:
    """One object for all that are equal: most sessions may do the same, and stand below nobody.

    So it is kept once, and put into words once, for all of them.
    """
    return _equal(thing)  # type: ignore[return-value] # equal things are of one type


def session_changed(session: Session, body: Body, __: Fact) -> Changes:
    changes: Changes = {
        name: body[name]
        for name in ("title", "custom", "epoch", "zombie", "leaving")
        if name in body
    }
    if "tags" in body:
        changes["tags"] = tuple(body["tags"])
    if "limits" in body:
        changes["limits"] = Limits(**body["limits"])
    changes |= agent_changed(session, body)
    if "stopping" in body:
        changes["stopping"] = _stopping(body["stopping"])
        if not body["stopping"]["after_turn"]:
            changes["phase"] = Phase.STOPPING
    if "verdict" in body:
        changes["turn"] = in_turn(session, lambda turn: attrs.evolve(turn, verdict=body["verdict"]))
    if "news_read" in body:
        changes["family"] = attrs.evolve(session.family, news_read=body["news_read"])
    if "imported" in body:
        changes |= _come_in(session, body["imported"])
    if "deleted" in body:
        changes["family"] = attrs.evolve(
            session.family,
            deleted=session.family.deleted + Spending(**body["deleted"]["spent"]),
            deleted_spawns=session.family.deleted_spawns + body["deleted"]["spawns"],
        )
    return changes


def _come_in(session: Session, body: Body) -> Changes:
    """A session from elsewhere: what it may do is said here, and it stands by itself."""
    return {
        **_granted(body),
        "key": None,
        "workspace": None,
        "kind": "user" if session.kind == "spawned" else session.kind,
        "lineage": Lineage(),
        "rules": (),
        "phase": Phase.STOPPED,
        "stopping": None,
        "archived": False,
        "leaving": False,
        "agent": None,
        "remembered": None,
        "turn": None,
        "zombie": None,
        "inputs": (),
        "recent_restarts": (),
        "epoch": 0,
    }


def _stopping(body: Body) -> Stopping:
    failure = body["failure"]
    return Stopping(**{**body, "failure": None if failure is None else Failure(**failure)})


def session_started(_: Session, __: Body, ___: Fact) -> Changes:
    return {"phase": Phase.IDLE}


def session_suspended(session: Session, _: Body, __: Fact) -> Changes:
    return {"phase": Phase.SUSPENDED, "leaving": False, **no_agent(session)}


def session_resumed(session: Session, body: Body, __: Fact) -> Changes:
    return {
        # Whoever brings it back after a stop gives its agent all its chances again.
        "recent_restarts": session.recent_restarts if body["woken"] else (),
        "returns": session.returns + (not body["woken"]),
        "phase": Phase.IDLE if body["woken"] else Phase.STARTING,
        "stopping": None,
        "stop_reason": None,
        "stop_detail": None,
    }


def session_cleared(_: Session, body: Body, __: Fact) -> Changes:
    return {"chapter": body["chapter"], "rules": (), "remembered": None}


def session_archived(_: Session, body: Body, __: Fact) -> Changes:
    return {"archived": body["archived"]}


def session_stopped(session: Session, body: Body, _: Fact) -> Changes:
    failure = body["failure"]
    return {
        "phase": Phase.STOPPED,
        **no_agent(session),
        "leaving": False,
        "stop_reason": body["reason"],
        "stop_detail": body["detail"],
        "last_failure": session.last_failure if failure is None else Failure(**failure),
    }
