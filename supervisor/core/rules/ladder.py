"""The ladder of an interrupted turn: its steps, and how one is taken.

Rule 1: a turn takes the first step once, however many interrupts hit it.
Rule 2: each step has a timer; `interrupts.escalate` takes the next step when the timer elapses.
"""

from __future__ import annotations

from supervisor.core.effects import CancelTurn, SetTimer
from supervisor.core.state import LadderStep, SessionState
from supervisor.core.step import Draft

from .permission_requests import cancel_requests


def begin_interrupt(draft: Draft, *, reason: str | None) -> None:
    """Take the first step of the ladder, unless an interrupt is in progress."""
    turn = draft.state.turn
    assert turn is not None
    if turn.step is None:
        cancel_requests(draft)
        take_step(draft, ladder_steps(draft.state)[0], reason)


def ladder_steps(session: SessionState) -> tuple[LadderStep, ...]:
    """Return the ladder steps that apply to the agent; `ask` is always one of them."""
    steps = session.agent.capabilities.ladder if session.agent else ()
    return steps or ("ask",)


def take_step(draft: Draft, step: LadderStep, reason: str | None) -> None:
    """Record the step, and cancel the turn by it until its seconds elapse."""
    turn = draft.state.turn
    assert turn is not None
    draft.note("interrupted", scope="turn", turn_id=turn.id, reason=reason, step=step)
    seconds: float = getattr(draft.state.terms.ladder, f"{step}_seconds")
    draft.do(CancelTurn(turn.id, step), SetTimer("ladder", seconds))
