"""Rules for steering: text that is offered, sent, taken or declined.

Rule 1: text for a process is recorded as handed before it is sent; if the agent never reports
        whether it took the text, the text is not sent again.
Rule 2: an agent that takes steering at a boundary reports it; text that was not taken by the end
        of the turn is queued again, at its previous position.
"""

from __future__ import annotations

from supervisor.core.agent_events import SteeringBeganTurn, SteeringDeclined, SteeringTaken
from supervisor.core.effects import AdoptTurn, OfferSteering
from supervisor.core.ids import InputId
from supervisor.core.state import PendingInput, Phase, SessionState, Steering
from supervisor.core.step import Draft

from .interrupts import begin_interrupt
from .turn_flow import begin_turn, end_turn, settle_input


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


def adopt_steered_turn(draft: Draft, event: SteeringBeganTurn) -> None:
    """End the old turn and adopt the turn that the agent started from steered input."""
    session = draft.state
    waiting = session.find_input(event.input)
    if session.turn is None or session.turn.id != event.turn or waiting is None:
        return
    about_to_end = session.stopping is not None or session.leaving or draft.tree_view.shutting_down
    if (
        about_to_end
        or session.phase is not Phase.RUNNING
        or draft.tree_view.exhausted_budget is not None
    ):
        # No other turn may start, so the agent's new turn ends with this one.
        _note_steered(draft, waiting)
        return
    settle_input(draft, waiting, "delivered")
    end_turn(draft, "completed", stop_reason="end_turn", output=event.output)
    begin_turn(draft, waiting)
    draft.do(AdoptTurn(draft.fresh, waiting.id, waiting.text))


def take_steering(draft: Draft, event: SteeringTaken) -> None:
    """Settle the inputs that the turn has taken."""
    session = draft.state
    if session.turn is None or session.turn.id != event.turn:
        return
    for input_id in event.inputs:
        waiting = session.find_input(input_id)
        if waiting is not None and waiting.status != "queued":
            _note_steered(draft, waiting)


def _note_steered(draft: Draft, waiting: PendingInput) -> None:
    settle_input(draft, waiting, "steered")
    how = "native" if waiting.status == "handed" else "boundary"
    draft.note("steered", input_id=waiting.id, how=how)
    draft.note("user_text", text=waiting.text, part=waiting.id, steered=True)
