"""Folds of the record kinds of a turn, from its start to its end."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from .attention import MAX_DETAIL_CHARS, after_turn, with_item, without
from .facts import Fact
from .ids import CallId, RequestId
from .records import MAX_NEWS_CHARS, MAX_TITLE_CHARS, Body, Changes
from .state import (
    IDLE,
    INTERRUPTING,
    RUNNING,
    CallInterrupt,
    ContextUse,
    OpenCall,
    OpenRequest,
    OpenTurn,
    PermissionRule,
    SessionState,
    Usage,
)


def missed_message(session: SessionState) -> Changes:
    """Return the changes for a message added to the history outside a turn of the agent.

    An agent with a saved conversation has missed that message.
    """
    known = session.remembered
    if known is None or known.session_id is None:
        return {}
    return {"remembered": attrs.evolve(known, untold=(known.untold or 0) + 1)}


def turn_started(session: SessionState, body: Body, fact: Fact) -> Changes:
    turn = OpenTurn(
        id=body["turn_id"],
        input_id=body["input_id"],
        source=body["source"],
        started_at=fact.at,
    )
    changes: Changes = {
        "phase": RUNNING,
        "turn": turn,
        "turns": session.turns + 1,
        "last_active_at": fact.at,
    }
    if session.remembered is not None and session.remembered.untold:
        changes["remembered"] = attrs.evolve(session.remembered, untold=None)
    return changes


def user_text(session: SessionState, body: Body, _: Fact) -> Changes:
    changes: Changes = {"messages": session.messages + 1}
    if body["part"] is None:
        changes |= missed_message(session)
    if session.title is None:
        changes["title"] = " ".join(body["text"].split())[:MAX_TITLE_CHARS] or None
    return changes


def agent_text(session: SessionState, body: Body, _: Fact) -> Changes | None:
    if body["part"] is not None:
        return None  # streamed; the end of its turn counts it
    return {"messages": session.messages + 1, **missed_message(session)}


def tool_call(session: SessionState, body: Body, _: Fact) -> Changes:
    call = OpenCall(CallId(body["call_id"]), body["name"], cancellable=body["cancellable"])
    return {
        "turn": changed_turn(session, lambda turn: turn.changed(calls=(*turn.calls, call))),
        "tool_calls": session.tool_calls + 1,
    }


def tool_ended(session: SessionState, body: Body, _: Fact) -> Changes:
    def without_call(turn: OpenTurn) -> OpenTurn:
        left = tuple(call for call in turn.calls if call.id != body["call_id"])
        return turn.changed(calls=left)

    return {"turn": changed_turn(session, without_call)}


def permission_asked(session: SessionState, body: Body, fact: Fact) -> Changes:
    request = OpenRequest(
        id=RequestId(body["request_id"]),
        tool=body["tool"],
        question=body["question"],
        options=tuple(body["options"]),
        asked_at=fact.at,
        input=body["input"],
        expires_at=body.get("expires_at"),
        seq=fact.seq if session.keeps_attention else None,
        kind=body.get("kind", "permission"),
        choices=tuple(body.get("choices", ())),
    )
    return {
        "turn": changed_turn(session, lambda turn: turn.changed(requests=(*turn.requests, request)))
    }


def permission_answered(session: SessionState, body: Body, fact: Fact) -> Changes:
    turn = session.turn
    requests = () if turn is None else turn.requests
    left = tuple([asked for asked in requests if asked.id != body["request_id"]])
    changes: Changes = {"turn": None if turn is None else turn.changed(requests=left)}
    if body["by"] == "timeout":
        answered = (asked for asked in requests if asked.id == body["request_id"])
        detail = next((asked.title for asked in answered), None)
        changes |= with_item(session, "permission_timeout", detail, fact)
    elif body["by"] == "person" and session.attention:
        changes["attention"] = without(session.attention, "permission_timeout")
    return changes


def rule_changed(session: SessionState, body: Body, _: Fact) -> Changes:
    others = tuple(
        rule for rule in session.rules if rule.id != body["rule_id"] and rule.tool != body["tool"]
    )
    if body["decision"] is None:
        return {"rules": others}
    rule = PermissionRule(RequestId(body["rule_id"]), body["tool"], body["decision"])
    return {"rules": (*others, rule)}


# Fields of a usage record that are not counted.
_OF_CONTEXT = frozenset({"context_used", "context_size"})


def usage(session: SessionState, body: Body, _: Fact) -> Changes:
    counts = {name: value for name, value in body.items() if name not in _OF_CONTEXT}
    used = Usage(**counts)  # raises for a field that no version has written
    changes: Changes = {
        "usage": session.usage + used,
        "turn": changed_turn(session, lambda turn: turn.changed(usage=turn.usage + used)),
    }
    if "context_used" in body:
        changes["context"] = ContextUse(body["context_used"], body.get("context_size"))
    return changes


def interrupted(session: SessionState, body: Body, _: Fact) -> Changes | None:
    if body["scope"] == "tree":
        return None  # each member has its own record
    if body["scope"] == "tool_call":
        # Records of release 0.1.0 do not have the field, and changed nothing.
        return _call_interrupted(session, body) if "unreachable" in body else None
    changes: Changes = {"turn": changed_turn(session, lambda turn: turn.changed(step=body["step"]))}
    if session.phase is RUNNING:
        changes["phase"] = INTERRUPTING
    return changes


def _call_interrupted(session: SessionState, body: Body) -> Changes:
    interrupt: CallInterrupt = "unreachable" if body["unreachable"] else "asked"

    def with_interrupt(turn: OpenTurn) -> OpenTurn:
        calls = (
            attrs.evolve(call, interrupt=interrupt) if call.id == body["call_id"] else call
            for call in turn.calls
        )
        return turn.changed(calls=tuple(calls))

    return {"turn": changed_turn(session, with_interrupt)}


def quiet(session: SessionState, _: Body, __: Fact) -> Changes:
    return {"turn": changed_turn(session, lambda turn: turn.changed(silence="quiet"))}


def stalled(session: SessionState, body: Body, fact: Fact) -> Changes:
    waits_for, detail = body["waits_for"], body["detail"]
    text = f"waits for {waits_for}" if detail is None else f"waits for {waits_for} {detail}"
    return {
        "turn": changed_turn(session, lambda turn: turn.changed(silence="stalled")),
        **with_item(session, "stall", text, fact),
    }


def progress_resumed(session: SessionState, _: Body, __: Fact) -> Changes:
    changes: Changes = {"turn": changed_turn(session, lambda turn: turn.changed(silence=None))}
    if session.attention:
        changes["attention"] = without(session.attention, "stall")
    return changes


def turn_ended(session: SessionState, body: Body, fact: Fact) -> Changes:
    busy = session.phase in (RUNNING, INTERRUPTING)
    changes: Changes = {
        "turn": None,
        "phase": IDLE if busy else session.phase,
        "zombie": body["turn_id"] if body["zombie"] else session.zombie,
        "messages": session.messages + body["messages"],
        "wall_seconds": session.wall_seconds + body["seconds"],
        "last_active_at": fact.at,
    }
    if session.keeps_attention:
        outcome, turn_id = body["outcome"], body["turn_id"]
        reason = body["error"] or body["stop_reason"]
        if reason is not None:
            reason = reason[:MAX_DETAIL_CHARS]
        changes["last_turn"] = (outcome, reason, fact.at, turn_id, fact.seq)
        if outcome != "completed" or session.attention:
            changes["attention"] = after_turn(session, body, fact)
    lineage = session.lineage
    if lineage.parent is not None:
        turn = session.turn
        is_spawn_turn = turn is not None and turn.input_id == lineage.input
        changes["family"] = attrs.evolve(
            session.family,
            outcome=body["outcome"] if is_spawn_turn else session.family.outcome,
            text=body["text"][:MAX_NEWS_CHARS],
        )
    return changes


def changed_turn(session: SessionState, change: Callable[[OpenTurn], OpenTurn]) -> OpenTurn | None:
    """Return the running turn with a change applied; None if no turn runs."""
    return None if session.turn is None else change(session.turn)
