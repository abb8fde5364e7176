"""Rules for steering: text that is offered, sent, taken or declined.

Rule 1: text for a process is recorded as handed before it is sent; if the agent never reports
        whether it took the text, the text is not sent again.
Rule 2: an agent that takes steering at a boundary reports it; `requeue_steering` queues text that
        was not taken by the end of the turn again, at its previous position.

`turns.adopt_steered_turn` handles steering from which the agent started another turn.
"""

from __future__ import annotations

from supervisor.core.agent_events import SteeringDeclined, SteeringTaken
from supervisor.core.effects import OfferSteering
from supervisor.core.ids import InputId
from supervisor.core.state import PendingInput, Phase, SessionState, Steering
from supervisor.core.step import Draft

from .input_queue import settle_input
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
    for waiting in draft.state.inputs:
        if waiting.status == "staged":
            draft.note("input_changed", inputs={waiting.id: {"status": "queued"}})
            steer_turn(draft, waiting.id)


def decline_steering(draft: Draft, event: SteeringDeclined) -> None:
    """Queue the input again, because the agent has not taken it."""
    session = draft.state
    if session.turn is None or session.turn.id != event.turn:
        return
    for input_id in event.inputs:
        waiting = session.find_input(input_id)
        if waiting is not None and waiting.status == "handed":
            draft.note("input_changed", inputs={input_id: {"status": "queued"}})


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
    """Queue staged inputs again at their places, and fail handed ones.

    A handed input may or may not have reached the process, so it is not sent again.
    """
    for waiting in draft.state.inputs:
        if waiting.status == "staged":
            draft.note("input_changed", inputs={waiting.id: {"status": "queued"}})
        elif waiting.status == "handed":
            settle_input(draft, waiting, "failed", "unknown")
