"""Rules for a degraded store: which steps may take effect before they are durable.

A store that cannot write must not prevent a user from stopping an agent. So while it is degraded, a
session adopts, in memory, steps that only reduce its activity or have no effect; anything that
starts or allows work waits for the commit. `store/__init__.py` lists the modules that handle a full
disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from .effects import (
    AnswerRequest,
    CancelTurn,
    CloseAgent,
    Effect,
    OfferSteering,
    SetOptions,
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

_ALLOW_DECISIONS: Final = ("allow_once", "allow_always")


# Requests that may reduce activity, each with the condition; a table, because each request and
# each step is looked up.
_REDUCES_ACTIVITY: Final[Mapping[type[Event], Callable[[Any], bool]]] = {
    StopRequested: lambda _: True,
    InterruptRequested: lambda event: event.replace_with is None,
    TreeInterruptRequested: lambda event: event.interrupt.replace_with is None,
    MemberInterruptRequested: lambda _: True,
    TreeInterruptEnded: lambda _: True,
    RequestAnswered: lambda event: event.decision not in _ALLOW_DECISIONS,
}


def reduces_activity(event: Event) -> bool:
    """Return True for a request that only reduces activity; such a request takes effect at once."""
    condition = _REDUCES_ACTIVITY.get(type(event))
    return condition is not None and condition(event)


def grants_work(effect: Effect) -> bool:
    """Return True if the effect starts an agent, gives it work, or may allow it to do more."""
    match effect:
        case StartAgent() | StartTurn() | OfferSteering() | SetOptions():
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
        case SetOptions():
            return f"options {' '.join(sorted(effect.options))}"
        case _:
            return ""  # no such effect ever waits


def cancels_pending(effect: Effect) -> bool:
    """Return True if the effect makes a pending effect with the same target unnecessary."""
    return isinstance(effect, CloseAgent | CancelTurn | WithdrawSteering)
