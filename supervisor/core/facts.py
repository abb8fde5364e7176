"""Facts: what the records say, and what each of them makes of the session.

Rule 1: a session changes only here. Whatever a rule decides it says as facts, and folding these
        is the new state; so folding the stored records gives the row, by construction.
Rule 2: a body is plain data that JSON can carry; `fold` needs nothing else.
Rule 3: folding never refuses. What was written down has happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

import attrs

from .ids import CallId, InputId, RequestId, TurnId
from .limits import Limits
from .session import (
    Agent,
    Call,
    Capabilities,
    Failure,
    PermissionRule,
    Phase,
    Request,
    Session,
    Stopping,
    Turn,
    Usage,
    Waiting,
)

Kind: TypeAlias = Literal[
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
    "agent_restarting",
    "turn_ended",
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
Body: TypeAlias = Mapping[str, Any]

TITLE_LETTERS: Final = 60


@attrs.frozen
class Fact:
    """One thing that is now so; a record, before the log gives it its number."""

    kind: Kind
    at: float
    body: Body
    turn: TurnId | None = None


def fold(session: Session, fact: Fact) -> Session:
    """The session after the fact."""
    return attrs.evolve(_FOLDS[fact.kind](session, fact.body, fact), updated_at=fact.at)


# One function for each kind --------------------------------------------------------------


def _changed(session: Session, body: Body, _: Fact) -> Session:
    changes: dict[str, Any] = {
        name: body[name] for name in ("title", "custom", "epoch", "zombie") if name in body
    }
    if "tags" in body:
        changes["tags"] = tuple(body["tags"])
    if "limits" in body:
        changes["limits"] = Limits(**body["limits"])
    if "agent_gone" in body:
        changes["agent"] = None
    if "stopping" in body:
        changes["stopping"] = Stopping(**body["stopping"])
        if not body["stopping"]["after_turn"]:
            changes["phase"] = Phase.STOPPING
    return attrs.evolve(session, **changes)


def _started(session: Session, _: Body, __: Fact) -> Session:
    return attrs.evolve(session, phase=Phase.IDLE)


def _suspended(session: Session, _: Body, __: Fact) -> Session:
    return attrs.evolve(session, phase=Phase.SUSPENDED, agent=None)


def _resumed(session: Session, body: Body, _: Fact) -> Session:
    return attrs.evolve(
        session,
        phase=Phase.IDLE if body["woken"] else Phase.STARTING,
        stopping=None,
        stop_reason=None,
        stop_detail=None,
    )


def _cleared(session: Session, body: Body, _: Fact) -> Session:
    return attrs.evolve(session, chapter=body["chapter"], rules=())


def _archived(session: Session, body: Body, _: Fact) -> Session:
    return attrs.evolve(session, archived=body["archived"])


def _stopped(session: Session, body: Body, _: Fact) -> Session:
    failure = body["failure"]
    return attrs.evolve(
        session,
        phase=Phase.STOPPED,
        agent=None,
        stop_reason=body["reason"],
        stop_detail=body["detail"],
        last_failure=session.last_failure if failure is None else Failure(**failure),
    )


def _agent_attached(session: Session, body: Body, _: Fact) -> Session:
    able = dict(body["capabilities"])
    able["ladder"] = tuple(able["ladder"])
    agent = Agent(Capabilities(**able), session_id=body["agent_session_id"], pid=body["pid"])
    return attrs.evolve(session, agent=agent)


def _accepted(session: Session, body: Body, fact: Fact) -> Session:
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
    )
    return attrs.evolve(
        session, accepted=waiting.number, inputs=_in_order((*session.inputs, waiting))
    )


def _input_changed(session: Session, body: Body, _: Fact) -> Session:
    inputs = session.inputs
    for input_id, changes in body["inputs"].items():
        inputs = tuple(
            attrs.evolve(waiting, **changes) if waiting.id == input_id else waiting
            for waiting in inputs
        )
    return attrs.evolve(session, inputs=_in_order(inputs))


def _settled(session: Session, body: Body, _: Fact) -> Session:
    left = tuple(waiting for waiting in session.inputs if waiting.id != body["input_id"])
    return attrs.evolve(session, inputs=left)


def _generation_raised(session: Session, body: Body, _: Fact) -> Session:
    return attrs.evolve(session, generation=body["generation"])


def _turn_started(session: Session, body: Body, fact: Fact) -> Session:
    turn = Turn(
        id=TurnId(body["turn_id"]),
        input_id=InputId(body["input_id"]),
        source=body["source"],
        started_at=fact.at,
    )
    return attrs.evolve(
        session,
        phase=Phase.RUNNING,
        turn=turn,
        turns=session.turns + 1,
        last_active_at=fact.at,
    )


def _user_text(session: Session, body: Body, _: Fact) -> Session:
    title = session.title
    if title is None:
        title = " ".join(body["text"].split())[:TITLE_LETTERS] or None
    return attrs.evolve(session, messages=session.messages + 1, title=title)


def _agent_text(session: Session, _: Body, __: Fact) -> Session:
    return attrs.evolve(session, messages=session.messages + 1)


def _tool_call(session: Session, body: Body, _: Fact) -> Session:
    call = Call(CallId(body["call_id"]), body["name"], cancellable=body["cancellable"])
    return attrs.evolve(
        _in_turn(session, lambda turn: attrs.evolve(turn, calls=(*turn.calls, call))),
        tool_calls=session.tool_calls + 1,
    )


def _tool_ended(session: Session, body: Body, _: Fact) -> Session:
    def without(turn: Turn) -> Turn:
        left = tuple(call for call in turn.calls if call.id != body["call_id"])
        return attrs.evolve(turn, calls=left)

    return _in_turn(session, without)


def _permission_asked(session: Session, body: Body, fact: Fact) -> Session:
    request = Request(
        id=RequestId(body["request_id"]),
        tool=body["tool"],
        question=body["question"],
        options=tuple(body["options"]),
        asked_at=fact.at,
        input=body["input"],
    )
    return _in_turn(session, lambda turn: attrs.evolve(turn, requests=(*turn.requests, request)))


def _permission_answered(session: Session, body: Body, _: Fact) -> Session:
    def without(turn: Turn) -> Turn:
        left = tuple(asked for asked in turn.requests if asked.id != body["request_id"])
        return attrs.evolve(turn, requests=left)

    return _in_turn(session, without)


def _rule_changed(session: Session, body: Body, _: Fact) -> Session:
    others = tuple(
        rule for rule in session.rules if rule.id != body["rule_id"] and rule.tool != body["tool"]
    )
    if body["decision"] is None:
        return attrs.evolve(session, rules=others)
    rule = PermissionRule(RequestId(body["rule_id"]), body["tool"], body["decision"])
    return attrs.evolve(session, rules=(*others, rule))


def _usage(session: Session, body: Body, _: Fact) -> Session:
    return attrs.evolve(session, usage=session.usage + Usage(**body))


def _unchanged(session: Session, _: Body, __: Fact) -> Session:
    return session


def _interrupted(session: Session, body: Body, _: Fact) -> Session:
    if body["scope"] == "tool_call":
        return session
    stepped = _in_turn(session, lambda turn: attrs.evolve(turn, step=body["step"]))
    if session.phase is Phase.RUNNING:
        return attrs.evolve(stepped, phase=Phase.INTERRUPTING)
    return stepped


def _agent_restarting(session: Session, body: Body, _: Fact) -> Session:
    return attrs.evolve(
        session,
        phase=Phase.RESTARTING,
        agent=None,
        last_failure=Failure(**body["failure"]),
        restarts=session.restarts + 1,
        recent_restarts=tuple(body["recent"]),
    )


def _turn_ended(session: Session, body: Body, fact: Fact) -> Session:
    busy = session.phase in (Phase.RUNNING, Phase.INTERRUPTING)
    return attrs.evolve(
        session,
        turn=None,
        phase=Phase.IDLE if busy else session.phase,
        zombie=TurnId(body["turn_id"]) if body["zombie"] else session.zombie,
        last_active_at=fact.at,
    )


def _in_turn(session: Session, change: Callable[[Turn], Turn]) -> Session:
    if session.turn is None:
        return session
    return attrs.evolve(session, turn=change(session.turn))


def _in_order(inputs: tuple[Waiting, ...]) -> tuple[Waiting, ...]:
    return tuple(sorted(inputs, key=lambda waiting: waiting.order))


_FOLDS: Final[Mapping[Kind, Callable[[Session, Body, Fact], Session]]] = {
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
    "tool_call": _tool_call,
    "tool_ended": _tool_ended,
    "permission_asked": _permission_asked,
    "permission_answered": _permission_answered,
    "rule_changed": _rule_changed,
    "usage": _usage,
    "steered": _unchanged,
    "interrupted": _interrupted,
    "agent_restarting": _agent_restarting,
    "turn_ended": _turn_ended,
}
