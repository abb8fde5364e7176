"""What happens in a turn, from its beginning to its end."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from supervisor.core.facts import NEWS_LETTERS, TITLE_LETTERS, Body, Changes, Fact
from supervisor.core.ids import CallId, InputId, RequestId, TurnId
from supervisor.core.session import Call, PermissionRule, Phase, Request, Session, Turn, Usage

from .agent import untold


def turn_started(session: Session, body: Body, fact: Fact) -> Changes:
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


def user_text(session: Session, body: Body, _: Fact) -> Changes:
    changes: Changes = {"messages": session.messages + 1}
    if body["part"] is None:
        changes |= untold(session)
    if session.title is None:
        changes["title"] = " ".join(body["text"].split())[:TITLE_LETTERS] or None
    return changes


def agent_text(session: Session, body: Body, _: Fact) -> Changes | None:
    if body["part"] is not None:
        return None  # streamed; the end of its turn counts it
    return {"messages": session.messages + 1, **untold(session)}


def tool_call(session: Session, body: Body, _: Fact) -> Changes:
    call = Call(CallId(body["call_id"]), body["name"], cancellable=body["cancellable"])
    return {
        "turn": in_turn(session, lambda turn: attrs.evolve(turn, calls=(*turn.calls, call))),
        "tool_calls": session.tool_calls + 1,
    }


def tool_ended(session: Session, body: Body, _: Fact) -> Changes:
    def without(turn: Turn) -> Turn:
        left = tuple(call for call in turn.calls if call.id != body["call_id"])
        return attrs.evolve(turn, calls=left)

    return {"turn": in_turn(session, without)}


def permission_asked(session: Session, body: Body, fact: Fact) -> Changes:
    request = Request(
        id=RequestId(body["request_id"]),
        tool=body["tool"],
        question=body["question"],
        options=tuple(body["options"]),
        asked_at=fact.at,
        input=body["input"],
    )
    return {
        "turn": in_turn(
            session, lambda turn: attrs.evolve(turn, requests=(*turn.requests, request))
        )
    }


def permission_answered(session: Session, body: Body, _: Fact) -> Changes:
    def without(turn: Turn) -> Turn:
        left = tuple(asked for asked in turn.requests if asked.id != body["request_id"])
        return attrs.evolve(turn, requests=left)

    return {"turn": in_turn(session, without)}


def rule_changed(session: Session, body: Body, _: Fact) -> Changes:
    others = tuple(
        rule for rule in session.rules if rule.id != body["rule_id"] and rule.tool != body["tool"]
    )
    if body["decision"] is None:
        return {"rules": others}
    rule = PermissionRule(RequestId(body["rule_id"]), body["tool"], body["decision"])
    return {"rules": (*others, rule)}


def usage(session: Session, body: Body, _: Fact) -> Changes:
    used = Usage(**body)
    return {
        "usage": session.usage + used,
        "turn": in_turn(session, lambda turn: attrs.evolve(turn, usage=turn.usage + used)),
    }


def interrupted(session: Session, body: Body, _: Fact) -> Changes | None:
    if body["scope"] == "tool_call":
        return None
    changes: Changes = {
        "turn": in_turn(session, lambda turn: attrs.evolve(turn, step=body["step"]))
    }
    if session.phase is Phase.RUNNING:
        changes["phase"] = Phase.INTERRUPTING
    return changes


def quiet(session: Session, _: Body, __: Fact) -> Changes:
    return {"turn": in_turn(session, lambda turn: attrs.evolve(turn, silence="quiet"))}


def stalled(session: Session, _: Body, __: Fact) -> Changes:
    return {"turn": in_turn(session, lambda turn: attrs.evolve(turn, silence="stalled"))}


def progress_resumed(session: Session, _: Body, __: Fact) -> Changes:
    return {"turn": in_turn(session, lambda turn: attrs.evolve(turn, silence=None))}


def turn_ended(session: Session, body: Body, fact: Fact) -> Changes:
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


def in_turn(session: Session, change: Callable[[Turn], Turn]) -> Turn | None:
    """The running turn, changed; None if none runs."""
    return None if session.turn is None else change(session.turn)
