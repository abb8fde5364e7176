"""Folds: one function for each record kind, which returns the fields that the record changes.

Rule 1: a state changes only by folding a fact. A row of `table.py` permits an event and its rule
        chooses the facts; the fold applies them. So folding the stored records yields the row.
Rule 2: folding never refuses a record, because a stored record has happened.
Rule 3: a function returns the changed fields with their new values; None if nothing changes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

import attrs

from . import fold_agent, fold_turns
from .attention import after_stop, login_changed, seen, spawn_refused
from .facts import Fact, fact_of
from .fold_agent import agent_changed, no_agent
from .fold_turns import changed_turn
from .ids import SessionId, SessionKey
from .limits import Ladder, Limits, Lineage, Restart, Terms
from .permissions import Permissions
from .records import Body, Changes, Record, RecordKind
from .state import (
    Failure,
    PendingInput,
    Phase,
    SessionState,
    Spending,
    Stopping,
)


def replay(records: Iterable[Record]) -> SessionState | None:
    """Return the session that results from folding the records in order; None without records."""
    session: SessionState | None = None
    for record in records:
        if session is None:
            session = initial_state(record.session_id, fact_of(record))
        else:
            session = fold(session, fact_of(record))
    return session


def input_accepted(session: SessionState, body: Body, fact: Fact) -> Changes:
    waiting = PendingInput(
        id=body["input_id"],
        number=body["number"],
        text=body["text"],
        when_busy=body["when_busy"],
        source=body["source"],
        accepted_at=fact.at,
        generation=body["generation"],
        expires_at=body["expires_at"],
        replacement=body["replacement"],
        attachments=tuple(body["attachments"]),
        trace=body.get("trace"),
    )
    return {"accepted": waiting.number, "inputs": _in_order((*session.inputs, waiting))}


def input_changed(session: SessionState, body: Body, _: Fact) -> Changes:
    changed = body["inputs"]
    return {
        "inputs": _in_order(
            tuple(
                waiting.changed(**changed[waiting.id]) if waiting.id in changed else waiting
                for waiting in session.inputs
            )
        )
    }


def input_settled(session: SessionState, body: Body, _: Fact) -> Changes:
    settled = body["input_id"]
    changes: Changes = {
        "inputs": tuple([waiting for waiting in session.inputs if waiting.id != settled])
    }
    if settled == session.lineage.input and body["outcome"] not in ("delivered", "steered"):
        # It will never run, which also ends the input that the session was spawned with.
        changes["family"] = attrs.evolve(session.family, outcome="interrupted")
    return changes


def generation_raised(_: SessionState, body: Body, __: Fact) -> Changes:
    return {"generation": body["generation"]}


def _in_order(inputs: tuple[PendingInput, ...]) -> tuple[PendingInput, ...]:
    if len(inputs) < 2:  # noqa: PLR2004 - a single input is sorted
        return inputs
    return tuple(sorted(inputs, key=lambda waiting: waiting.order))


def child_started(session: SessionState, _: Body, __: Fact) -> Changes:
    family = session.family
    return {
        "family": attrs.evolve(family, open_children=family.open_children + 1, news=family.news + 1)
    }


def child_ended(session: SessionState, body: Body, _: Fact) -> Changes:
    family = session.family
    over = body["reason"] is not None
    return {
        "family": attrs.evolve(
            family, open_children=family.open_children - over, news=family.news + 1
        )
    }


T = TypeVar("T")


def initial_state(session_id: SessionId, created: Fact) -> SessionState:
    """Return the session that a `session_created` fact creates."""
    body = created.body
    key = body["key"]
    return SessionState(
        id=session_id,
        agent_name=body["agent"],
        key=None if key is None else SessionKey.parse(key),
        kind=body["kind"],
        name=body["name"],
        title=body["title"],
        tags=tuple(body["tags"]),
        custom=body["custom"],
        workspace=body["workspace"],
        options=dict(body.get("options", ())),
        mcp_servers=tuple(body.get("mcp_servers", ())),
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
    """Return terms, limits and permissions from a record body."""
    terms = dict(body["terms"])
    terms["ladder"] = Ladder(**terms["ladder"])
    terms["restart"] = Restart(**terms["restart"])
    return {
        "terms": _shared(Terms(**terms)),
        "limits": None if body["limits"] is None else _shared(Limits(**body["limits"])),
        "permissions": _shared(Permissions(**body["permissions"])),
    }


@functools.lru_cache(maxsize=1_024)
def _first_equal(thing: object) -> object:
    return thing  # the first of all equal objects


def _shared(thing: T) -> T:
    """Return the shared instance that equals this object, so that memory holds it only once.

    Most sessions have the same terms and permissions, and most are roots.
    """
    return _first_equal(thing)  # type: ignore[return-value] # equal objects have one type


def session_changed(session: SessionState, body: Body, fact: Fact) -> Changes:
    changes: Changes = {
        name: body[name]
        for name in ("name", "title", "custom", "epoch", "zombie", "leaving", "keeps_attention")
        if name in body
    }
    changes |= {name: tuple(body[name]) for name in ("tags", "mcp_servers") if name in body}
    if "limits" in body:
        changes["limits"] = Limits(**body["limits"])
    changes |= agent_changed(session, body)
    if "auth" in body:
        changes |= login_changed(session, body, fact)
    if "stopping" in body:
        changes["stopping"] = _stopping(body["stopping"])
        if not body["stopping"]["after_turn"]:
            changes["phase"] = Phase.STOPPING
    if "verdict" in body:
        changes["turn"] = changed_turn(session, lambda turn: turn.changed(verdict=body["verdict"]))
    if "news_read" in body:
        changes["family"] = attrs.evolve(session.family, news_read=body["news_read"])
    if "imported" in body:
        changes |= _imported(session, body["imported"])
    if "deleted" in body:
        changes["family"] = attrs.evolve(
            session.family,
            deleted=session.family.deleted + Spending(**body["deleted"]["spent"]),
            deleted_spawns=session.family.deleted_spawns + body["deleted"]["spawns"],
        )
    return changes


def _imported(session: SessionState, body: Body) -> Changes:
    """Return the changes of an import: local grants, no key, no position in a tree, stopped.

    What a person should look at, or has seen, was that of the other supervisor. So were the wanted
    options, which may let an agent work without asking.
    """
    return {
        **_granted(body),
        "key": None,
        "workspace": None,
        "kind": "user" if session.kind == "spawned" else session.kind,
        "lineage": Lineage(),
        "rules": (),
        "options": {},
        "offered": (),
        "knows_offer": False,
        "mcp_servers": (),
        "phase": Phase.STOPPED,
        "stopping": None,
        "archived": False,
        "leaving": False,
        "agent": None,
        "remembered": None,
        "context": None,
        "turn": None,
        "zombie": None,
        "inputs": (),
        "recent_restarts": (),
        "epoch": 0,
        "attention": (),
        "seen_seq": 0,
    }


def _stopping(body: Body) -> Stopping:
    failure = body["failure"]
    return Stopping(**{**body, "failure": None if failure is None else Failure(**failure)})


def session_started(_: SessionState, __: Body, ___: Fact) -> Changes:
    return {"phase": Phase.IDLE}


def session_suspended(session: SessionState, _: Body, __: Fact) -> Changes:
    return {"phase": Phase.SUSPENDED, "leaving": False, **no_agent(session)}


def session_resumed(session: SessionState, body: Body, __: Fact) -> Changes:
    return {
        # A resume after a stop resets the count of recent restarts.
        "recent_restarts": session.recent_restarts if body["woken"] else (),
        "returns": session.returns + (not body["woken"]),
        "phase": Phase.IDLE if body["woken"] else Phase.STARTING,
        "stopping": None,
        "stop_reason": None,
        "stop_detail": None,
    }


def session_cleared(_: SessionState, body: Body, __: Fact) -> Changes:
    return {"chapter": body["chapter"], "rules": (), "remembered": None, "context": None}


def session_archived(_: SessionState, body: Body, __: Fact) -> Changes:
    changes: Changes = {"archived": body["archived"]}
    if body["archived"]:
        changes["attention"] = ()  # archiving a session says that it is done with
    return changes


def session_stopped(session: SessionState, body: Body, fact: Fact) -> Changes:
    failure = body["failure"]
    return {
        "phase": Phase.STOPPED,
        **no_agent(session),
        "leaving": False,
        "stop_reason": body["reason"],
        "stop_detail": body["detail"],
        "last_failure": session.last_failure if failure is None else Failure(**failure),
        **after_stop(session, body, fact),
    }


__all__ = ("FOLDS", "fold", "initial_state")


def fold(session: SessionState, fact: Fact) -> SessionState:
    """Return the session after the fact."""
    changes = FOLDS[fact.kind](session, fact.body, fact)
    if changes is None:
        return session
    changes["updated_at"] = fact.at
    return session.with_changes(changes)


def _no_change(_: SessionState, __: Body, ___: Fact) -> None:
    return None


FOLDS: Final[Mapping[RecordKind, Callable[[SessionState, Body, Fact], Changes | None]]] = {
    "session_created": _no_change,  # `initial_state` reads it
    "session_changed": session_changed,
    "session_started": session_started,
    "session_suspended": session_suspended,
    "session_resumed": session_resumed,
    "session_cleared": session_cleared,
    "session_archived": session_archived,
    "session_stopped": session_stopped,
    "agent_attached": fold_agent.agent_attached,
    "options_changed": fold_agent.options_changed,
    "input_accepted": input_accepted,
    "input_changed": input_changed,
    "input_settled": input_settled,
    "generation_raised": generation_raised,
    "turn_started": fold_turns.turn_started,
    "user_text": fold_turns.user_text,
    "agent_text": fold_turns.agent_text,
    "thought": _no_change,
    "tool_call": fold_turns.tool_call,
    "tool_update": _no_change,
    "tool_ended": fold_turns.tool_ended,
    "plan": _no_change,
    "permission_asked": fold_turns.permission_asked,
    "permission_answered": fold_turns.permission_answered,
    "rule_changed": fold_turns.rule_changed,
    "usage": fold_turns.usage,
    "steered": _no_change,
    "interrupted": fold_turns.interrupted,
    "child_started": child_started,
    "child_ended": child_ended,
    "spawn_refused": spawn_refused,
    "quiet": fold_turns.quiet,
    "stalled": fold_turns.stalled,
    "progress_resumed": fold_turns.progress_resumed,
    "agent_restarting": fold_agent.agent_restarting,
    "warning": _no_change,
    "turn_ended": fold_turns.turn_ended,
    "seen": seen,
    "mcp_call": _no_change,
    "notice": _no_change,
    "agent_compaction": _no_change,
    "subagent": _no_change,
}
