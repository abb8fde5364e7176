"""What is to be done after a step was committed: imperatives, for the shell to carry out.

An effect is a wish: it may fail, and then the failure is news, an event again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import attrs

from .ids import CallId, InputId, RequestId, SessionId, TurnId
from .session import Decision, LadderStep

TimerName: TypeAlias = Literal["ladder", "suspend", "backoff", "expiry", "silence", "deadline"]


@attrs.frozen
class StartAgent:
    """Bring the agent up; AgentAttached or AgentStartFailed will say how it went."""


@attrs.frozen
class CloseAgent:
    """Let the agent go, gently; AgentClosed will say when nothing is left."""


@attrs.frozen
class StartTurn:
    turn: TurnId
    input: InputId
    text: str
    attachments: tuple[Mapping[str, Any], ...] = ()
    # How many of the last messages of the history an agent has missed that knows those before.
    untold: int = 0


@attrs.frozen
class AdoptTurn:
    """The agent has begun this turn by itself, with what it was handed: it runs already."""

    turn: TurnId
    input: InputId
    text: str


@attrs.frozen
class CancelTurn:
    """Take the given step of the ladder against the turn."""

    turn: TurnId
    step: LadderStep


@attrs.frozen
class AbandonTurn:
    """The ladder is at its end: whatever the turn still does no longer counts."""

    turn: TurnId


@attrs.frozen
class CancelCall:
    turn: TurnId
    call: CallId


@attrs.frozen
class EndBackground:
    """End what the agent has running besides its turn."""


@attrs.frozen
class OfferSteering:
    """Give the text to the turn: at once where it can take it, else at its next boundary.

    `handed`: it is on record that it is being given, so it may be.
    """

    turn: TurnId
    input: InputId
    text: str
    handed: bool = False


@attrs.frozen
class WithdrawSteering:
    """Do not give the text to the turn any more, if it has not been given."""

    turn: TurnId
    input: InputId


@attrs.frozen
class AnswerRequest:
    request: RequestId
    decision: Decision | Literal["cancelled"]


@attrs.frozen
class CountAsYoungest:
    """The child's start is on record, after those of all its siblings; so it ends before them."""

    child: SessionId


@attrs.frozen
class StopDependents:
    """Have every child that lives with this session stop, the youngest first."""


@attrs.frozen
class SetTimer:
    """(Re)set a timer of the session; the event it leads to names what it was set for."""

    name: TimerName
    after_seconds: float


@attrs.frozen
class SetRequestTimer:
    request: RequestId
    after_seconds: float


@attrs.frozen
class ClearTimer:
    name: TimerName


Effect: TypeAlias = (
    StartAgent
    | CloseAgent
    | StartTurn
    | AdoptTurn
    | CancelTurn
    | AbandonTurn
    | CancelCall
    | EndBackground
    | OfferSteering
    | WithdrawSteering
    | AnswerRequest
    | CountAsYoungest
    | StopDependents
    | SetTimer
    | SetRequestTimer
    | ClearTimer
)
