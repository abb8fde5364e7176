"""Events from callers, and the union of all events, past tense.

Rule 1: every event says when it happened, and carries one unused id (`fresh`), in case it starts a
        turn: the core has no clock and no randomness. `at` is wall time and only stamps records.
        `steady_at` is for durations: no jump of the wall clock changes it.
Rule 2: an event from a driver names its turn, so that a late event can be recognized.
Rule 3: an event also carries facts about the tree (`tree_view`), sampled when it is decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from .agent_events import (
    AgentAttached,
    AgentChoicesReported,
    AgentClosed,
    AgentExited,
    AgentSessionNamed,
    AuthenticationRequested,
    BackoffElapsed,
    BaseEvent,
    CallEnded,
    CallInterruptElapsed,
    CallStarted,
    Claimed,
    DeadlineElapsed,
    IdleElapsed,
    InputsExpired,
    LadderElapsed,
    NewsRead,
    OptionRefused,
    PermissionAsked,
    ProgressMade,
    RequestTimedOut,
    ShutdownRequested,
    SilenceNoticed,
    StartFailed,
    SteeringBeganTurn,
    SteeringDeclined,
    SteeringTaken,
    SteeringUnanswered,
    SupervisorRestarted,
    TreeChanged,
    TurnEnded,
    UsageReported,
    ZombieEnded,
)
from .agent_options import OptionChanges
from .endings import Cause
from .ids import CallId, InputId, RequestId, SessionId, TurnId
from .limits import Limits
from .receipts import InterruptReport
from .state import Decision, Source, Spending, WhenBusy


class RequestEvent(BaseEvent, kw_only=True):
    """A request of a caller.

    `fresh` also identifies the request: its first record has that id, so a caller that got no reply
    can find out whether the request was carried out.
    """


# From callers, which wait for a reply --------------------------------------------------


class InputSubmitted(RequestEvent, kw_only=True):
    input: InputId
    text: str
    when_busy: WhenBusy = "queue"
    source: Source = "user"
    expires_at: float | None = None
    attachments: tuple[Mapping[str, Any], ...] = ()
    attachment_bytes: int = 0
    trace: Mapping[str, str] | None = None
    queued: Literal["keep", "cancel"] = "keep"  # for when_busy="interrupt"
    if_stopped: Literal["resume", "reject"] = "resume"
    # True if hooks would allow a resume; they are not asked about a live session.
    resume_allowed: bool = True


class SteeringSubmitted(RequestEvent, kw_only=True):
    """Text for the running turn only."""

    input: InputId
    text: str
    source: Source = "user"
    expires_at: float | None = None


class InterruptRequested(RequestEvent, kw_only=True):
    """An interrupt; `turn` or `call` names the target, and without either it is the running turn.

    `whole`: also interrupt everything that the session's agent runs outside its turn, and with
    `queued="cancel"`, cancel the queued inputs also if no turn runs.
    """

    turn: TurnId | None = None
    call: CallId | None = None
    whole: bool = False
    reason: str | None = None
    replacement: InputId | None = None
    replace_with: str | None = None
    replacement_expires_at: float | None = None
    source: Source = "user"  # of the replacement
    queued: Literal["keep", "cancel"] = "keep"


class TreeInterruptRequested(RequestEvent, kw_only=True):
    """An interrupt of the session and its descendants.

    The reply names the descendants by level. `interrupt` is the request for the named session
    itself, which is interrupted after all descendants.
    """

    interrupt: InterruptRequested


class MemberInterruptRequested(RequestEvent, kw_only=True):
    """An interrupt of the session, because the tree of an ancestor is interrupted."""

    reason: str | None = None
    queued: Literal["keep", "cancel"] = "keep"


class TreeInterruptEnded(RequestEvent, kw_only=True):
    """The interrupt of the session's tree is over, with the counts of all members."""

    reason: str | None = None
    report: InterruptReport


class InputEdited(RequestEvent, kw_only=True):
    input: InputId
    text: str


class InputMoved(RequestEvent, kw_only=True):
    input: InputId
    position: int


class InputPromoted(RequestEvent, kw_only=True):
    input: InputId


class InputWithdrawn(RequestEvent, kw_only=True):
    input: InputId


class StopRequested(RequestEvent, kw_only=True):
    cause: Cause = "user"
    detail: str | None = None
    after_turn: bool = False


class ResumeRequested(RequestEvent, kw_only=True):
    resume_allowed: bool = True  # as for an input


class ClearRequested(RequestEvent, kw_only=True):
    pass


class ArchiveRequested(RequestEvent, kw_only=True):
    pass


class UnarchiveRequested(RequestEvent, kw_only=True):
    pass


class MessageAppended(RequestEvent, kw_only=True):
    role: Literal["user", "agent"]
    text: str


class DetailsChanged(RequestEvent, kw_only=True):
    """New details of a session; a field that is None keeps its current value."""

    title: str | None = None
    tags: tuple[str, ...] | None = None
    custom: Mapping[str, str] | None = None
    limits: Limits | None = None
    name: str | None = None
    options: OptionChanges | None = None
    mcp_servers: tuple[str, ...] | None = None  # names
    by: Source = "user"


class RecordsSeen(RequestEvent, kw_only=True):
    """A person has seen the records up to number `seq`, which exists."""

    seq: int


class ToolCalled(RequestEvent, kw_only=True):
    """A call of one of our own tools is over; `outcome` is `ok` or the code of its error.

    `caller` is the session of the agent that called, or the name of a person's credential; `target`
    the session that the call named. `refused` counts earlier calls that were too fast.
    """

    caller: str
    tool: str
    outcome: str
    target: SessionId | None
    seconds: float
    refused: int = 0


class RequestAnswered(RequestEvent, kw_only=True):
    request: RequestId
    decision: Decision
    by: Literal["person", "parent"] = "person"


class QuestionAsked(RequestEvent, kw_only=True):
    """The agent asks people a question in its turn, with answers to choose from, or none."""

    turn: TurnId
    question_id: RequestId
    question: str
    choices: tuple[str, ...] = ()


class QuestionAnswered(RequestEvent, kw_only=True):
    request: RequestId
    text: str
    by: Literal["person", "parent"] = "person"


class RuleRemoved(RequestEvent, kw_only=True):
    rule: RequestId


class ChildAdmitted(RequestEvent, kw_only=True):
    """A child was admitted and its slot reserved; the same commit creates the child.

    `turn` is the turn whose agent requested the child, None for any other caller.
    """

    child: SessionId
    turn: TurnId | None = None
    agent: str
    text: str
    name: str | None = None
    role: str | None = None


class ChildDeleted(RequestEvent, kw_only=True):
    """A child was deleted; its `spent` and `spawns` still count towards the parent's limits."""

    child: SessionId
    spent: Spending
    spawns: int


class ChildRefused(RequestEvent, kw_only=True):
    """A child was not admitted."""

    agent: str
    limit: str
    used: float | None
    allowed: float | None
    detail: str


Event: TypeAlias = (
    InputSubmitted
    | SteeringSubmitted
    | InterruptRequested
    | TreeInterruptRequested
    | MemberInterruptRequested
    | TreeInterruptEnded
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
    | RecordsSeen
    | ToolCalled
    | RequestAnswered
    | QuestionAsked
    | QuestionAnswered
    | RuleRemoved
    | ChildAdmitted
    | ChildDeleted
    | AgentAttached
    | AgentSessionNamed
    | AgentChoicesReported
    | OptionRefused
    | AuthenticationRequested
    | StartFailed
    | AgentClosed
    | AgentExited
    | TurnEnded
    | ZombieEnded
    | CallStarted
    | CallEnded
    | PermissionAsked
    | SteeringTaken
    | SteeringDeclined
    | SteeringUnanswered
    | SteeringBeganTurn
    | UsageReported
    | NewsRead
    | ProgressMade
    | SilenceNoticed
    | DeadlineElapsed
    | TreeChanged
    | ChildRefused
    | LadderElapsed
    | CallInterruptElapsed
    | InputsExpired
    | RequestTimedOut
    | IdleElapsed
    | BackoffElapsed
    | Claimed
    | SupervisorRestarted
    | ShutdownRequested
)

EVENTS: tuple[type[Event], ...] = get_args(Event)
