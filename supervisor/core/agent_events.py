"""Events from drivers, timers and the tree, past tense."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, get_args

from msgspec.structs import force_setattr

from .agent_options import AgentOption, OptionValue
from .frozen_struct import FrozenStruct
from .ids import CallId, InputId, RequestId, SessionId, TurnId
from .limits import OnEnd
from .state import Agent, ContextUse, Decision, Failure, LadderStep, Outcome, Silence, Usage
from .text import TurnOutput
from .tree.admission import EMPTY_TREE_VIEW, TreeView


class BaseEvent(FrozenStruct, kw_only=True):
    """Fields that all events have."""

    at: float
    fresh: TurnId
    tree_view: TreeView = EMPTY_TREE_VIEW
    # An event that is not stamped by the clock (an import) has one time for both.
    steady_at: float = None  # type: ignore[assignment] # set below

    def __post_init__(self) -> None:
        if self.steady_at is None:
            force_setattr(self, "steady_at", self.at)


# From the driver -------------------------------------------------------------------------


class AgentAttached(BaseEvent, kw_only=True):
    agent: Agent
    options: tuple[AgentOption, ...] = ()  # that the agent offers


class AgentSessionNamed(BaseEvent, kw_only=True):
    """The agent reported the id that it uses for the conversation."""

    session_id: str


class AgentChoicesReported(BaseEvent, kw_only=True):
    """The agent reported its modes, options and commands, of which users may choose."""

    choices: Mapping[str, object]
    options: tuple[AgentOption, ...] | None = None  # that it offers now; None: as before


class OptionRefused(BaseEvent, kw_only=True):
    """The agent did not take a value of an option that the session wants."""

    option: str
    value: OptionValue
    problem: str


class AuthenticationRequested(BaseEvent, kw_only=True):
    """The agent requires authentication before it works; `method` is None when that is done."""

    method: str | None


class StartFailed(BaseEvent, kw_only=True):
    failure: Failure


class AgentClosed(BaseEvent, kw_only=True):
    """The effect CloseAgent is done: no process or task of the agent exists."""


class AgentExited(BaseEvent, kw_only=True):
    """The agent exited without being asked to; `failure` says why, None means a clean exit."""

    failure: Failure | None = None
    jitter: float = 0.0
    output: TurnOutput = TurnOutput()


class TurnEnded(BaseEvent, kw_only=True):
    turn: TurnId
    outcome: Outcome
    stop_reason: str | None = None
    text: str | None = None  # None: all text of the turn
    messages: int = 0
    truncated: bool = False  # whether the text is cut
    error: str | None = None


class ZombieEnded(BaseEvent, kw_only=True):
    turn: TurnId


class CallStarted(BaseEvent, kw_only=True):
    turn: TurnId
    call: CallId
    name: str
    input: Mapping[str, object] | None = None
    cancellable: bool = True


class CallEnded(BaseEvent, kw_only=True):
    turn: TurnId
    call: CallId
    outcome: Literal["completed", "failed", "interrupted"]
    result: object = None


class PermissionAsked(BaseEvent, kw_only=True):
    turn: TurnId
    request: RequestId
    tool: str
    question: str
    kind: str | None = None
    inside_workspace: bool = False
    input: Mapping[str, object] | None = None
    options: tuple[Decision, ...] = get_args(Decision)
    denied_by: str | None = None  # the hook that denied it


class SteeringTaken(BaseEvent, kw_only=True):
    turn: TurnId
    inputs: tuple[InputId, ...]


class SteeringDeclined(BaseEvent, kw_only=True):
    """The agent has certainly not taken these inputs, so the inputs may still start turns."""

    turn: TurnId
    inputs: tuple[InputId, ...]


class SteeringUnanswered(BaseEvent, kw_only=True):
    """These inputs left the driver, and the agent has not said whether it took them."""

    turn: TurnId
    inputs: tuple[InputId, ...]


class SteeringBeganTurn(BaseEvent, kw_only=True):
    """The agent had finished the turn and started another one from steered input."""

    turn: TurnId
    input: InputId
    output: TurnOutput = TurnOutput()


class UsageReported(BaseEvent, kw_only=True):
    turn: TurnId
    usage: Usage
    context: ContextUse | None = None  # None: as before


class NewsRead(BaseEvent, kw_only=True):
    """The agent has read the first `read` notifications about its children."""

    turn: TurnId
    read: int


class ProgressMade(BaseEvent, kw_only=True):
    """The turn made progress after it was reported quiet or stalled."""

    turn: TurnId


# The events that a driver may report.
DRIVER_EVENTS: Final = frozenset(
    {
        AgentAttached,
        AgentSessionNamed,
        AgentChoicesReported,
        OptionRefused,
        AuthenticationRequested,
        StartFailed,
        AgentClosed,
        AgentExited,
        TurnEnded,
        ZombieEnded,
        CallStarted,
        CallEnded,
        PermissionAsked,
        SteeringTaken,
        SteeringDeclined,
        SteeringUnanswered,
        SteeringBeganTurn,
        UsageReported,
        NewsRead,
        ProgressMade,
    }
)


# From timers -----------------------------------------------------------------------------


class SilenceNoticed(BaseEvent, kw_only=True):
    """The turn made no progress for `seconds`; the other fields say what it waits for."""

    turn: TurnId
    level: Silence
    waits_for: str
    detail: str | None
    since: float
    seconds: float


class DeadlineElapsed(BaseEvent, kw_only=True):
    turn: TurnId


class LadderElapsed(BaseEvent, kw_only=True):
    turn: TurnId
    step: LadderStep
    output: TurnOutput = TurnOutput()


class CallInterruptElapsed(BaseEvent, kw_only=True):
    """A tool call that was asked to end has not ended in time."""

    turn: TurnId
    call: CallId


class InputsExpired(BaseEvent, kw_only=True):
    pass


class RequestTimedOut(BaseEvent, kw_only=True):
    request: RequestId


class IdleElapsed(BaseEvent, kw_only=True):
    pass


class BackoffElapsed(BaseEvent, kw_only=True):
    pass


# From the tree ---------------------------------------------------------------------------

NewsKind: TypeAlias = Literal["started", "done", "over"]


class ChildNews(FrozenStruct, kw_only=True):
    """A notification about a child: it started (again), its spawn input ended, or it stopped."""

    kind: NewsKind
    child: SessionId
    agent: str
    name: str | None
    role: str | None
    on_end: OnEnd
    outcome: Outcome | None = None
    text: str = ""
    reason: str | None = None
    detail: str | None = None
    failed: bool = False
    # True if the end of its spawn input was reported before.
    was_reported_done: bool = False


class TreeChanged(BaseEvent, kw_only=True):
    """The tree around the session changed; `news` are notifications about its children.

    `input` is an unused id, in case the news starts a turn.
    """

    input: InputId
    news: tuple[ChildNews, ...] = ()


# From the session actor --------------------------------------------------------------


class Claimed(BaseEvent, kw_only=True):
    """A new incarnation of the session's actor has read the row; the previous actor has exited.

    `left_zombie`: the task of the open turn has not ended.
    """

    epoch: int
    left_zombie: bool = False
    output: TurnOutput = TurnOutput()


class SupervisorRestarted(BaseEvent, kw_only=True):
    """The supervisor was killed and has started again; no agent process is left."""

    epoch: int
    output: TurnOutput = TurnOutput()


class ShutdownRequested(BaseEvent, kw_only=True):
    """The supervisor shuts down: start no more turns, and suspend when the last one has ended."""
