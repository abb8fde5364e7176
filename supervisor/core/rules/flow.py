"""The way of an input through a session: accepted, begun, ended; and the session's own end.

Rule 1: between turns there is one place that begins the next, `start_next`, so nothing overtakes.
Rule 2: whoever ends a turn closes all that was open in it, in the same step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from supervisor.core.effects import (
    AnswerRequest,
    ClearTimer,
    CloseAgent,
    SetTimer,
    StartTurn,
    StopDependents,
)
from supervisor.core.events import Said
from supervisor.core.ids import InputId
from supervisor.core.liveness import first_look
from supervisor.core.session import (
    ENDINGS,
    Cause,
    Failure,
    Outcome,
    Phase,
    Settled,
    Source,
    Turn,
    Waiting,
    WhenBusy,
)
from supervisor.core.step import Draft

NOTHING_SAID: Final = Said()


def accept_input(
    draft: Draft,
    input_id: InputId,
    text: str,
    *,
    when_busy: WhenBusy,
    source: Source,
    expires_at: float | None = None,
    attachments: tuple[Mapping[str, Any], ...] = (),
    replacement: bool = False,
) -> None:
    """Make an input durable, behind all that were accepted before it."""
    draft.note(
        "input_accepted",
        input_id=input_id,
        text=text,
        when_busy=when_busy,
        number=draft.session.accepted + 1,
        source=source,
        generation=draft.session.generation,
        expires_at=expires_at,
        attachments=list(attachments),
        replacement=replacement,
    )
    if expires_at is not None:
        _set_expiry_timer(draft)


def _set_expiry_timer(draft: Draft) -> None:
    """Have the timer ring for whichever queued input expires first."""
    times = [
        waiting.expires_at
        for waiting in draft.session.inputs
        if waiting.expires_at is not None and waiting.status == "queued"
    ]
    if times:
        draft.do(SetTimer("expiry", max(0.0, min(times) - draft.at)))


def settle(draft: Draft, waiting: Waiting, outcome: Settled, detail: str | None = None) -> None:
    """End an input, once and for all."""
    draft.note("input_settled", input_id=waiting.id, outcome=outcome, detail=detail)


def expire_inputs(draft: Draft) -> None:
    """Settle every queued input whose time is over; set the timer for the next one.

    What was offered to the running turn does not expire under its hands; it does if it comes back.
    """
    for waiting in draft.session.inputs:
        due = waiting.expires_at is not None and waiting.expires_at <= draft.at
        if due and waiting.status == "queued":
            settle(draft, waiting, "expired")
    _set_expiry_timer(draft)


def start_next(draft: Draft) -> None:
    """Begin a turn with the first input that waits, if the session is free for one."""
    expire_inputs(draft)
    session = draft.session
    if session.phase is not Phase.IDLE:
        return
    if session.leaving or draft.situation.leaving:
        rest(draft)
        return
    if session.zombie is not None:
        return
    if not session.inputs:
        if session.terms.suspend_after_seconds is not None:
            draft.do(SetTimer("suspend", session.terms.suspend_after_seconds))
    elif draft.situation.shortage is not None:
        stop_for_shortage(draft)
    elif not draft.situation.no_turn:
        _start(draft, session.inputs[0])


def _start(draft: Draft, first: Waiting) -> None:
    known = draft.session.remembered
    untold = 0 if known is None else known.untold or 0
    settle(draft, first, "delivered")
    begin_turn(draft, first)
    draft.do(StartTurn(draft.fresh, first.id, first.text, first.attachments, untold))


def begin_turn(draft: Draft, first: Waiting) -> None:
    """Open a turn on an input that has been settled as delivered."""
    draft.note("turn_started", turn_id=draft.fresh, input_id=first.id, source=first.source)
    draft.note("user_text", text=first.text, part=first.id)
    terms = draft.session.terms
    draft.do(ClearTimer("suspend"), SetTimer("silence", first_look(terms)))
    if terms.turn_deadline_seconds is not None:
        draft.do(SetTimer("deadline", terms.turn_deadline_seconds))


def stop_for_shortage(draft: Draft) -> None:
    """A budget is spent that this session draws on: nothing more begins in it."""
    shortage = draft.situation.shortage
    assert shortage is not None
    begin_stopping(draft, shortage.cause, str(shortage))
    draft.do(CloseAgent())


def rest(draft: Draft) -> None:
    """Let the agent go until there is something to do for it; what waits is kept."""
    draft.note("session_suspended")
    draft.do(CloseAgent(), ClearTimer("suspend"), ClearTimer("backoff"))


def end_turn(
    draft: Draft,
    outcome: Outcome,
    *,
    stop_reason: str | None = None,
    said: Said = NOTHING_SAID,
    error: str | None = None,
    zombie: bool = False,
) -> Turn:
    """Close the open turn and everything that is open in it; gives it as it was."""
    turn = draft.session.turn
    assert turn is not None
    if turn.verdict == "timed_out" and outcome == "interrupted":
        outcome = "timed_out"
    cancel_requests(draft)
    for call in turn.calls:
        draft.note(
            "tool_ended", call_id=call.id, name=call.name, outcome="interrupted", result=None
        )
    take_back_steering(draft)
    draft.note(
        "turn_ended",
        turn_id=turn.id,
        outcome=outcome,
        stop_reason=stop_reason,
        text=said.text,
        messages=said.messages,
        error=error or _why_cut_short(draft, turn, outcome),
        zombie=zombie,
        ladder_step=turn.step,
        seconds=_seconds(draft, turn),
        usage={
            "input_tokens": turn.usage.input_tokens,
            "output_tokens": turn.usage.output_tokens,
            "cost": turn.usage.cost,
        },
    )
    draft.do(ClearTimer("ladder"), ClearTimer("silence"), ClearTimer("deadline"))
    if turn.verdict == "clear":
        begin_chapter(draft)
    return turn


def begin_chapter(draft: Draft) -> None:
    """The conversation begins anew; the records stay."""
    draft.note("session_cleared", chapter=draft.session.chapter + 1)
    if draft.session.agent is not None:
        # The agent remembers the old chapter; the next turn starts one that does not.
        draft.note("session_changed", agent_gone=True)
        draft.do(CloseAgent())


# For whoever waits for the result of a turn; that a person stopped it needs no more words.
_WHY_STOPPED: Final[Mapping[Cause, str]] = {
    "ttl_expired": "the time that its session was given is over",
    "parent_stopped": "the session above its own has stopped",
    "deleted": "its session was deleted",
    "replaced": "another session has taken the place of its own",
}


def _why_cut_short(draft: Draft, turn: Turn, outcome: Outcome) -> str | None:
    """What its end means, if it was us who ended it: whoever waits for the result should know."""
    session = draft.session
    if outcome == "timed_out":
        return f"it ran longer than the {session.terms.turn_deadline_seconds} s that it was given"
    if outcome != "interrupted":
        return None
    if turn.verdict == "restart":
        return "it made no progress, and its agent is restarted"
    if turn.verdict == "stalled":
        return "it made no progress, and was interrupted for that"
    stopping = session.stopping
    if stopping is None:
        return None
    return stopping.detail or _WHY_STOPPED.get(stopping.cause)


def _seconds(draft: Draft, turn: Turn) -> float:
    """For how long it ran; if nobody measured that, until it was last heard of."""
    ran = draft.situation.ran_seconds
    return max(0.0, draft.before.updated_at - turn.started_at) if ran is None else ran


def cancel_requests(draft: Draft) -> None:
    """Cancel what the turn still waits to be allowed; it will not be done any more."""
    turn = draft.session.turn
    for request in turn.requests if turn is not None else ():
        draft.note("permission_answered", request_id=request.id, decision="cancelled", by="turn")
        draft.do(AnswerRequest(request.id, "cancelled"))


def take_back_steering(draft: Draft) -> None:
    """What the turn was offered and never took is queued again, at its own place.

    What was on its way into a process may or may not have arrived, so it is not sent again.
    """
    for waiting in draft.session.inputs:
        if waiting.status == "staged":
            draft.note("input_changed", inputs={waiting.id: {"status": "queued"}})
        elif waiting.status == "handed":
            settle(draft, waiting, "failed", "unknown")


def begin_stopping(
    draft: Draft,
    cause: Cause,
    detail: str | None = None,
    *,
    failure: Failure | None = None,
    agent_closed: bool = False,
) -> None:
    """Be on the way to the end, and all that live with it too; the first cause wins."""
    first = draft.session.stopping
    failure = failure or (first.failure if first else None)
    draft.note(
        "session_changed",
        stopping={
            "cause": first.cause if first else cause,
            "detail": first.detail if first else detail,
            "after_turn": False,
            "agent_closed": agent_closed,
            "failure": None if failure is None else attrs.asdict(failure),
        },
    )
    draft.do(ClearTimer("suspend"), ClearTimer("backoff"))
    if draft.situation.dependents:
        draft.do(StopDependents())


def finish_stopping(draft: Draft) -> None:
    """Nothing is left of the agent: the end, unless others have to go first.

    Children go before their parent, and younger siblings before older ones.
    """
    session = draft.session
    assert session.stopping is not None
    by_parent = session.stopping.cause == "parent_stopped"
    if not draft.situation.dependents and not (by_parent and draft.situation.has_younger):
        _finalise(draft)
    elif not session.stopping.agent_closed:
        draft.note(
            "session_changed", stopping={**attrs.asdict(session.stopping), "agent_closed": True}
        )


def _finalise(draft: Draft) -> None:
    """The end: inputs are cancelled or held, and the reason is on record."""
    session = draft.session
    assert session.stopping is not None
    failure = session.stopping.failure
    ending = ENDINGS[session.stopping.cause]
    if ending.inputs == "cancelled":
        for waiting in session.inputs:
            settle(draft, waiting, "cancelled", ending.reason)
    shown_detail = session.stopping.detail
    if shown_detail is None and session.stopping.cause in ("cleared", "replaced", "deleted"):
        shown_detail = session.stopping.cause
    draft.note(
        "session_stopped",
        reason=ending.reason,
        detail=shown_detail,
        failure=None if failure is None else attrs.asdict(failure),
    )
    draft.do(ClearTimer("suspend"), ClearTimer("ladder"), ClearTimer("backoff"))


def stop_at_once(draft: Draft, cause: Cause, failure: Failure | None = None) -> None:
    """End a session whose agent is gone already."""
    detail = failure.detail if failure else None
    begin_stopping(draft, cause, detail, failure=failure, agent_closed=True)
    finish_stopping(draft)
