"""Rules for a degraded store: which steps may take effect before they are durable.

A store that cannot write must not prevent a user from stopping an agent. So while it is degraded, a
session adopts, in memory, steps that only reduce its activity or have no effect; anything that
starts or allows work waits for the commit. `store/__init__.py` lists the modules that handle a full
disk.
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
from .events import (
    Event,
    InterruptRequested,
    MemberInterruptRequested,
    RequestAnswered,
    StopRequested,
    TreeInterruptEnded,
    TreeInterruptRequested,
)

_MAY_REDUCE_ACTIVITY: Final = frozenset(
    {
        StopRequested,
        InterruptRequested,
        TreeInterruptRequested,
        MemberInterruptRequested,
        TreeInterruptEnded,
        RequestAnswered,
    }
)
_ALLOW_DECISIONS: Final = ("allow_once", "allow_always")


def reduces_activity(event: Event) -> bool:
    """Return True for a request that only reduces activity; such a request takes effect at once."""
    if type(event) not in _MAY_REDUCE_ACTIVITY:  # one look-up for most events
        return False
    match event:
        case StopRequested():
            return True
        case InterruptRequested():
            return event.replace_with is None
        case TreeInterruptRequested():
            return event.interrupt.replace_with is None
        case MemberInterruptRequested() | TreeInterruptEnded():
            return True
        case RequestAnswered():
            return event.decision not in _ALLOW_DECISIONS
        case _:
            return False


def grants_work(effect: Effect) -> bool:
    """Return True if the effect starts an agent, gives it work, or grants it a permission."""
    match effect:
        case StartAgent() | StartTurn() | OfferSteering():
            return True
        case AnswerRequest():
            return effect.decision in _ALLOW_DECISIONS
        case _:
            return False


def effect_target(effect: Effect) -> str:
    """Return the key under which an effect is pending.

    The effect that undoes it has the same key.
    """
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
            return ""  # no such effect ever waits


def cancels_pending(effect: Effect) -> bool:
    """Return True if the effect makes a pending effect with the same target unnecessary."""
    return isinstance(effect, CloseAgent | CancelTurn | WithdrawSteering)
