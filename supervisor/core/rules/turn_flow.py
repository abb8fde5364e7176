"""The start and the end of a turn, and what follows it; shared by the rules above.

Rule 1: `start_next_turn` is the only place that starts a turn between turns, so no input
        overtakes another.
Rule 2: the end of a turn closes everything that is open in it, in the same step: permission
        requests, tool calls, and steering that the turn has not taken.
Rule 3: after a turn, a requested stop comes first, then a restart of the agent, then the next
        input.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, Literal

from supervisor.core.effects import ClearCallTimer, ClearTimer, CloseAgent, SetTimer, StartTurn
from supervisor.core.endings import Cause
from supervisor.core.liveness import first_check_seconds
from supervisor.core.state import (
    IDLE,
    STOPPING,
    Failure,
    OpenCall,
    OpenTurn,
    Outcome,
    PendingInput,
)
from supervisor.core.step import Draft
from supervisor.core.text import TurnOutput

from .input_queue import expire_inputs, settle_input
from .permission_requests import cancel_requests
from .restarts import restart_or_stop
from .steering import requeue_steering
from .stopping import begin_stopping, start_chapter, stop_for_budget, suspend_session

NO_OUTPUT: Final = TurnOutput()


def start_next_turn(draft: Draft) -> None:
    """Start a turn with the first waiting input, if nothing prevents it."""
    if draft.state.inputs:
        expire_inputs(draft)
    session, view = draft.state, draft.tree_view
    if session.phase is not IDLE:
        return
    if session.leaving or view.shutting_down:
        suspend_session(draft)
        return
    if session.zombie is not None:
        return
    if not session.inputs:
        if session.terms.suspend_after_seconds is not None:
            draft.do(SetTimer("suspend", session.terms.suspend_after_seconds))
    elif view.exhausted_budget is not None:
        stop_for_budget(draft)
    elif not view.turn_slots_full:
        _start_turn(draft, session.inputs[0])


def _start_turn(draft: Draft, first: PendingInput) -> None:
    known = draft.state.remembered
    untold = 0 if known is None else known.untold or 0
    settle_input(draft, first, "delivered")
    begin_turn(draft, first)
    turn = StartTurn(
        draft.event.fresh, first.id, first.text, first.attachments, untold, first.trace
    )
    draft.do(turn)


def begin_turn(draft: Draft, first: PendingInput) -> None:
    """Open a turn on an input that has been settled as delivered."""
    draft.note("turn_started", turn_id=draft.event.fresh, input_id=first.id, source=first.source)
    draft.note("user_text", text=first.text, part=first.id)
    terms = draft.state.terms
    # The timer "suspend" may stay: a session that runs ignores it, and it is set again at the end.
    draft.do(SetTimer("silence", first_check_seconds(terms)))
    if terms.turn_deadline_seconds is not None:
        draft.do(SetTimer("deadline", terms.turn_deadline_seconds))


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
    if turn.requests:
        cancel_requests(draft)
    for call in turn.calls:
        end_call(draft, call, "interrupted")
    if draft.state.inputs:
        requeue_steering(draft)
    used = turn.usage
    note = partial(draft.note, truncated=True) if output.truncated else draft.note
    note(
        "turn_ended",
        turn_id=turn.id,
        outcome=outcome,
        stop_reason=stop_reason,
        text=output.text,
        messages=output.messages,
        error=error or (None if outcome == "completed" else _interrupt_error(draft, turn, outcome)),
        zombie=zombie,
        ladder_step=turn.step,
        seconds=_turn_seconds(draft, turn),
        usage={
            "input_tokens": used.input_tokens,
            "output_tokens": used.output_tokens,
            "cost": used.cost,
        },
    )
    # The timer "silence" may stay: without a turn there is no silence, and the next turn sets it.
    if turn.step is not None:
        draft.do(ClearTimer("ladder"))
    if draft.state.terms.turn_deadline_seconds is not None:
        draft.do(ClearTimer("deadline"))
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


STALL_ERROR: Final = "the turn made no progress"


def continue_after_turn(draft: Draft, ended: OpenTurn | None = None) -> None:
    """Stop if that was requested, else start the next turn.

    `ended` is the turn, whose verdict may require another agent.
    """
    session = draft.state
    if session.stopping is not None:
        if session.phase is not STOPPING:
            begin_stopping(draft, session.stopping.cause, session.stopping.detail)
        draft.do(CloseAgent())
    elif ended is not None and ended.verdict == "restart":
        draft.do(CloseAgent())
        restart_or_stop(draft, Failure("timeout", STALL_ERROR), jitter=0.0)
    elif draft.tree_view.exhausted_budget is not None and session.phase is IDLE:
        stop_for_budget(draft)
    else:
        start_next_turn(draft)
