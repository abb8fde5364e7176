"""Effects: instructions that the session actor performs after the commit.

An effect may fail; the actor then sends an event that reports the failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import attrs

from .ids import CallId, InputId, RequestId, SessionId, TurnId
from .state import Decision, LadderStep

TimerName: TypeAlias = Literal["ladder", "suspend", "backoff", "expiry", "silence", "deadline"]


@attrs.frozen
class StartAgent:
    """Start the agent; AgentAttached or StartFailed reports the result."""


@attrs.frozen
class CloseAgent:
    """Close the agent with the closing ladder.

    AgentClosed follows when its last process has ended.
    """


@attrs.frozen
class StartTurn:
    turn: TurnId
    input: InputId
    text: str
    attachments: tuple[Mapping[str, Any], ...] = ()
    # The number of latest messages that an agent with a saved conversation has missed.
    missed_messages: int = 0


@attrs.frozen
class AdoptTurn:
    """Register a turn that the agent started by itself from steered input.

    The turn already runs.
    """

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
    """Abandon the turn after the last ladder step; ignore all its later events."""

    turn: TurnId


@attrs.frozen
class CancelCall:
    turn: TurnId
    call: CallId


@attrs.frozen
class EndBackground:
    """Stop everything that the agent runs outside its turn, such as terminals."""


@attrs.frozen
class OfferSteering:
    """Offer text to the turn: at once where the agent can take it, else at its next boundary.

    `handed`: the offer is recorded, so the text may be sent to the agent.
    """

    turn: TurnId
    input: InputId
    text: str
    handed: bool = False


@attrs.frozen
class WithdrawSteering:
    """Withdraw offered steering, unless the text has been sent to the agent."""

    turn: TurnId
    input: InputId


@attrs.frozen
class AnswerRequest:
    request: RequestId
    decision: Decision | Literal["cancelled"]


@attrs.frozen
class MarkYoungest:
    """Make the child the youngest of its siblings, because its start was recorded last.

    The youngest stops first.
    """

    child: SessionId


@attrs.frozen
class StopDependents:
    """Stop every child with the lifetime `with_parent`, the youngest first."""


@attrs.frozen
class SetTimer:
    """Set or reset a timer of the session; the timer's event names its purpose."""

    name: TimerName
    after_seconds: float


@attrs.frozen
class SetRequestTimer:
    request: RequestId
    after_seconds: float


@attrs.frozen
class SetCallTimer:
    """Set the timer after which a call that was asked to end is unreachable."""

    call: CallId
    after_seconds: float


@attrs.frozen
class ClearTimer:
    name: TimerName


@attrs.frozen
class ClearCallTimer:
    call: CallId


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
    | MarkYoungest
    | StopDependents
    | SetTimer
    | SetRequestTimer
    | SetCallTimer
    | ClearTimer
    | ClearCallTimer
)
