"""Input: new text, guidance for the running turn, and what can be done to text that waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from supervisor.core.effects import StartAgent
from supervisor.core.errors import (
    BudgetSpent,
    InputRefused,
    NotRunning,
    SessionNotActive,
    SupervisorError,
    shown,
)
from supervisor.core.events import (
    InputEdited,
    InputMoved,
    InputPromoted,
    InputsExpired,
    InputSubmitted,
    InputWithdrawn,
    SteeringSubmitted,
)
from supervisor.core.ids import InputId, TurnId
from supervisor.core.receipts import Receipt
from supervisor.core.session import (
    NOT_RESUMED_BY_INPUT,
    SPENT_REASONS,
    Phase,
    Session,
    Waiting,
)
from supervisor.core.step import Draft

from .door import (
    budget_problem,
    expiry_problem,
    queue_problem,
    refuse_archived,
    refuse_before_hooks,
    refused,
    text_problem,
)
from .flow import accept_input, expire_inputs, settle, start_next
from .interrupts import begin_interrupt, cancel_queue
from .steering import steer_with

# New input -------------------------------------------------------------------------------


def submit(draft: Draft, event: InputSubmitted) -> None:
    """The session is free: the input begins a turn, unless something keeps it waiting."""
    if draft.session.zombie is not None and event.when_busy == "reject":
        draft.refuse(
            InputRefused(
                f"turn {draft.session.zombie} is over, but its task will not end",
                hint="send it later, or with another when_busy",
            )
        )
        return
    if _not_taken(draft, event):
        return
    _accept(draft, event)
    start_next(draft)
    give_receipt(draft, event.input)


def wake(draft: Draft, event: InputSubmitted) -> None:
    """A suspended session gets up by itself."""
    if _not_taken(draft, event):
        return
    # While its parent has as many children up as it may, the input waits, and so does the session.
    if not draft.situation.no_place:
        draft.note("session_resumed", woken=True)
    _accept(draft, event)
    start_next(draft)
    give_receipt(draft, event.input)


def submit_while_busy(draft: Draft, event: InputSubmitted) -> None:
    """A turn is running: queue, steer, interrupt it, or go away, as the sender wishes."""
    session = draft.session
    if event.when_busy == "reject":
        draft.refuse(
            InputRefused("a turn is running", hint="send it later, or with another when_busy")
        )
        return
    if _not_taken(draft, event):
        return
    wish = event.when_busy
    previous = session.turn.id if session.turn else None
    cancelled: tuple[InputId, ...] = ()
    if wish == "interrupt" and event.queued == "cancel":
        cancelled = cancel_queue(draft)
    _accept(draft, event, replacement=wish == "interrupt")
    if wish == "steer":
        steer_with(draft, event.input)
    elif wish == "interrupt":
        begin_interrupt(draft, reason="replaced by new input")
    give_receipt(draft, event.input, previous=previous, cancelled=cancelled)


def submit_while_interrupting(draft: Draft, event: InputSubmitted) -> None:
    """The turn is on its way out, so guidance for it can only wait for the next."""
    session = draft.session
    if event.when_busy == "reject":
        draft.refuse(
            InputRefused("a turn is ending", hint="send it later, or with another when_busy")
        )
        return
    if _not_taken(draft, event):
        return
    previous = session.turn.id if session.turn else None
    cancelled: tuple[InputId, ...] = ()
    if event.when_busy == "interrupt" and event.queued == "cancel":
        cancelled = cancel_queue(draft)
    _accept(draft, event, replacement=event.when_busy == "interrupt")
    give_receipt(draft, event.input, previous=previous, cancelled=cancelled)


def resume_by_input(draft: Draft, event: InputSubmitted) -> None:
    """A stopped session comes back for a message, unless it may not, or the sender says no."""
    session = draft.session
    if session.archived or event.if_stopped == "reject":
        draft.refuse(
            SessionNotActive(
                f"session {session.id} is {'archived' if session.archived else 'stopped'}",
                hint="unarchive it first" if session.archived else "resume it first",
            )
        )
        return
    if session.stop_reason in NOT_RESUMED_BY_INPUT:
        draft.refuse(_not_undone(draft))
        return
    if refused(draft, draft.situation.refusal) or _not_taken(draft, event):
        return
    if not event.may_return:
        refuse_before_hooks(draft)
        return
    draft.note("session_resumed", woken=False)
    _accept(draft, event)
    draft.do(StartAgent())
    give_receipt(draft, event.input)


def _not_undone(draft: Draft) -> SupervisorError:
    """A message does not undo why it was stopped; says what would."""
    session, shortage = draft.session, draft.situation.shortage
    problem = f"session {session.id} was stopped: {session.stop_detail or session.stop_reason}"
    if session.stop_reason not in SPENT_REASONS:
        return SessionNotActive(problem, hint=_WHAT_UNDOES[session.stop_reason])
    if shortage is None:
        return BudgetSpent(problem, hint="there is something left again: resume it first")
    return BudgetSpent(
        problem,
        hint=f"raise limits.{shortage.limit} of session {shortage.owner}, then resume it",
        limit=shortage.limit,
        used=shortage.used,
        allowed=shortage.allowed,
    )


_WHAT_UNDOES: Final[Mapping[str | None, str]] = {
    "ttl_expired": "nothing gives it more time: spawn another, or fork it",
    "fenced": "another supervisor has claimed it: look there, or resume it here",
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
    )


def _not_taken(draft: Draft, event: InputSubmitted | SteeringSubmitted) -> bool:
    attached = event.attachment_bytes if isinstance(event, InputSubmitted) else 0
    replaces_all = (
        isinstance(event, InputSubmitted)
        and event.when_busy == "interrupt"
        and event.queued == "cancel"
        and draft.session.turn is not None
    )
    return refused(
        draft,
        text_problem(draft.session, event.text, attached=attached),
        expiry_problem(event.at, event.expires_at),
        budget_problem(draft, begins=not _steers(draft, event)),
        None if replaces_all else queue_problem(draft.session),
    )


def _steers(draft: Draft, event: InputSubmitted | SteeringSubmitted) -> bool:
    """Whether it is for the turn that runs, and needs no other."""
    steers = isinstance(event, SteeringSubmitted) or event.when_busy == "steer"
    return steers and draft.session.phase is Phase.RUNNING


def give_receipt(
    draft: Draft,
    input_id: InputId,
    *,
    previous: TurnId | None = None,
    cancelled: tuple[InputId, ...] = (),
) -> None:
    """Tell the sender what became of an input that was just accepted."""
    session = draft.session
    waiting = session.find_input(input_id)
    draft.accept(
        Receipt(
            input_id=input_id,
            session_id=session.id,
            status="started" if waiting is None else _status(waiting),
            position=None if waiting is None else session.position(input_id),
            turn_id=_turn_of(session, waiting),
            previous_turn_id=previous,
            generation=session.generation,
            cancelled=cancelled,
        )
    )


def _status(waiting: Waiting) -> Literal["queued", "staged", "interrupting"]:
    if waiting.replacement:
        return "interrupting"
    return "queued" if waiting.status == "queued" else "staged"


def _turn_of(session: Session, waiting: Waiting | None) -> TurnId | None:
    if session.turn is None or (waiting is not None and waiting.status == "queued"):
        return None
    return session.turn.id


# Guidance --------------------------------------------------------------------------------


def steer(draft: Draft, event: SteeringSubmitted) -> None:
    """Guidance for the running turn; what it does not take waits for the next one."""
    if _not_taken(draft, event):
        return
    accept_input(
        draft,
        event.input,
        event.text,
        when_busy="steer",
        source=event.source,
        expires_at=event.expires_at,
    )
    steer_with(draft, event.input)
    give_receipt(draft, event.input)


def refuse_steering(draft: Draft, _: SteeringSubmitted | InputPromoted) -> None:
    """No turn is running that could take it."""
    draft.refuse(
        NotRunning(
            f"session {draft.session.id} is {draft.session.phase}: there is nothing to steer",
            hint="send it instead: it then begins a turn, or waits for its own",
        )
    )


# What waits ------------------------------------------------------------------------------


def edit(draft: Draft, event: InputEdited) -> None:
    """Another text for an input that still waits in the queue."""
    if _waiting(draft, event.input) is not None and not refused(
        draft, text_problem(draft.session, event.text)
    ):
        draft.note("input_changed", inputs={event.input: {"text": event.text}})
        draft.accept()


def move(draft: Draft, event: InputMoved) -> None:
    """Another place in the queue: those in between get each other's numbers."""
    moved = _waiting(draft, event.input)
    if moved is None:
        return
    others = [w for w in draft.session.inputs if w.replacement == moved.replacement]
    numbers = [waiting.number for waiting in others]
    others.remove(moved)
    before = len(draft.session.inputs) - len(numbers) if not moved.replacement else 0
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
    """What waits in the queue becomes guidance for the running turn."""
    waiting = _waiting(draft, event.input)
    if waiting is not None and waiting.source == "child":
        draft.refuse(
            InputRefused(
                f"input {event.input} is news of children",
                hint="it has its own turn, and grows with what else they do until then",
            )
        )
    elif waiting is not None:
        draft.note("input_changed", inputs={event.input: {"when_busy": "steer"}})
        steer_with(draft, event.input)
        give_receipt(draft, event.input)


def withdraw(draft: Draft, event: InputWithdrawn) -> None:
    """Cancel an input that still waits in the queue."""
    waiting = _waiting(draft, event.input)
    if waiting is not None:
        settle(draft, waiting, "cancelled")
        draft.accept()


def _waiting(draft: Draft, input_id: InputId) -> Waiting | None:
    """The queued input of that id; refuses and gives None if there is none."""
    if draft.session.archived:
        refuse_archived(draft)
        return None
    waiting = draft.session.find_input(input_id)
    if waiting is None:
        draft.refuse(
            InputRefused(
                f"no input {shown(input_id)} is waiting in session {draft.session.id}",
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
    """The time of some inputs may be over."""
    expire_inputs(draft)
