"""Interrupts: exactly what was named, by a ladder whose last step cannot be refused.

Rule 1: an interrupt whose target is over, or was never there, changes nothing and says so; it can
        never hit the next turn, because it names the one it means.
Rule 2: what replaces the turn is accepted in the same step, so it is durable before anything is
        cancelled.
"""

from __future__ import annotations

from supervisor.core.effects import (
    AbandonTurn,
    CancelCall,
    CancelTurn,
    EndBackground,
    SetTimer,
    WithdrawSteering,
)
from supervisor.core.errors import SessionNotActive
from supervisor.core.events import InterruptRequested, LadderElapsed
from supervisor.core.ids import CallId, InputId
from supervisor.core.receipts import InterruptReport
from supervisor.core.session import LadderStep, Session, Turn
from supervisor.core.step import Draft, UnderWay

from .after import go_on
from .door import budget_problem, queue_problem, refused, text_problem
from .flow import accept_input, cancel_requests, end_turn, settle


def interrupt(draft: Draft, event: InterruptRequested) -> None:
    """A turn is open: interrupt it, or one call in it, if it is the one that was meant."""
    turn = draft.session.turn
    if turn is None or (event.turn is not None and event.turn != turn.id):
        miss(draft, event)
    elif event.call is not None:
        _interrupt_call(draft, event)
    elif not _replacement_refused(draft, event):
        _accept_replacement(draft, event)
        begin_interrupt(draft, reason=event.reason)
        _end_background(draft, event)
        draft.accept(UnderWay(turn.id))


def join(draft: Draft, event: InterruptRequested) -> None:
    """The session is stopping, and its turn is being interrupted already."""
    turn = draft.session.turn
    if turn is None or event.turn not in (None, turn.id) or not _has_call(turn, event.call):
        miss(draft, event)
    elif event.replace_with is not None:
        draft.refuse(
            SessionNotActive(
                f"session {draft.session.id} is stopping",
                hint="wait until it is stopped, then send the text, which resumes it",
            )
        )
    else:
        draft.accept(UnderWay(turn.id, event.call))


def _has_call(turn: Turn, call_id: CallId | None) -> bool:
    return call_id is None or any(call.id == call_id for call in turn.calls)


def miss(draft: Draft, event: InterruptRequested) -> None:
    """Nothing of that name is running."""
    _end_background(draft, event)
    named = event.turn is not None or event.call is not None
    scope = "tool_call" if event.call is not None else "turn"
    another_runs = draft.session.turn is not None and event.turn is not None
    draft.accept(InterruptReport(scope, already_over=int(named), stale=int(another_runs)))


def _end_background(draft: Draft, event: InterruptRequested) -> None:
    if event.whole and draft.session.agent is not None:
        draft.do(EndBackground())


def _interrupt_call(draft: Draft, event: InterruptRequested) -> None:
    turn = draft.session.turn
    assert turn is not None
    call = next((call for call in turn.calls if call.id == event.call), None)
    if call is None:
        draft.accept(InterruptReport("tool_call", already_over=1))
    elif not call.cancellable:
        draft.accept(InterruptReport("tool_call", matched=1, unreachable=1))
    else:
        draft.note(
            "interrupted", scope="tool_call", call_id=call.id, reason=event.reason, step=None
        )
        draft.do(CancelCall(turn.id, call.id))
        draft.accept(UnderWay(turn.id, call.id))


def _replacement_refused(draft: Draft, event: InterruptRequested) -> bool:
    if event.replace_with is None:
        return False
    full = queue_problem(draft.session) if event.queued == "keep" else None
    return refused(
        draft, text_problem(draft.session, event.replace_with), budget_problem(draft), full
    )


def _accept_replacement(draft: Draft, event: InterruptRequested) -> None:
    if event.queued == "cancel":
        cancel_queue(draft)
    if event.replace_with is not None:
        assert event.replacement is not None
        accept_input(
            draft,
            event.replacement,
            event.replace_with,
            when_busy="interrupt",
            source="user",
            expires_at=event.replacement_expires_at,
            replacement=True,
        )


def cancel_queue(draft: Draft, why: str = "interrupted") -> tuple[InputId, ...]:
    """Cancel all that waits, and fence it: nothing of an older generation runs any more."""
    older = draft.session.inputs
    draft.note("generation_raised", generation=draft.session.generation + 1)
    for waiting in older:
        settle(draft, waiting, "cancelled", why)
        if draft.session.turn is not None and waiting.status != "queued":
            draft.do(WithdrawSteering(draft.session.turn.id, waiting.id))
    return tuple(waiting.id for waiting in older)


def begin_interrupt(draft: Draft, *, reason: str | None) -> None:
    """Take the first step of the ladder, unless somebody has taken it already."""
    turn = draft.session.turn
    assert turn is not None
    if turn.step is None:
        cancel_requests(draft)
        _step(draft, ladder_of(draft.session)[0], reason)


def climb(draft: Draft, event: LadderElapsed) -> None:
    """A step was not enough: the next one, or the end of it."""
    session = draft.session
    turn = session.turn
    if turn is None or turn.id != event.turn or turn.step != event.step:
        return
    steps = ladder_of(session)
    place = steps.index(event.step) + 1 if event.step in steps else len(steps)
    if place < len(steps):
        _step(draft, steps[place], None)
        return
    draft.do(AbandonTurn(turn.id))
    ended = end_turn(draft, "interrupted", stop_reason="cancelled", said=event.said, zombie=True)
    go_on(draft, ended)


def ladder_of(session: Session) -> tuple[LadderStep, ...]:
    """The steps that mean something to the agent; asking always does."""
    steps = session.agent.capabilities.ladder if session.agent else ()
    return steps or ("ask",)


def _step(draft: Draft, step: LadderStep, reason: str | None) -> None:
    turn = draft.session.turn
    assert turn is not None
    draft.note("interrupted", scope="turn", turn_id=turn.id, reason=reason, step=step)
    seconds: float = getattr(draft.session.terms.ladder, f"{step}_seconds")
    draft.do(CancelTurn(turn.id, step), SetTimer("ladder", seconds))
