"""The values that the state of a session and the answers to its readers have in common.

They are separate from `state.py`, because short commands import them: the classes of the state that
every turn creates are structs, and msgspec takes 20 ms to import.
"""

from __future__ import annotations

import enum
from typing import Final, Literal, TypeAlias

import attrs

from .ids import RequestId, TurnId
from .limits import MAX_INT64

SessionKind: TypeAlias = Literal["user", "system", "coordinator", "spawned"]
Source: TypeAlias = Literal["user", "parent", "child", "schedule", "hook", "peer"]
WhenBusy: TypeAlias = Literal["queue", "steer", "interrupt", "reject"]
Outcome: TypeAlias = Literal["completed", "interrupted", "failed", "timed_out", "lost"]
InputOutcome: TypeAlias = Literal["delivered", "steered", "cancelled", "expired", "failed"]
Decision: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
# What a request of an agent asks for: a decision on a tool, or a text.
RequestKind: TypeAlias = Literal["permission", "question"]
Steering: TypeAlias = Literal["native", "boundary", "none"]
LadderStep: TypeAlias = Literal["ask", "close", "terminate", "kill"]
CallInterrupt: TypeAlias = Literal["asked", "unreachable"]
Silence: TypeAlias = Literal["quiet", "stalled"]


# What a person should look at, the most urgent first.
AttentionKind: TypeAlias = Literal[
    "permission",
    "question",
    "login",
    "stall",
    "failed_session",
    "lost_turn",
    "failed_turn",
    "budget",
    "permission_timeout",
    "refused_spawn",
]


class Phase(enum.StrEnum):
    """The phases of a session. `archived` is a flag on a stopped session, not a phase."""

    STARTING = "starting"
    IDLE = "idle"
    RUNNING = "running"
    INTERRUPTING = "interrupting"
    RESTARTING = "restarting"
    SUSPENDED = "suspended"
    STOPPING = "stopping"
    STOPPED = "stopped"


# For code that every turn runs: Python 3.11 takes 900 instructions to read `Phase.IDLE`.
STARTING: Final = Phase.STARTING
IDLE: Final = Phase.IDLE
RUNNING: Final = Phase.RUNNING
INTERRUPTING: Final = Phase.INTERRUPTING
RESTARTING: Final = Phase.RESTARTING
SUSPENDED: Final = Phase.SUSPENDED
STOPPING: Final = Phase.STOPPING
STOPPED: Final = Phase.STOPPED


@attrs.frozen
class Failure:
    """A failure: one of the twelve kinds, and a text."""

    kind: str
    detail: str


@attrs.frozen
class LastOutcome:
    """How the last turn ended: its outcome, and the error or stop reason as text.

    `seq` is the number of its `turn_ended` record.
    """

    outcome: Outcome
    reason: str | None
    at: float
    turn_id: TurnId
    seq: int


@attrs.frozen
class Attention:
    """Something that a person should look at, and since when.

    `seq` is the number of the record that says it, 0 if an early version wrote that record.
    """

    kind: AttentionKind
    detail: str | None
    at: float
    seq: int


@attrs.frozen
class Usage:
    """Numbers of tokens, and cost."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        # Numbers that no store can keep are capped at the largest that every store can.
        return Usage(
            min(self.input_tokens + other.input_tokens, MAX_INT64),
            min(self.output_tokens + other.output_tokens, MAX_INT64),
            min(self.cost + other.cost, float(MAX_INT64)),
        )


NO_USAGE: Final = Usage()


@attrs.frozen
class ContextUse:
    """Tokens in the context of an agent, and the size of its window, as the agent reports them."""

    used: int
    size: int | None = None


@attrs.frozen
class PermissionRule:
    """A stored decision for all further requests of a tool."""

    id: RequestId
    tool: str
    decision: Literal["allow_always", "reject_always"]


@attrs.frozen
class Spending:
    """Usage that budgets count: turns started, tokens, cost, and the seconds that turns ran."""

    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    wall_seconds: float = 0.0

    def __add__(self, other: Spending) -> Spending:
        return Spending(
            min(self.turns + other.turns, MAX_INT64),
            min(self.tokens + other.tokens, MAX_INT64),
            min(self.cost + other.cost, float(MAX_INT64)),
            self.wall_seconds + other.wall_seconds,
        )
