"""Rules for inputs: new text, steering, and changes to waiting inputs.

`queue_problem` in `refusals` refuses an input beyond `queue_cap`; `input_queue` accepts, settles
and expires inputs; `steering` offers one to the running turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from supervisor.core.agent_events import InputsExpired
from supervisor.core.effects import StartAgent
from supervisor.core.endings import BUDGET_REASONS, NOT_RESUMED_BY_INPUT
from supervisor.core.errors import (
    BudgetSpent,
    InputRefused,
    NotRunning,
    SessionNotActive,
    SupervisorError,
    short_repr,
)
from supervisor.core.events import (
    InputEdited,
    InputMoved,
    InputPromoted,
    InputSubmitted,
    InputWithdrawn,
    SteeringSubmitted,
)
from supervisor.core.ids import InputId, TurnId
from supervisor.core.receipts import Receipt
from supervisor.core.state import PendingInput, Phase, SessionState
from supervisor.core.step import Draft
from supervisor.core.validation import expiry_problem

from .input_queue import accept_input, cancel_queue, expire_inputs, settle_input
from .ladder import begin_interrupt
from .refusals import (
    budget_problem,
    queue_problem,
    refuse_any,
    refuse_archived,
    refuse_until_hooks_ran,
    text_problem,
)
from .steering import steer_turn
from .turn_flow import start_next_turn

# New input -------------------------------------------------------------------------------


def submit(draft: Draft, event: InputSubmitted) -> None:
    """Accept an input while no turn runs, and start a turn if nothing prevents it."""
    if draft.state.zombie is not None and event.when_busy == "reject":
        draft.refuse(
            InputRefused(
                f"the task of turn {draft.state.zombie} has not ended yet",
                hint="send it later, or with another when_busy",
            )
        )
        return
    if _is_refused(draft, event):
        return
    _accept(draft, event)
    start_next_turn(draft)
    reply_receipt(draft, event.input)


def submit_while_suspended(draft: Draft, event: InputSubmitted) -> None:
    """Accept an input and wake the suspended session."""
    if _is_refused(draft, event):
        return
    # While all child slots of its parent are taken, the input waits, and so does the session.
    if not draft.tree_view.child_slots_full:
        draft.note("session_resumed", woken=True)
    _accept(draft, event)
    start_next_turn(draft)
    reply_receipt(draft, event.input)


def submit_while_busy(draft: Draft, event: InputSubmitted) -> None:
    """Queue the input, steer or interrupt the running turn, or refuse, by `when_busy`."""
    cancelled = _accept_beside_turn(draft, event, refusal="a turn is running")
    if cancelled is None:
        return
    previous = _open_turn_id(draft)
    if event.when_busy == "steer":
        steer_turn(draft, event.input)
    elif event.when_busy == "interrupt":
        begin_interrupt(draft, reason="replaced by new input")
    reply_receipt(draft, event.input, previous=previous, cancelled=cancelled)


def submit_while_interrupting(draft: Draft, event: InputSubmitted) -> None:
    """Queue the input, steering included, because the running turn is ending."""
    cancelled = _accept_beside_turn(draft, event, refusal="a turn is ending")
    if cancelled is not None:
        previous = _open_turn_id(draft)
        reply_receipt(draft, event.input, previous=previous, cancelled=cancelled)


def _accept_beside_turn(
    draft: Draft, event: InputSubmitted, *, refusal: str
) -> tuple[InputId, ...] | None:
    """Accept an input while a turn is open, and return the inputs that it cancels.

    Refuse and return None if it cannot be accepted.
    """
    if event.when_busy == "reject":
        draft.refuse(InputRefused(refusal, hint="send it later, or with another when_busy"))
        return None
    if _is_refused(draft, event):
        return None
    replaces = event.when_busy == "interrupt"
    cancelled = cancel_queue(draft) if replaces and event.queued == "cancel" else ()
    _accept(draft, event, replacement=replaces)
    return cancelled


def _open_turn_id(draft: Draft) -> TurnId | None:
    return draft.state.turn.id if draft.state.turn else None


def resume_by_input(draft: Draft, event: InputSubmitted) -> None:
    """Resume a stopped session for an input, unless its state or the sender forbids it."""
    session = draft.state
    if session.archived or event.if_stopped == "reject":
        draft.refuse(
            SessionNotActive(
                f"session {session.id} is {'archived' if session.archived else 'stopped'}",
                hint="unarchive it first" if session.archived else "resume it first",
            )
        )
        return
    if session.stop_reason in NOT_RESUMED_BY_INPUT:
        draft.refuse(_auto_resume_error(draft))
        return
    if refuse_any(draft, draft.tree_view.refusal) or _is_refused(draft, event):
        return
    if not event.resume_allowed:
        refuse_until_hooks_ran(draft)
        return
    draft.note("session_resumed", woken=False)
    _accept(draft, event)
    draft.do(StartAgent())
    reply_receipt(draft, event.input)


def _auto_resume_error(draft: Draft) -> SupervisorError:
    """Return the error for input sent to a session whose stop reason forbids auto-resume."""
    session, exhausted_budget = draft.state, draft.tree_view.exhausted_budget
    problem = f"session {session.id} was stopped: {session.stop_detail or session.stop_reason}"
    if session.stop_reason not in BUDGET_REASONS:
        return SessionNotActive(problem, hint=_RESUME_HINTS[session.stop_reason])
    if exhausted_budget is None:
        return BudgetSpent(problem, hint="the budget has room again: resume the session first")
    return BudgetSpent(
        problem,
        hint=(
            f"raise limits.{exhausted_budget.limit} of session {exhausted_budget.owner},"
            " then resume it"
        ),
        limit=exhausted_budget.limit,
        used=exhausted_budget.used,
        allowed=exhausted_budget.allowed,
    )


_RESUME_HINTS: Final[Mapping[str | None, str]] = {
    "ttl_expired": "its expiry cannot be extended: spawn another session, or fork it",
    "fenced": "another supervisor has claimed it: use it there, or resume it here",
}


def _accept(draft: Draft, event: InputSubmitted, *, replacement: bool = False) -> None:
    accept_input(
        draft,
        event.input,
        event.text,
        when_busy=event.when_busy,
        source=event.source,
        expires_at=event.expires_at,
        attachments=event.attachments,
        replacement=replacement,
        trace=event.trace,
    )


def _is_refused(draft: Draft, event: InputSubmitted | SteeringSubmitted) -> bool:
    """Refuse an input with the first of its problems; return True if there is one."""
    problem = _input_problem(draft, event)
    if problem is not None:
        draft.refuse(problem)
    return problem is not None


def _input_problem(
    draft: Draft, event: InputSubmitted | SteeringSubmitted
) -> SupervisorError | None:
    session = draft.state
    attached = event.attachment_bytes if isinstance(event, InputSubmitted) else 0
    problem = text_problem(session, event.text, attached=attached)
    if problem is None and event.expires_at is not None:
        problem = expiry_problem(event.steady_at, event.expires_at)
    if problem is None and draft.tree_view.exhausted_budget is not None:
        problem = budget_problem(draft, begins=not _is_for_running_turn(draft, event))
    if problem is None and not _replaces_all(session, event):
        problem = queue_problem(session)
    return problem


def _replaces_all(session: SessionState, event: InputSubmitted | SteeringSubmitted) -> bool:
    return (
        session.turn is not None
        and isinstance(event, InputSubmitted)
        and event.when_busy == "interrupt"
        and event.queued == "cancel"
    )


def _is_for_running_turn(draft: Draft, event: InputSubmitted | SteeringSubmitted) -> bool:
    """Return True if the input is for the running turn only, and never starts another turn."""
    steers = isinstance(event, SteeringSubmitted) or event.when_busy == "steer"
    return steers and draft.state.phase is Phase.RUNNING


def reply_receipt(
    draft: Draft,
    input_id: InputId,
    *,
    previous: TurnId | None = None,
    cancelled: tuple[InputId, ...] = (),
) -> None:
    """Reply with the receipt of the accepted input."""
    session = draft.state
    waiting = session.find_input(input_id)
    status = "started" if waiting is None else _receipt_status(waiting)
    position = None if waiting is None else session.position(input_id)
    turn, generation = _turn_of(session, waiting), session.generation
    # By position: attrs takes 2,000 instructions more for names.
    draft.accept(
        Receipt(input_id, session.id, status, position, turn, previous, generation, cancelled)
    )


def _receipt_status(waiting: PendingInput) -> Literal["queued", "staged", "interrupting"]:
    if waiting.replacement:
        return "interrupting"
    return "queued" if waiting.status == "queued" else "staged"


def _turn_of(session: SessionState, waiting: PendingInput | None) -> TurnId | None:
    if session.turn is None or (waiting is not None and waiting.status == "queued"):
        return None
    return session.turn.id


# Steering --------------------------------------------------------------------------------


def steer(draft: Draft, event: SteeringSubmitted) -> None:
    """Offer text to the running turn; if the turn does not take the text, queue it."""
    if _is_refused(draft, event):
        return
    accept_input(
        draft,
        event.input,
        event.text,
        when_busy="steer",
        source=event.source,
        expires_at=event.expires_at,
    )
    steer_turn(draft, event.input)
    reply_receipt(draft, event.input)


def refuse_steering(draft: Draft, _: SteeringSubmitted | InputPromoted) -> None:
    """Refuse steering, because no turn is running."""
    draft.refuse(
        NotRunning(
            f"session {draft.state.id} is {draft.state.phase}: there is nothing to steer",
            hint="send it instead: it then starts a turn, or waits in the queue",
        )
    )


# Waiting inputs --------------------------------------------------------------------------


def edit(draft: Draft, event: InputEdited) -> None:
    """Replace the text of a queued input."""
    if _queued_input(draft, event.input) is not None and not refuse_any(
        draft, text_problem(draft.state, event.text)
    ):
        draft.note("input_changed", inputs={event.input: {"text": event.text}})
        draft.accept()


def move(draft: Draft, event: InputMoved) -> None:
    """Move a queued input; the inputs in between exchange their numbers."""
    moved = _queued_input(draft, event.input)
    if moved is None:
        return
    others = [w for w in draft.state.inputs if w.replacement == moved.replacement]
    numbers = [waiting.number for waiting in others]
    others.remove(moved)
    before = len(draft.state.inputs) - len(numbers) if not moved.replacement else 0
    place = min(max(event.position - before, 0), len(others))
    others.insert(place, moved)
    changed = {
        waiting.id: {"number": number}
        for waiting, number in zip(others, numbers, strict=True)
        if waiting.number != number
    }
    if changed:
        draft.note("input_changed", inputs=changed)
    draft.accept()


def promote(draft: Draft, event: InputPromoted) -> None:
    """Offer a queued input to the running turn as steering."""
    waiting = _queued_input(draft, event.input)
    if waiting is not None and waiting.source == "child":
        draft.refuse(
            InputRefused(
                f"input {event.input} is news of children",
                hint="it has its own turn, and more news is added to it until then",
            )
        )
    elif waiting is not None:
        draft.note("input_changed", inputs={event.input: {"when_busy": "steer"}})
        steer_turn(draft, event.input)
        reply_receipt(draft, event.input)


def withdraw(draft: Draft, event: InputWithdrawn) -> None:
    """Cancel a queued input."""
    waiting = _queued_input(draft, event.input)
    if waiting is not None:
        settle_input(draft, waiting, "cancelled")
        draft.accept()


def _queued_input(draft: Draft, input_id: InputId) -> PendingInput | None:
    """Return the queued input with that id.

    Refuse the request and return None if it is not queued.
    """
    if draft.state.archived:
        refuse_archived(draft)
        return None
    waiting = draft.state.find_input(input_id)
    if waiting is None:
        draft.refuse(
            InputRefused(
                f"no input {short_repr(input_id)} is waiting in session {draft.state.id}",
                hint="it was settled already, or never accepted: list the inputs",
            )
        )
        return None
    if waiting.status != "queued":
        draft.refuse(
            InputRefused(
                f"input {input_id} was already offered to the running turn",
                hint="interrupt the turn if it must not be read",
            )
        )
        return None
    return waiting


def expire(draft: Draft, _: InputsExpired) -> None:
    """Settle the inputs that have expired."""
    expire_inputs(draft)
