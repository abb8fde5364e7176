"""Guidance on its way into a running turn: offered, handed over, taken or not.

Rule 1: what is handed to a process is on record as that before; if nobody says what became of it,
        it is not sent again.
Rule 2: who takes guidance at a boundary says when; what was not taken by the end of the turn is
        queued again, at its own place.
"""

from __future__ import annotations

from supervisor.core.effects import AdoptTurn, OfferSteering
from supervisor.core.events import SteeringBeganTurn, SteeringDeclined, SteeringTaken
from supervisor.core.ids import InputId
from supervisor.core.session import Phase, Session, Steering, Waiting
from supervisor.core.step import Draft

from .flow import begin_turn, end_turn, settle
from .interrupts import begin_interrupt


def steer_with(draft: Draft, input_id: InputId) -> None:
    """Offer it to the turn, or do what was agreed for agents that take none."""
    session = draft.session
    if _steering_of(session) != "none":
        _offer(draft, input_id)
    elif session.terms.steer_fallback == "interrupt":
        draft.note("input_changed", inputs={input_id: {"replacement": True}})
        begin_interrupt(draft, reason="steered, and it takes no steering")


def _steering_of(session: Session) -> Steering:
    # An agent that is still coming up is offered it like one that takes it at a boundary.
    return session.agent.capabilities.steering if session.agent else "boundary"


def _offer(draft: Draft, input_id: InputId) -> None:
    session = draft.session
    waiting = session.find_input(input_id)
    assert waiting is not None
    assert session.turn is not None
    native = _steering_of(session) == "native"
    draft.note("input_changed", inputs={input_id: {"status": "handed" if native else "staged"}})
    draft.do(OfferSteering(session.turn.id, input_id, waiting.text, handed=native))


def offer_again(draft: Draft) -> None:
    """The turn's agent is up: only now is it known how it takes guidance, if it does."""
    steering = _steering_of(draft.session)
    if steering == "boundary" or draft.session.phase is not Phase.RUNNING:
        return
    for waiting in draft.session.inputs:
        if waiting.status == "staged":
            draft.note("input_changed", inputs={waiting.id: {"status": "queued"}})
            steer_with(draft, waiting.id)


def decline_steering(draft: Draft, event: SteeringDeclined) -> None:
    """The agent has not taken it, so it waits for a turn of its own."""
    session = draft.session
    if session.turn is None or session.turn.id != event.turn:
        return
    for input_id in event.inputs:
        waiting = session.find_input(input_id)
        if waiting is not None and waiting.status == "handed":
            draft.note("input_changed", inputs={input_id: {"status": "queued"}})


def begin_with_steering(draft: Draft, event: SteeringBeganTurn) -> None:
    """The agent has begun another turn with what it was handed; so that is what it is here too."""
    session = draft.session
    waiting = session.find_input(event.input)
    if session.turn is None or session.turn.id != event.turn or waiting is None:
        return
    about_to_end = session.stopping is not None or session.leaving or draft.situation.leaving
    if about_to_end or session.phase is not Phase.RUNNING or draft.situation.shortage is not None:
        # No other turn may begin. What the agent does now ends with this one.
        _note_steered(draft, waiting)
        return
    settle(draft, waiting, "delivered")
    end_turn(draft, "completed", stop_reason="end_turn", said=event.said)
    begin_turn(draft, waiting)
    draft.do(AdoptTurn(draft.fresh, waiting.id, waiting.text))


def take_steering(draft: Draft, event: SteeringTaken) -> None:
    """The turn has taken what it was offered."""
    session = draft.session
    if session.turn is None or session.turn.id != event.turn:
        return
    for input_id in event.inputs:
        waiting = session.find_input(input_id)
        if waiting is not None and waiting.status != "queued":
            _note_steered(draft, waiting)


def _note_steered(draft: Draft, waiting: Waiting) -> None:
    settle(draft, waiting, "steered")
    how = "native" if waiting.status == "handed" else "boundary"
    draft.note("steered", input_id=waiting.id, how=how)
    draft.note("user_text", text=waiting.text, part=waiting.id, steered=True)
