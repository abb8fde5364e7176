"""The queue of waiting inputs: accept, settle, expire, cancel all; shared by the other rules.

Rule 1: an input is accepted behind all earlier ones, and settled exactly once.
Rule 2: cancelling the queue raises the generation, so that no older input runs any more.

`queue_problem` in `refusals` is the cap of the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from supervisor.core.effects import SetTimer, WithdrawSteering
from supervisor.core.ids import InputId
from supervisor.core.state import InputOutcome, PendingInput, Source, WhenBusy
from supervisor.core.step import Draft


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
    trace: Mapping[str, str] | None = None,
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
        **({"trace": dict(trace)} if trace else {}),
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
        draft.do(SetTimer("expiry", max(0.0, min(times) - draft.event.steady_at)))


def settle_input(
    draft: Draft, waiting: PendingInput, outcome: InputOutcome, detail: str | None = None
) -> None:
    """Record the final outcome of an input, which removes it from the queue.

    The caller makes sure that the input is still waiting.
    """
    draft.note("input_settled", input_id=waiting.id, outcome=outcome, detail=detail)


def expire_inputs(draft: Draft) -> None:
    """Settle every queued input that has expired; set the timer for the next one.

    An input that was offered to the running turn does not expire; it does once it is queued
    again.
    """
    expiring = [waiting for waiting in draft.state.inputs if waiting.expires_at is not None]
    if not expiring:
        return
    for waiting in expiring:
        assert waiting.expires_at is not None
        if waiting.expires_at <= draft.event.steady_at and waiting.status == "queued":
            settle_input(draft, waiting, "expired")
    _set_expiry_timer(draft)


def cancel_queue(draft: Draft, why: str = "interrupted") -> tuple[InputId, ...]:
    """Cancel all queued inputs and raise the generation, so that none of them can run."""
    older = draft.state.inputs
    draft.note("generation_raised", generation=draft.state.generation + 1)
    for waiting in older:
        settle_input(draft, waiting, "cancelled", why)
        if draft.state.turn is not None and waiting.status != "queued":
            draft.do(WithdrawSteering(draft.state.turn.id, waiting.id))
    return tuple(waiting.id for waiting in older)
