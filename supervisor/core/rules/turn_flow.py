"""Shared parts of the rules: accept an input, start and end a turn, stop or restart.

Rule 1: `start_next_turn` is the only place that starts a turn between turns, so no input
        overtakes another.
Rule 2: the end of a turn closes everything that is open in it, in the same step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from supervisor.core.effects import (
    AnswerRequest,
    ClearCallTimer,
    ClearTimer,
    CloseAgent,
    SetTimer,
    StartTurn,
    StopDependents,
)
from supervisor.core.ids import InputId
from supervisor.core.liveness import first_check_seconds
from supervisor.core.state import (
    ENDINGS,
    Cause,
    Failure,
    InputOutcome,
    OpenCall,
    OpenTurn,
    Outcome,
    PendingInput,
    Phase,
    Source,
    WhenBusy,
)
from supervisor.core.step import Draft
from supervisor.core.text import TurnOutput

NO_OUTPUT: Final = TurnOutput()


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
    """Record an input as accepted, behind all earlier ones."""
    draft.note(
        "input_accepted",
        input_id=input_id,
        text=text,
        when_busy=when_busy,
        number=draft.state.accepted + 1,
        source=source,
        generation=draft.state.generation,
        expires_at=expires_at,
        attachments=list(attachments),
        replacement=replacement,
    )
    if expires_at is not None:
        _set_expiry_timer(draft)


def _set_expiry_timer(draft: Draft) -> None:
    """Set the timer for the queued input that expires first."""
    times = [
        waiting.expires_at
        for waiting in draft.state.inputs
        if waiting.expires_at is not None and waiting.status == "queued"
    ]
    if times:
        draft.do(SetTimer("expiry", max(0.0, min(times) - draft.at)))


def settle_input(
    draft: Draft, waiting: PendingInput, outcome: InputOutcome, detail: str | None = None
) -> None:
    """Settle an input, once."""
    draft.note("input_settled", input_id=waiting.id, outcome=outcome, detail=detail)


def expire_inputs(draft: Draft) -> None:
    """Settle every queued input that has expired; set the timer for the next one.

    An input that was offered to the running turn does not expire; it does once it is queued
    again.
    """
    for waiting in draft.state.inputs:
        due = waiting.expires_at is not None and waiting.expires_at <= draft.at
        if due and waiting.status == "queued":
            settle_input(draft, waiting, "expired")
    _set_expiry_timer(draft)


def start_next_turn(draft: Draft) -> None:
    """Start a turn with the first waiting input, if nothing prevents it."""
    expire_inputs(draft)
    session = draft.state
    if session.phase is not Phase.IDLE:
        return
    if session.leaving or draft.tree_view.shutting_down:
        suspend_session(draft)
        return
    if session.zombie is not None:
        return
    if not session.inputs:
        if session.terms.suspend_after_seconds is not None:
            draft.do(SetTimer("suspend", session.terms.suspend_after_seconds))
    elif draft.tree_view.exhausted_budget is not None:
        stop_for_budget(draft)
    elif not draft.tree_view.turn_slots_full:
        _start_turn(draft, session.inputs[0])


def _start_turn(draft: Draft, first: PendingInput) -> None:
    known = draft.state.remembered
    untold = 0 if known is None else known.untold or 0
    settle_input(draft, first, "delivered")
    begin_turn(draft, first)
    draft.do(StartTurn(draft.fresh, first.id, first.text, first.attachments, untold))


def begin_turn(draft: Draft, first: PendingInput) -> None:
    """Open a turn on an input that has been settled as delivered."""
    draft.note("turn_started", turn_id=draft.fresh, input_id=first.id, source=first.source)
    draft.note("user_text", text=first.text, part=first.id)
    terms = draft.state.terms
    draft.do(ClearTimer("suspend"), SetTimer("silence", first_check_seconds(terms)))
    if terms.turn_deadline_seconds is not None:
        draft.do(SetTimer("deadline", terms.turn_deadline_seconds))


def stop_for_budget(draft: Draft) -> None:
    """Stop the session, because a budget that applies to it is exhausted."""
    exhausted_budget = draft.tree_view.exhausted_budget
    assert exhausted_budget is not None
    begin_stopping(draft, exhausted_budget.cause, str(exhausted_budget))
    draft.do(CloseAgent())


def suspend_session(draft: Draft) -> None:
    """Close the agent until there is work for it; waiting inputs are kept."""
    draft.note("session_suspended")
    draft.do(CloseAgent(), ClearTimer("suspend"), ClearTimer("backoff"))


def end_turn(
    draft: Draft,
    outcome: Outcome,
    *,
    stop_reason: str | None = None,
    output: TurnOutput = NO_OUTPUT,
    error: str | None = None,
    zombie: bool = False,
) -> OpenTurn:
    """Close the open turn and everything open in it; return the turn as it was."""
    turn = draft.state.turn
    assert turn is not None
    if turn.verdict == "timed_out" and outcome == "interrupted":
        outcome = "timed_out"
    cancel_requests(draft)
    for call in turn.calls:
        end_call(draft, call, "interrupted")
    requeue_steering(draft)
    draft.note(
        "turn_ended",
        turn_id=turn.id,
        outcome=outcome,
        stop_reason=stop_reason,
        text=output.text,
        messages=output.messages,
        error=error or _interrupt_error(draft, turn, outcome),
        zombie=zombie,
        ladder_step=turn.step,
        seconds=_turn_seconds(draft, turn),
        usage={
            "input_tokens": turn.usage.input_tokens,
            "output_tokens": turn.usage.output_tokens,
            "cost": turn.usage.cost,
        },
    )
    draft.do(ClearTimer("ladder"), ClearTimer("silence"), ClearTimer("deadline"))
    if turn.verdict == "clear":
        start_chapter(draft)
    return turn


def end_call(
    draft: Draft,
    call: OpenCall,
    outcome: Literal["completed", "failed", "interrupted"],
    result: object = None,
) -> None:
    """Record the end of a call; an interrupt of it is over."""
    draft.note("tool_ended", call_id=call.id, name=call.name, outcome=outcome, result=result)
    if call.interrupt == "asked":
        draft.do(ClearCallTimer(call.id))


def start_chapter(draft: Draft) -> None:
    """Start a new chapter of the conversation; the records stay."""
    draft.note("session_cleared", chapter=draft.state.chapter + 1)
    if draft.state.agent is not None:
        # The agent remembers the old chapter; the next turn starts one that does not.
        draft.note("session_changed", agent_gone=True)
        draft.do(CloseAgent())


# The error of a turn's result, by stop cause; a stop by a person needs no error.
_STOP_ERRORS: Final[Mapping[Cause, str]] = {
    "ttl_expired": "its session has expired",
    "parent_stopped": "the parent of its session has stopped",
    "deleted": "its session was deleted",
    "replaced": "its session was replaced by another one",
}


def _interrupt_error(draft: Draft, turn: OpenTurn, outcome: Outcome) -> str | None:
    """Return the error text for a turn that the supervisor interrupted, or None."""
    session = draft.state
    if outcome == "timed_out":
        return f"it exceeded its deadline of {session.terms.turn_deadline_seconds} s"
    if outcome != "interrupted":
        return None
    if turn.verdict == "restart":
        return "it made no progress, and its agent is restarted"
    if turn.verdict == "stalled":
        return "it made no progress, and was interrupted"
    stopping = session.stopping
    if stopping is None:
        return None
    return stopping.detail or _STOP_ERRORS.get(stopping.cause)


def _turn_seconds(draft: Draft, turn: OpenTurn) -> float:
    """Return the measured duration of the turn, else the time up to the session's last write."""
    ran = draft.tree_view.ran_seconds
    return max(0.0, draft.before.updated_at - turn.started_at) if ran is None else ran


def cancel_requests(draft: Draft) -> None:
    """Cancel the open permission requests of the turn."""
    turn = draft.state.turn
    for request in turn.requests if turn is not None else ():
        draft.note("permission_answered", request_id=request.id, decision="cancelled", by="turn")
        draft.do(AnswerRequest(request.id, "cancelled"))


def requeue_steering(draft: Draft) -> None:
    """Queue staged inputs again at their places, and fail handed ones.

    A handed input may or may not have reached the process, so it is not sent again.
    """
    for waiting in draft.state.inputs:
        if waiting.status == "staged":
            draft.note("input_changed", inputs={waiting.id: {"status": "queued"}})
        elif waiting.status == "handed":
            settle_input(draft, waiting, "failed", "unknown")


def begin_stopping(
    draft: Draft,
    cause: Cause,
    detail: str | None = None,
    *,
    failure: Failure | None = None,
    agent_closed: bool = False,
) -> None:
    """Begin to stop the session and its dependents; the first cause wins."""
    first = draft.state.stopping
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
    if draft.tree_view.dependents:
        draft.do(StopDependents())


def finish_stopping(draft: Draft) -> None:
    """Record the stop, unless other sessions must stop first; the agent is gone.

    Children stop before their parent, and younger siblings before older ones.
    """
    session = draft.state
    assert session.stopping is not None
    by_parent = session.stopping.cause == "parent_stopped"
    if not draft.tree_view.dependents and not (by_parent and draft.tree_view.has_younger_sibling):
        _record_stop(draft)
    elif not session.stopping.agent_closed:
        draft.note(
            "session_changed", stopping={**attrs.asdict(session.stopping), "agent_closed": True}
        )


def _record_stop(draft: Draft) -> None:
    """Record the stop; waiting inputs are cancelled or held."""
    session = draft.state
    assert session.stopping is not None
    failure = session.stopping.failure
    ending = ENDINGS[session.stopping.cause]
    if ending.inputs == "cancelled":
        for waiting in session.inputs:
            settle_input(draft, waiting, "cancelled", ending.reason)
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
    """Stop a session whose agent is gone already."""
    detail = failure.detail if failure else None
    begin_stopping(draft, cause, detail, failure=failure, agent_closed=True)
    finish_stopping(draft)


MAX_DOUBLINGS: Final = 16

STALL_ERROR: Final = "the turn made no progress"


def continue_after_turn(draft: Draft, ended: OpenTurn | None = None) -> None:
    """Stop if that was requested, else start the next turn.

    `ended` is the turn, whose verdict may require another agent.
    """
    session = draft.state
    if session.stopping is not None:
        if session.phase is not Phase.STOPPING:
            begin_stopping(draft, session.stopping.cause, session.stopping.detail)
        draft.do(CloseAgent())
    elif ended is not None and ended.verdict == "restart":
        draft.do(CloseAgent())
        restart_or_stop(draft, Failure("timeout", STALL_ERROR), jitter=0.0)
    elif draft.tree_view.exhausted_budget is not None and session.phase is Phase.IDLE:
        stop_for_budget(draft)
    else:
        start_next_turn(draft)


def restart_or_stop(draft: Draft, failure: Failure, *, jitter: float) -> None:
    """Start another agent after a pause, or stop if there were too many restarts."""
    session = draft.state
    terms = session.terms.restart
    recent = (
        *(at for at in session.recent_restarts if draft.at - at <= terms.within_seconds),
        draft.at,
    )
    if terms.policy == "never" or len(recent) > terms.max_restarts:
        stop_at_once(draft, "stalled" if failure.kind == "timeout" else "process_exited", failure)
        return
    doubled = terms.backoff_seconds * 2.0 ** min(len(recent) - 1, MAX_DOUBLINGS)
    after_seconds = doubled * (1.0 - jitter / 2.0)
    draft.note(
        "agent_restarting",
        attempt=len(recent),
        after_seconds=after_seconds,
        failure=attrs.asdict(failure),
        recent=list(recent),
    )
    if session.leaving:
        suspend_session(draft)
    else:
        draft.do(SetTimer("backoff", after_seconds))
