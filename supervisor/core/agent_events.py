"""Events from drivers, timers and the tree, past tense."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, TypeAlias, get_args

import attrs

from .ids import CallId, InputId, RequestId, SessionId, TurnId
from .limits import OnEnd
from .state import Agent, Decision, Failure, LadderStep, Outcome, Silence, Usage
from .text import TurnOutput
from .tree.admission import EMPTY_TREE_VIEW, TreeView


def _own_time(event: Any) -> float:  # noqa: ANN401 - the event under construction
    # An event that is not stamped by the clock (an import) has one time for both.
    at: float = event.at
    return at


@attrs.frozen(kw_only=True, slots=False)
class BaseEvent:
    """Fields that all events have.

    Events have no slots: they are created, and copied with changes, several times a turn, and
    `attrs.evolve` takes four times as long as two dict updates.
    """

    at: float
    fresh: TurnId
    tree_view: TreeView = EMPTY_TREE_VIEW
    steady_at: float = attrs.field(default=attrs.Factory(_own_time, takes_self=True))

    def changed(self, **changes: Any) -> Self:  # noqa: ANN401 - the types of the fields
        """Return a copy with these fields changed."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, **changes)
        return copy


# From the driver -------------------------------------------------------------------------


@attrs.frozen(kw_only=True, slots=False)
class AgentAttached(BaseEvent):
    agent: Agent


@attrs.frozen(kw_only=True, slots=False)
class AgentSessionNamed(BaseEvent):
    """The agent reported the id that it uses for the conversation."""

    session_id: str


@attrs.frozen(kw_only=True, slots=False)
class AgentChoicesReported(BaseEvent):
    """The agent reported its modes, options and commands, of which users may choose."""

    choices: Mapping[str, object]


@attrs.frozen(kw_only=True, slots=False)
class AuthenticationRequested(BaseEvent):
    """The agent requires authentication before it works; `method` is None when that is done."""

    method: str | None


@attrs.frozen(kw_only=True, slots=False)
class StartFailed(BaseEvent):
    failure: Failure


@attrs.frozen(kw_only=True, slots=False)
class AgentClosed(BaseEvent):
    """The effect CloseAgent is done: no process or task of the agent exists."""


@attrs.frozen(kw_only=True, slots=False)
class AgentExited(BaseEvent):
    """The agent exited without being asked to; `failure` says why, None means a clean exit."""

    failure: Failure | None = None
    jitter: float = 0.0
    output: TurnOutput = TurnOutput()


@attrs.frozen(kw_only=True, slots=False)
class TurnEnded(BaseEvent):
    turn: TurnId
    outcome: Outcome
    stop_reason: str | None = None
    text: str | None = None  # None: all text of the turn
    messages: int = 0
    truncated: bool = False  # whether the text is cut
    error: str | None = None


@attrs.frozen(kw_only=True, slots=False)
class ZombieEnded(BaseEvent):
    turn: TurnId


@attrs.frozen(kw_only=True, slots=False)
class CallStarted(BaseEvent):
    turn: TurnId
    call: CallId
    name: str
    input: Mapping[str, object] | None = None
    cancellable: bool = True


@attrs.frozen(kw_only=True, slots=False)
class CallEnded(BaseEvent):
    turn: TurnId
    call: CallId
    outcome: Literal["completed", "failed", "interrupted"]
    result: object = None


@attrs.frozen(kw_only=True, slots=False)
class PermissionAsked(BaseEvent):
    turn: TurnId
    request: RequestId
    tool: str
    question: str
    kind: str | None = None
    inside_workspace: bool = False
    input: Mapping[str, object] | None = None
    options: tuple[Decision, ...] = get_args(Decision)
    denied_by: str | None = None  # the hook that denied it


@attrs.frozen(kw_only=True, slots=False)
class SteeringTaken(BaseEvent):
    turn: TurnId
    inputs: tuple[InputId, ...]


@attrs.frozen(kw_only=True, slots=False)
class SteeringDeclined(BaseEvent):
    """The agent has certainly not taken these inputs, so the inputs may still start turns."""

    turn: TurnId
    inputs: tuple[InputId, ...]


@attrs.frozen(kw_only=True, slots=False)
class SteeringUnanswered(BaseEvent):
    """These inputs left the driver, and the agent has not said whether it took them."""

    turn: TurnId
    inputs: tuple[InputId, ...]


@attrs.frozen(kw_only=True, slots=False)
class SteeringBeganTurn(BaseEvent):
    """The agent had finished the turn and started another one from steered input."""

    turn: TurnId
    input: InputId
    output: TurnOutput = TurnOutput()


@attrs.frozen(kw_only=True, slots=False)
class UsageReported(BaseEvent):
    turn: TurnId
    usage: Usage


@attrs.frozen(kw_only=True, slots=False)
class NewsRead(BaseEvent):
    """The agent has read the first `read` notifications about its children."""

    turn: TurnId
    read: int


@attrs.frozen(kw_only=True, slots=False)
class ProgressMade(BaseEvent):
    """The turn made progress after it was reported quiet or stalled."""

    turn: TurnId


# From timers -----------------------------------------------------------------------------


@attrs.frozen(kw_only=True, slots=False)
class SilenceNoticed(BaseEvent):
    """The turn made no progress for `seconds`; the other fields say what it waits for."""

    turn: TurnId
    level: Silence
    waits_for: str
    detail: str | None
    since: float
    seconds: float


@attrs.frozen(kw_only=True, slots=False)
class DeadlineElapsed(BaseEvent):
    turn: TurnId


@attrs.frozen(kw_only=True, slots=False)
class LadderElapsed(BaseEvent):
    turn: TurnId
    step: LadderStep
    output: TurnOutput = TurnOutput()


@attrs.frozen(kw_only=True, slots=False)
class CallInterruptElapsed(BaseEvent):
    """A tool call that was asked to end has not ended in time."""

    turn: TurnId
    call: CallId


@attrs.frozen(kw_only=True, slots=False)
class InputsExpired(BaseEvent):
    pass


@attrs.frozen(kw_only=True, slots=False)
class RequestTimedOut(BaseEvent):
    request: RequestId


@attrs.frozen(kw_only=True, slots=False)
class IdleElapsed(BaseEvent):
    pass


@attrs.frozen(kw_only=True, slots=False)
class BackoffElapsed(BaseEvent):
    pass


# From the tree ---------------------------------------------------------------------------

NewsKind: TypeAlias = Literal["started", "done", "over"]


@attrs.frozen(kw_only=True, slots=False)
class ChildNews:
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


@attrs.frozen(kw_only=True, slots=False)
class TreeChanged(BaseEvent):
    """The tree around the session changed; `news` are notifications about its children.

    `input` is an unused id, in case the news starts a turn.
    """

    input: InputId
    news: tuple[ChildNews, ...] = ()


# From the session actor --------------------------------------------------------------


@attrs.frozen(kw_only=True, slots=False)
class Claimed(BaseEvent):
    """A new incarnation of the session's actor has read the row; the previous actor has exited.

    `left_zombie`: the task of the open turn has not ended.
    """

    epoch: int
    left_zombie: bool = False
    output: TurnOutput = TurnOutput()


@attrs.frozen(kw_only=True, slots=False)
class SupervisorRestarted(BaseEvent):
    """The supervisor was killed and has started again; no agent process is left."""

    epoch: int
    output: TurnOutput = TurnOutput()


@attrs.frozen(kw_only=True, slots=False)
class ShutdownRequested(BaseEvent):
    """The supervisor shuts down: start no more turns, and suspend when the last one has ended."""
