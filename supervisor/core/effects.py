"""Effects: instructions that the session actor performs after the commit.

An effect may fail; the actor then sends an event that reports the failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from .agent_options import OptionValue
from .frozen_struct import FrozenStruct
from .ids import CallId, InputId, RequestId, SessionId, TurnId
from .state import Decision, LadderStep

TimerName: TypeAlias = Literal["ladder", "suspend", "backoff", "expiry", "silence", "deadline"]


class StartAgent(FrozenStruct):
    """Start the agent; AgentAttached or StartFailed reports the result."""


class CloseAgent(FrozenStruct):
    """Close the agent with the closing ladder.

    AgentClosed follows when its last process has ended.
    """


class StartTurn(FrozenStruct):
    turn: TurnId
    input: InputId
    text: str
    attachments: tuple[Mapping[str, Any], ...] = ()
    # The number of latest messages that an agent with a saved conversation has missed.
    missed_messages: int = 0
    trace: Mapping[str, str] | None = None


class AdoptTurn(FrozenStruct):
    """Register a turn that the agent started by itself from steered input.

    The turn already runs.
    """

    turn: TurnId
    input: InputId
    text: str


class CancelTurn(FrozenStruct):
    """Take the given step of the ladder against the turn."""

    turn: TurnId
    step: LadderStep


class AbandonTurn(FrozenStruct):
    """Abandon the turn after the last ladder step; ignore all its later events."""

    turn: TurnId


class CancelCall(FrozenStruct):
    turn: TurnId
    call: CallId


class EndBackground(FrozenStruct):
    """Stop everything that the agent runs outside its turn, such as terminals."""


class OfferSteering(FrozenStruct):
    """Offer text to the turn: at once where the agent can take it, else at its next boundary.

    `handed`: the offer is recorded, so the text may be sent to the agent.
    """

    turn: TurnId
    input: InputId
    text: str
    handed: bool = False


class WithdrawSteering(FrozenStruct):
    """Withdraw offered steering, unless the text has been sent to the agent."""

    turn: TurnId
    input: InputId


class AnswerRequest(FrozenStruct):
    request: RequestId
    decision: Decision | Literal["cancelled"]


class SetOptions(FrozenStruct):
    """Set options of the agent before its next prompt, at once if no turn runs."""

    options: Mapping[str, OptionValue]


class CloseQuestion(FrozenStruct):
    """A question waits no longer; its agent finds the answer in the records."""

    request: RequestId


class MarkYoungest(FrozenStruct):
    """Make the child the youngest of its siblings, because its start was recorded last.

    The youngest stops first.
    """

    child: SessionId


class StopDependents(FrozenStruct):
    """Stop every child with the lifetime `with_parent`, the youngest first."""


class SetTimer(FrozenStruct):
    """Set or reset a timer of the session; the timer's event names its purpose."""

    name: TimerName
    after_seconds: float


class SetRequestTimer(FrozenStruct):
    request: RequestId
    after_seconds: float


class SetCallTimer(FrozenStruct):
    """Set the timer after which a call that was asked to end is unreachable."""

    call: CallId
    after_seconds: float


class ClearTimer(FrozenStruct):
    name: TimerName


class ClearCallTimer(FrozenStruct):
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
    | SetOptions
    | CloseQuestion
    | MarkYoungest
    | StopDependents
    | SetTimer
    | SetRequestTimer
    | SetCallTimer
    | ClearTimer
    | ClearCallTimer
)
