"""Rules for steering: text that is offered, sent, taken or declined.

Rule 1: text for a process is recorded as handed before it is sent. Before a driver reports the end
        of a turn, it reports the fate of every text that it sent: taken, declined or unanswered.
        It sends nothing for a turn whose end it has reported.
Rule 2: so a text without such a report has not been sent, and `requeue_steering` queues it again at
        its previous position at the end of the turn.
Rule 3: if the driver's reports are lost (`fail_handed`), or the agent does not answer, the text may
        have been read. It fails with an unknown outcome, and is not sent again.

`turns.adopt_steered_turn` handles steering from which the agent started another turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from supervisor.core.agent_events import SteeringDeclined, SteeringTaken, SteeringUnanswered
from supervisor.core.effects import OfferSteering
from supervisor.core.ids import InputId
from supervisor.core.state import PendingInput, Phase, SessionState, Steering
from supervisor.core.step import Draft

from .input_queue import expire_inputs, settle_input
from .ladder import begin_interrupt


def steer_turn(draft: Draft, input_id: InputId) -> None:
    """Offer an input to the turn; if the agent cannot be steered, use the session's fallback."""
    session = draft.state
    if _steering_mode(session) != "none":
        _offer(draft, input_id)
    elif session.terms.steer_fallback == "interrupt":
        draft.note("input_changed", inputs={input_id: {"replacement": True}})
        begin_interrupt(draft, reason="steered, and the agent takes no steering")


def _steering_mode(session: SessionState) -> Steering:
    # An agent that is still starting is treated like one that takes steering at a boundary.
    return session.agent.capabilities.steering if session.agent else "boundary"


def _offer(draft: Draft, input_id: InputId) -> None:
    session = draft.state
    waiting = session.find_input(input_id)
    assert waiting is not None
    assert session.turn is not None
    native = _steering_mode(session) == "native"
    draft.note("input_changed", inputs={input_id: {"status": "handed" if native else "staged"}})
    draft.do(OfferSteering(session.turn.id, input_id, waiting.text, handed=native))


def reoffer_steering(draft: Draft) -> None:
    """Offer staged steering again, because the capabilities of the agent are known only now."""
    steering = _steering_mode(draft.state)
    if steering == "boundary" or draft.state.phase is not Phase.RUNNING:
        return
    staged = [waiting for waiting in draft.state.inputs if waiting.status == "staged"]
    _requeue(draft, staged)
    for waiting in staged:
        if draft.state.find_input(waiting.id) is not None:
            steer_turn(draft, waiting.id)


def decline_steering(draft: Draft, event: SteeringDeclined) -> None:
    """Queue the inputs again, because the agent has not taken them."""
    _requeue(draft, _handed_inputs(draft, event))


def fail_unanswered(draft: Draft, event: SteeringUnanswered) -> None:
    """Fail the inputs: the agent has not said whether it took them."""
    for waiting in _handed_inputs(draft, event):
        settle_input(draft, waiting, "failed", "unknown")


def _handed_inputs(
    draft: Draft, event: SteeringDeclined | SteeringUnanswered
) -> list[PendingInput]:
    """Return the inputs of the event that are still handed to its turn."""
    session = draft.state
    if session.turn is None or session.turn.id != event.turn:
        return []
    found = map(session.find_input, event.inputs)
    return [one for one in found if one is not None and one.status == "handed"]


def take_steering(draft: Draft, event: SteeringTaken) -> None:
    """Settle the inputs that the turn has taken."""
    session = draft.state
    if session.turn is None or session.turn.id != event.turn:
        return
    for input_id in event.inputs:
        waiting = session.find_input(input_id)
        if waiting is not None and waiting.status != "queued":
            note_steered(draft, waiting)


def note_steered(draft: Draft, waiting: PendingInput) -> None:
    """Settle an input as steered, and record its text as part of the turn."""
    settle_input(draft, waiting, "steered")
    how = "native" if waiting.status == "handed" else "boundary"
    draft.note("steered", input_id=waiting.id, how=how)
    draft.note("user_text", text=waiting.text, part=waiting.id, steered=True)


def requeue_steering(draft: Draft) -> None:
    """Queue all inputs again that were offered to the turn and not taken, at their places."""
    _requeue(draft, [waiting for waiting in draft.state.inputs if waiting.status != "queued"])


def _requeue(draft: Draft, offered: Sequence[PendingInput]) -> None:
    """Queue offered inputs again; settle those that have expired meanwhile."""
    for waiting in offered:
        draft.note("input_changed", inputs={waiting.id: {"status": "queued"}})
    if offered:
        expire_inputs(draft)


def fail_handed(draft: Draft) -> None:
    """Fail all handed inputs, because no driver will report whether it sent them."""
    for waiting in draft.state.inputs:
        if waiting.status == "handed":
            settle_input(draft, waiting, "failed", "unknown")
