"""Facts: what the records say, and what each of them makes of the session.

Rule 1: a session changes only here. Whatever a rule decides it says as facts, and folding these
        is the new state; so folding the stored records gives the row, by construction.
Rule 2: a body is plain data that JSON can carry; `fold` needs nothing else.
Rule 3: folding never refuses. What was written down has happened.
Rule 4: what an agent puts out in mid-turn (text, thoughts, updates) changes no row: it is written
        while decisions wait for their commit, and must not get between them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

import attrs

from .ids import CallId, InputId, RequestId, SessionId, SessionKey, TurnId
from .limits import Ladder, Limits, Restart
from .permissions import Permissions
from .session import (
    Agent,
    Call,
    Capabilities,
    Failure,
    Lineage,
    PermissionRule,
    Phase,
    Remembered,
    Request,
    Session,
    Spending,
    Stopping,
    Terms,
    Turn,
    Usage,
    Waiting,
)

DecidedKind: TypeAlias = Literal[
    "session_created",
    "session_changed",
    "session_started",
    "session_suspended",
    "session_resumed",
    "session_cleared",
    "session_archived",
    "session_stopped",
    "agent_attached",
    "input_accepted",
    "input_changed",
    "input_settled",
    "generation_raised",
    "turn_started",
    "user_text",
    "agent_text",
    "tool_call",
    "tool_ended",
    "permission_asked",
    "permission_answered",
    "rule_changed",
    "usage",
    "steered",
    "interrupted",
    "child_started",
    "child_ended",
    "spawn_refused",
    "quiet",
    "stalled",
    "progress_resumed",
    "agent_restarting",
    "turn_ended",
]
StreamedKind: TypeAlias = Literal["agent_text", "thought", "tool_update", "plan", "warning"]
Kind: TypeAlias = Literal[DecidedKind, StreamedKind]

DECIDED: Final[tuple[DecidedKind, ...]] = get_args(DecidedKind)
STREAMED: Final[tuple[StreamedKind, ...]] = get_args(StreamedKind)
KINDS: Final[tuple[Kind, ...]] = tuple(dict.fromkeys((*DECIDED, *STREAMED)))
Body: TypeAlias = Mapping[str, Any]
Changes: TypeAlias = dict[str, Any]

TITLE_LETTERS: Final = 60
# So much of what a child said last is told to its parent; the rest is in the child's own records.
NEWS_LETTERS: Final = 2000


def kind_of_text(role: Literal["user", "agent"]) -> Literal["user_text", "agent_text"]:
    """The kind of record that says what somebody said."""
    return "user_text" if role == "user" else "agent_text"


@attrs.frozen
class Fact:
    """One thing that is now so; a record, before the log gives it its number."""

    kind: Kind
    at: float
    body: Body
    turn: TurnId | None = None


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
        lineage=_lineage(body["lineage"]),
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
        "terms": Terms(**terms),
        "limits": None if body["limits"] is None else Limits(**body["limits"]),
        "permissions": Permissions(**body["permissions"]),
    }


def fold(session: Session, fact: Fact) -> Session:
    """The session after the fact."""
    changes = _FOLDS[fact.kind](session, fact.body, fact)
    if changes is None:
        return session
    changes["updated_at"] = fact.at
    return session.with_changes(changes)


# One function for each kind: what it changes, None where it changes nothing at all ------------


def _changed(session: Session, body: Body, __: Fact) -> Changes:
    changes: Changes = {
        name: body[name]
        for name in ("title", "custom", "epoch", "zombie", "leaving")
        if name in body
    }
    if "tags" in body:
        changes["tags"] = tuple(body["tags"])
    if "limits" in body:
        changes["limits"] = Limits(**body["limits"])
    changes |= _agent_changed(session, body)
    if "stopping" in body:
        changes["stopping"] = _stopping(body["stopping"])
        if not body["stopping"]["after_turn"]:
            changes["phase"] = Phase.STOPPING
    if "verdict" in body:
        changes["turn"] = _in_turn(
            session, lambda turn: attrs.evolve(turn, verdict=body["verdict"])
        )
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


def _agent_changed(session: Session, body: Body) -> Changes:
    if "agent_gone" in body:
        return _no_agent(session)
    if "agent_session_id" in body:
        return {"remembered": _named(session, body["agent_session_id"])}
    if "auth" in body:
        return {"remembered": _remembered(session, auth=body["auth"])}
    return {}


def _no_agent(session: Session) -> Changes:
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


def _started(_: Session, __: Body, ___: Fact) -> Changes:
    return {"phase": Phase.IDLE}


def _suspended(session: Session, _: Body, __: Fact) -> Changes:
    return {"phase": Phase.SUSPENDED, "leaving": False, **_no_agent(session)}


def _resumed(session: Session, body: Body, __: Fact) -> Changes:
    return {
        # Whoever brings it back after a stop gives its agent all its chances again.
        "recent_restarts": session.recent_restarts if body["woken"] else (),
        "returns": session.returns + (not body["woken"]),
        "phase": Phase.IDLE if body["woken"] else Phase.STARTING,
        "stopping": None,
        "stop_reason": None,
        "stop_detail": None,
    }


def _cleared(_: Session, body: Body, __: Fact) -> Changes:
    return {"chapter": body["chapter"], "rules": (), "remembered": None}


def _archived(_: Session, body: Body, __: Fact) -> Changes:
    return {"archived": body["archived"]}


def _stopped(session: Session, body: Body, _: Fact) -> Changes:
    failure = body["failure"]
    return {
        "phase": Phase.STOPPED,
        **_no_agent(session),
        "leaving": False,
        "stop_reason": body["reason"],
        "stop_detail": body["detail"],
        "last_failure": session.last_failure if failure is None else Failure(**failure),
    }


def _agent_attached(session: Session, body: Body, _: Fact) -> Changes:
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


def _accepted(session: Session, body: Body, fact: Fact) -> Changes:
    waiting = Waiting(
        id=InputId(body["input_id"]),
        number=body["number"],
        text=body["text"],
        when_busy=body["when_busy"],
        source=body["source"],
        accepted_at=fact.at,
        generation=body["generation"],
        expires_at=body["expires_at"],
        replacement=body["replacement"],
        attachments=tuple(body["attachments"]),
    )
    return {"accepted": waiting.number, "inputs": _in_order((*session.inputs, waiting))}


def _input_changed(session: Session, body: Body, _: Fact) -> Changes:
    changed = body["inputs"]
    return {
        "inputs": _in_order(
            tuple(
                attrs.evolve(waiting, **changed[waiting.id]) if waiting.id in changed else waiting
                for waiting in session.inputs
            )
        )
    }


def _settled(session: Session, body: Body, _: Fact) -> Changes:
    settled = body["input_id"]
    changes: Changes = {
        "inputs": tuple(waiting for waiting in session.inputs if waiting.id != settled)
    }
    if settled == session.lineage.input and body["outcome"] not in ("delivered", "steered"):
        # It will never run, which is also an end of what the session was spawned for.
        changes["family"] = attrs.evolve(session.family, outcome="interrupted")
    return changes


def _generation_raised(_: Session, body: Body, __: Fact) -> Changes:
    return {"generation": body["generation"]}


def _turn_started(session: Session, body: Body, fact: Fact) -> Changes:
    turn = Turn(
        id=TurnId(body["turn_id"]),
        input_id=InputId(body["input_id"]),
        source=body["source"],
        started_at=fact.at,
    )
    changes: Changes = {
        "phase": Phase.RUNNING,
        "turn": turn,
        "turns": session.turns + 1,
        "last_active_at": fact.at,
    }
    if session.remembered is not None and session.remembered.untold:
        changes["remembered"] = attrs.evolve(session.remembered, untold=None)
    return changes


def _user_text(session: Session, body: Body, _: Fact) -> Changes:
    changes: Changes = {"messages": session.messages + 1}
    if body["part"] is None:
        changes |= _untold(session)
    if session.title is None:
        changes["title"] = " ".join(body["text"].split())[:TITLE_LETTERS] or None
    return changes


def _agent_text(session: Session, body: Body, _: Fact) -> Changes | None:
    if body["part"] is not None:
        return None  # streamed; the end of its turn counts it
    return {"messages": session.messages + 1, **_untold(session)}


def _untold(session: Session) -> Changes:
    """Somebody else has put a message into the history: who knows the conversation missed that."""
    known = session.remembered
    if known is None or known.session_id is None:
        return {}
    return {"remembered": attrs.evolve(known, untold=(known.untold or 0) + 1)}


def _tool_call(session: Session, body: Body, _: Fact) -> Changes:
    call = Call(CallId(body["call_id"]), body["name"], cancellable=body["cancellable"])
    return {
        "turn": _in_turn(session, lambda turn: attrs.evolve(turn, calls=(*turn.calls, call))),
        "tool_calls": session.tool_calls + 1,
    }


def _tool_ended(session: Session, body: Body, _: Fact) -> Changes:
    def without(turn: Turn) -> Turn:
        left = tuple(call for call in turn.calls if call.id != body["call_id"])
        return attrs.evolve(turn, calls=left)

    return {"turn": _in_turn(session, without)}


def _permission_asked(session: Session, body: Body, fact: Fact) -> Changes:
    request = Request(
        id=RequestId(body["request_id"]),
        tool=body["tool"],
        question=body["question"],
        options=tuple(body["options"]),
        asked_at=fact.at,
        input=body["input"],
    )
    return {
        "turn": _in_turn(
            session, lambda turn: attrs.evolve(turn, requests=(*turn.requests, request))
        )
    }


def _permission_answered(session: Session, body: Body, _: Fact) -> Changes:
    def without(turn: Turn) -> Turn:
        left = tuple(asked for asked in turn.requests if asked.id != body["request_id"])
        return attrs.evolve(turn, requests=left)

    return {"turn": _in_turn(session, without)}


def _rule_changed(session: Session, body: Body, _: Fact) -> Changes:
    others = tuple(
        rule for rule in session.rules if rule.id != body["rule_id"] and rule.tool != body["tool"]
    )
    if body["decision"] is None:
        return {"rules": others}
    rule = PermissionRule(RequestId(body["rule_id"]), body["tool"], body["decision"])
    return {"rules": (*others, rule)}


def _usage(session: Session, body: Body, _: Fact) -> Changes:
    used = Usage(**body)
    return {
        "usage": session.usage + used,
        "turn": _in_turn(session, lambda turn: attrs.evolve(turn, usage=turn.usage + used)),
    }


def _nothing(_: Session, __: Body, ___: Fact) -> None:
    return None


def _interrupted(session: Session, body: Body, _: Fact) -> Changes | None:
    if body["scope"] == "tool_call":
        return None
    changes: Changes = {
        "turn": _in_turn(session, lambda turn: attrs.evolve(turn, step=body["step"]))
    }
    if session.phase is Phase.RUNNING:
        changes["phase"] = Phase.INTERRUPTING
    return changes


def _child_started(session: Session, _: Body, __: Fact) -> Changes:
    family = session.family
    return {
        "family": attrs.evolve(family, open_children=family.open_children + 1, news=family.news + 1)
    }


def _child_ended(session: Session, body: Body, _: Fact) -> Changes:
    family = session.family
    over = body["reason"] is not None
    return {
        "family": attrs.evolve(
            family, open_children=family.open_children - over, news=family.news + 1
        )
    }


def _quiet(session: Session, _: Body, __: Fact) -> Changes:
    return {"turn": _in_turn(session, lambda turn: attrs.evolve(turn, silence="quiet"))}


def _stalled(session: Session, _: Body, __: Fact) -> Changes:
    return {"turn": _in_turn(session, lambda turn: attrs.evolve(turn, silence="stalled"))}


def _progress_resumed(session: Session, _: Body, __: Fact) -> Changes:
    return {"turn": _in_turn(session, lambda turn: attrs.evolve(turn, silence=None))}


def _agent_restarting(session: Session, body: Body, _: Fact) -> Changes:
    return {
        "phase": Phase.RESTARTING,
        **_no_agent(session),
        "last_failure": Failure(**body["failure"]),
        "restarts": session.restarts + 1,
        "recent_restarts": tuple(body["recent"]),
    }


def _turn_ended(session: Session, body: Body, fact: Fact) -> Changes:
    busy = session.phase in (Phase.RUNNING, Phase.INTERRUPTING)
    changes: Changes = {
        "turn": None,
        "phase": Phase.IDLE if busy else session.phase,
        "zombie": TurnId(body["turn_id"]) if body["zombie"] else session.zombie,
        "messages": session.messages + body["messages"],
        "wall_seconds": session.wall_seconds + body["seconds"],
        "last_active_at": fact.at,
    }
    lineage = session.lineage
    if lineage.parent is not None:
        turn = session.turn
        errand = turn is not None and turn.input_id == lineage.input
        changes["family"] = attrs.evolve(
            session.family,
            outcome=body["outcome"] if errand else session.family.outcome,
            text=body["text"][:NEWS_LETTERS],
        )
    return changes


def _in_turn(session: Session, change: Callable[[Turn], Turn]) -> Turn | None:
    return None if session.turn is None else change(session.turn)


def _in_order(inputs: tuple[Waiting, ...]) -> tuple[Waiting, ...]:
    if len(inputs) < 2:  # noqa: PLR2004 - one alone is in order
        return inputs
    return tuple(sorted(inputs, key=lambda waiting: waiting.order))


_FOLDS: Final[Mapping[Kind, Callable[[Session, Body, Fact], Changes | None]]] = {
    "session_created": _nothing,  # `begin` has read it
    "session_changed": _changed,
    "session_started": _started,
    "session_suspended": _suspended,
    "session_resumed": _resumed,
    "session_cleared": _cleared,
    "session_archived": _archived,
    "session_stopped": _stopped,
    "agent_attached": _agent_attached,
    "input_accepted": _accepted,
    "input_changed": _input_changed,
    "input_settled": _settled,
    "generation_raised": _generation_raised,
    "turn_started": _turn_started,
    "user_text": _user_text,
    "agent_text": _agent_text,
    "thought": _nothing,
    "tool_call": _tool_call,
    "tool_update": _nothing,
    "tool_ended": _tool_ended,
    "plan": _nothing,
    "permission_asked": _permission_asked,
    "permission_answered": _permission_answered,
    "rule_changed": _rule_changed,
    "usage": _usage,
    "steered": _nothing,
    "interrupted": _interrupted,
    "child_started": _child_started,
    "child_ended": _child_ended,
    "spawn_refused": _nothing,
    "quiet": _quiet,
    "stalled": _stalled,
    "progress_resumed": _progress_resumed,
    "agent_restarting": _agent_restarting,
    "warning": _nothing,
    "turn_ended": _turn_ended,
}
