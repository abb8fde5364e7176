"""What a session can be told: news, in the past tense.

Rule 1: every event says when it happened (`at`, wall seconds) and brings one id that nobody has
        used yet (`fresh`), in case a turn begins because of it: the core has no clock, no dice.
Rule 2: what a driver reports names its turn, so that late news can be told from news.
Rule 3: what only the tree knows comes along too (`situation`), true at the instant of the decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import attrs

from .ids import CallId, InputId, RequestId, SessionId, TurnId
from .limits import Limits
from .session import (
    Agent,
    Cause,
    Decision,
    Failure,
    LadderStep,
    OnEnd,
    Outcome,
    Silence,
    Source,
    Spending,
    Usage,
    WhenBusy,
)
from .tree.situation import ALONE, Situation


@attrs.frozen(kw_only=True)
class Happened:
    """What all events have in common."""

    at: float
    fresh: TurnId
    situation: Situation = ALONE


@attrs.frozen
class Said:
    """What the agent has said in the open turn, for ends at which nobody else tells."""

    text: str = ""
    messages: int = 0


@attrs.frozen(kw_only=True)
class Asked(Happened):
    """What a caller asks for.

    `fresh` names the request too: the first record it leaves bears it, so that whoever got no
    answer can find out whether it was done.
    """


# From callers, who wait for a reply ------------------------------------------------------


@attrs.frozen(kw_only=True)
class InputSubmitted(Asked):
    input: InputId
    text: str
    when_busy: WhenBusy = "queue"
    source: Source = "user"
    expires_at: float | None = None
    attachments: tuple[Mapping[str, Any], ...] = ()
    attachment_bytes: int = 0
    queued: Literal["keep", "cancel"] = "keep"  # for when_busy="interrupt"
    if_stopped: Literal["resume", "reject"] = "resume"
    # Whether hooks would let it come back; they are not asked about one that is live.
    may_return: bool = True


@attrs.frozen(kw_only=True)
class SteeringSubmitted(Asked):
    """Guidance for the turn that is running, and for nothing else."""

    input: InputId
    text: str
    source: Source = "user"
    expires_at: float | None = None


@attrs.frozen(kw_only=True)
class InterruptRequested(Asked):
    """`turn` or `call` name the target; neither means whatever runs now.

    `whole`: and all else that the session's agent has running, turn or no turn.
    """

    turn: TurnId | None = None
    call: CallId | None = None
    whole: bool = False
    reason: str | None = None
    replacement: InputId | None = None
    replace_with: str | None = None
    replacement_expires_at: float | None = None
    queued: Literal["keep", "cancel"] = "keep"


@attrs.frozen(kw_only=True)
class InputEdited(Asked):
    input: InputId
    text: str


@attrs.frozen(kw_only=True)
class InputMoved(Asked):
    input: InputId
    position: int


@attrs.frozen(kw_only=True)
class InputPromoted(Asked):
    input: InputId


@attrs.frozen(kw_only=True)
class InputWithdrawn(Asked):
    input: InputId


@attrs.frozen(kw_only=True)
class StopRequested(Asked):
    cause: Cause = "user"
    detail: str | None = None
    after_turn: bool = False


@attrs.frozen(kw_only=True)
class ResumeRequested(Asked):
    may_return: bool = True  # as for an input


@attrs.frozen(kw_only=True)
class ClearRequested(Asked):
    pass


@attrs.frozen(kw_only=True)
class ArchiveRequested(Asked):
    pass


@attrs.frozen(kw_only=True)
class UnarchiveRequested(Asked):
    pass


@attrs.frozen(kw_only=True)
class MessageAppended(Asked):
    role: Literal["user", "agent"]
    text: str


@attrs.frozen(kw_only=True)
class DetailsChanged(Asked):
    """What is None stays as it is."""

    title: str | None = None
    tags: tuple[str, ...] | None = None
    custom: Mapping[str, str] | None = None
    limits: Limits | None = None


@attrs.frozen(kw_only=True)
class RequestAnswered(Asked):
    request: RequestId
    decision: Decision
    by: Literal["person", "parent"] = "person"


@attrs.frozen(kw_only=True)
class RuleRemoved(Asked):
    rule: RequestId


@attrs.frozen(kw_only=True)
class ChildAdmitted(Asked):
    """There is room for a child, and it is reserved; in the same commit the child begins.

    `turn` is the one whose agent asked for it, None if somebody else did.
    """

    child: SessionId
    turn: TurnId | None = None
    agent: str
    text: str
    name: str | None = None
    role: str | None = None


@attrs.frozen(kw_only=True)
class ChildDeleted(Asked):
    """Nothing is left of a child but what it has spent, and that it once was."""

    child: SessionId
    spent: Spending
    spawns: int


# From the driver -------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class AgentAttached(Happened):
    agent: Agent


@attrs.frozen(kw_only=True)
class AgentSessionNamed(Happened):
    """The agent has said under which name it knows the conversation."""

    session_id: str


@attrs.frozen(kw_only=True)
class AgentSurfaced(Happened):
    """What the agent lets people choose from: modes, options, commands, in its own words."""

    choices: Mapping[str, object]


@attrs.frozen(kw_only=True)
class AuthenticationAsked(Happened):
    """The agent wants to know who we are before it does anything; None when that is over."""

    method: str | None


@attrs.frozen(kw_only=True)
class AgentStartFailed(Happened):
    failure: Failure


@attrs.frozen(kw_only=True)
class AgentClosed(Happened):
    """What CloseAgent asked for is done: nothing of the agent is left."""


@attrs.frozen(kw_only=True)
class AgentExited(Happened):
    """The agent left and nobody had asked it to; `failure` says why, None that it was clean."""

    failure: Failure | None = None
    jitter: float = 0.0
    said: Said = Said()


@attrs.frozen(kw_only=True)
class TurnEnded(Happened):
    turn: TurnId
    outcome: Outcome
    stop_reason: str | None = None
    text: str | None = None  # None: all that was said
    messages: int = 0
    error: str | None = None


@attrs.frozen(kw_only=True)
class ZombieEnded(Happened):
    turn: TurnId


@attrs.frozen(kw_only=True)
class CallStarted(Happened):
    turn: TurnId
    call: CallId
    name: str
    input: Mapping[str, object] | None = None
    cancellable: bool = True


@attrs.frozen(kw_only=True)
class CallEnded(Happened):
    turn: TurnId
    call: CallId
    outcome: Literal["completed", "failed", "interrupted"]
    result: object = None


@attrs.frozen(kw_only=True)
class PermissionAsked(Happened):
    turn: TurnId
    request: RequestId
    tool: str
    question: str
    kind: str | None = None
    inside_workspace: bool = False
    input: Mapping[str, object] | None = None
    options: tuple[Decision, ...] = get_args(Decision)
    denied_by: str | None = None  # the hook that will not have it


@attrs.frozen(kw_only=True)
class SteeringTaken(Happened):
    turn: TurnId
    inputs: tuple[InputId, ...]


@attrs.frozen(kw_only=True)
class SteeringDeclined(Happened):
    """The agent has not taken these, for certain; so they may still begin turns of their own."""

    turn: TurnId
    inputs: tuple[InputId, ...]


@attrs.frozen(kw_only=True)
class SteeringBeganTurn(Happened):
    """The agent was through with the turn, and has begun another one with what it was handed."""

    turn: TurnId
    input: InputId
    said: Said = Said()


@attrs.frozen(kw_only=True)
class UsageReported(Happened):
    turn: TurnId
    usage: Usage


@attrs.frozen(kw_only=True)
class NewsTaken(Happened):
    """The agent has read so much of the news of its children, from the first on."""

    turn: TurnId
    read: int


@attrs.frozen(kw_only=True)
class ProgressMade(Happened):
    """The turn goes on, after it was said to be quiet or stalled."""

    turn: TurnId


# From timers -----------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class SilenceNoticed(Happened):
    """There was no progress for so long; what the turn waits for, and since when."""

    turn: TurnId
    level: Silence
    waits_for: str
    detail: str | None
    since: float
    seconds: float


@attrs.frozen(kw_only=True)
class DeadlineElapsed(Happened):
    turn: TurnId


@attrs.frozen(kw_only=True)
class LadderElapsed(Happened):
    turn: TurnId
    step: LadderStep
    said: Said = Said()


@attrs.frozen(kw_only=True)
class InputsExpired(Happened):
    pass


@attrs.frozen(kw_only=True)
class RequestTimedOut(Happened):
    request: RequestId


@attrs.frozen(kw_only=True)
class IdleElapsed(Happened):
    pass


@attrs.frozen(kw_only=True)
class BackoffElapsed(Happened):
    pass


# From the tree ---------------------------------------------------------------------------

NewsKind: TypeAlias = Literal["started", "done", "over"]


@attrs.frozen(kw_only=True)
class ChildNews:
    """What became of a child: it began (again), did what it was spawned for, or is over."""

    what: NewsKind
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
    # Whether how its errand ended was told before.
    was_done: bool = False


@attrs.frozen(kw_only=True)
class FamilyChanged(Happened):
    """Something is different around the session: see its situation, and what children did.

    `input` is an id that nobody has used, in case the news begins a turn.
    """

    input: InputId
    news: tuple[ChildNews, ...] = ()


@attrs.frozen(kw_only=True)
class ChildRefused(Asked):
    """A child was not admitted."""

    agent: str
    limit: str
    used: float | None
    allowed: float | None
    detail: str


# From the shell --------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Claimed(Happened):
    """A new incarnation of the session's actor has read the row; the one before is gone.

    `undead`: what ran the open turn would not end, and lives on.
    """

    epoch: int
    undead: bool = False
    said: Said = Said()


@attrs.frozen(kw_only=True)
class SupervisorRestarted(Happened):
    """The whole supervisor died and is back; of the agents nothing is left."""

    epoch: int
    said: Said = Said()


@attrs.frozen(kw_only=True)
class LeaveRequested(Happened):
    """The supervisor is about to leave: no more turns, and rest when the last one is over."""


Event: TypeAlias = (
    InputSubmitted
    | SteeringSubmitted
    | InterruptRequested
    | InputEdited
    | InputMoved
    | InputPromoted
    | InputWithdrawn
    | StopRequested
    | ResumeRequested
    | ClearRequested
    | ArchiveRequested
    | UnarchiveRequested
    | MessageAppended
    | DetailsChanged
    | RequestAnswered
    | RuleRemoved
    | ChildAdmitted
    | ChildDeleted
    | AgentAttached
    | AgentSessionNamed
    | AgentSurfaced
    | AuthenticationAsked
    | AgentStartFailed
    | AgentClosed
    | AgentExited
    | TurnEnded
    | ZombieEnded
    | CallStarted
    | CallEnded
    | PermissionAsked
    | SteeringTaken
    | SteeringDeclined
    | SteeringBeganTurn
    | UsageReported
    | NewsTaken
    | ProgressMade
    | SilenceNoticed
    | DeadlineElapsed
    | FamilyChanged
    | ChildRefused
    | LadderElapsed
    | InputsExpired
    | RequestTimedOut
    | IdleElapsed
    | BackoffElapsed
    | Claimed
    | SupervisorRestarted
    | LeaveRequested
)
EVENTS: tuple[type[Event], ...] = get_args(Event)
