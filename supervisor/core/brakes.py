"""What may be done though it cannot be written: whatever only reduces activity.

A store that cannot write must not keep anybody from stopping an agent. So while it is degraded a
session goes on in memory with what brakes it, and with what changes nothing outside; what begins
something waits until it is durable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .effects import AnswerRequest, Effect, OfferSteering, StartAgent, StartTurn
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


def begins_something(effects: Iterable[Effect]) -> bool:
    """Whether an agent or a turn begins by them; then nothing else of the session runs."""
    return any(isinstance(effect, StartAgent | StartTurn) for effect in effects)


def adds_something(effect: Effect) -> bool:
    """Whether an agent that runs is given something: more to do, or a right."""
    match effect:
        case OfferSteering():
            return True
        case AnswerRequest():
            return effect.decision in _ALLOWING
        case _:
            return False
