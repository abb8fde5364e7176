"""What may be done though it cannot be written: whatever only reduces activity.

A store that cannot write must not keep anybody from stopping an agent. So while it is degraded a
session goes on in memory with what brakes it, and with what changes nothing outside; what gives an
agent something waits until it is durable.
"""

from __future__ import annotations

from typing import Final

from .effects import (
    AnswerRequest,
    CancelTurn,
    CloseAgent,
    Effect,
    OfferSteering,
    StartAgent,
    StartTurn,
    WithdrawSteering,
)
from .events import Event, InterruptRequested, RequestAnswered, StopRequested

_ALLOWING: Final = ("allow_once", "allow_always")


def is_brake(event: Event) -> bool:
    """Whether it is asked for so that less happens: never refused, and answered at once."""
    match event:
        case StopRequested():
            return True
        case InterruptRequested():
            return event.replace_with is None
        case RequestAnswered():
            return event.decision not in _ALLOWING
        case _:
            return False


def adds_something(effect: Effect) -> bool:
    """Whether an agent gets something by it: a beginning, more to do, or a right."""
    match effect:
        case StartAgent() | StartTurn() | OfferSteering():
            return True
        case AnswerRequest():
            return effect.decision in _ALLOWING
        case _:
            return False


def name_of(effect: Effect) -> str:
    """By which name something that waits is found again by what takes it back."""
    match effect:
        case StartAgent() | CloseAgent():
            return "agent"
        case StartTurn() | CancelTurn():
            return effect.turn
        case OfferSteering() | WithdrawSteering():
            return effect.input
        case AnswerRequest():
            return effect.request
        case _:
            return ""  # nothing of that kind ever waits


def takes_back(effect: Effect) -> bool:
    """Whether what it undoes need not be done at all, if it still waits."""
    return isinstance(effect, CloseAgent | CancelTurn | WithdrawSteering)
