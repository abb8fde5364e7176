"""A session as it stands: the row that is stored, and all that a decision may look at.

Rule 1: everything here is frozen, and changes only by folding a fact (`facts.fold`).
Rule 2: what can be worked out is not stored: positions, badges and counts of waiting inputs are
        properties.
Rule 3: whatever is bounded says by what, beside the field.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

from .ids import CallId, InputId, RequestId, SessionId, SessionKey, TurnId
from .limits import LARGEST, Ladder, Limits, Restart
from .permissions import Permissions

Kind: TypeAlias = Literal["user", "system", "coordinator", "spawned"]
Source: TypeAlias = Literal["user", "parent", "child", "schedule", "hook", "peer"]
WhenBusy: TypeAlias = Literal["queue", "steer", "interrupt", "reject"]
Outcome: TypeAlias = Literal["completed", "interrupted", "failed", "timed_out", "lost"]
Settled: TypeAlias = Literal["delivered", "steered", "cancelled", "expired", "failed"]
Decision: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
Steering: TypeAlias = Literal["native", "boundary", "none"]
LadderStep: TypeAlias = Literal["ask", "close", "terminate", "kill"]
Lifetime: TypeAlias = Literal["with_parent", "detached"]
OnEnd: TypeAlias = Literal["tell", "wake"]
OnStall: TypeAlias = Literal["notify", "interrupt", "restart", "stop"]
Silence: TypeAlias = Literal["quiet", "stalled"]
Cause: TypeAlias = Literal[
    "completed",
    "user",
    "cleared",
    "replaced",
    "deleted",
    "hook_denied",
    "ttl_expired",
    "parent_stopped",
    "turns_limit",
    "budget",
    "failed",
    "process_exited",
    "stalled",
    "start_failed",
    "fenced",
]


class Phase(enum.StrEnum):
    """Where a session is in its life. `archived` is a flag on a stopped one, not a phase."""

    STARTING = "starting"
    IDLE = "idle"
    RUNNING = "running"
    INTERRUPTING = "interrupting"
    RESTARTING = "restarting"
    SUSPENDED = "suspended"
    STOPPING = "stopping"
    STOPPED = "stopped"


@attrs.frozen
class Ending:
    """What a cause of stopping looks like from outside."""

    reason: str
    badge: Literal["stopped", "failed"]
    inputs: Literal["cancelled", "held"]


ENDINGS: Final[Mapping[Cause, Ending]] = {
    "completed": Ending("completed", "stopped", "cancelled"),
    "user": Ending("user_cancelled", "stopped", "cancelled"),
    "cleared": Ending("user_cancelled", "stopped", "cancelled"),
    "replaced": Ending("user_cancelled", "stopped", "cancelled"),
    "deleted": Ending("user_cancelled", "stopped", "cancelled"),
    "hook_denied": Ending("hook_stopped", "stopped", "cancelled"),
    "ttl_expired": Ending("ttl_expired", "stopped", "cancelled"),
    "parent_stopped": Ending("parent_stopped", "stopped", "cancelled"),
    "turns_limit": Ending("max_turns", "stopped", "cancelled"),
    "budget": Ending("budget_exceeded", "stopped", "cancelled"),
    "failed": Ending("error", "failed", "held"),
    "process_exited": Ending("agent_crashed", "failed", "held"),
    "stalled": Ending("timeout", "failed", "held"),
    "start_failed": Ending("start_failed", "failed", "held"),
    "fenced": Ending("fenced", "failed", "held"),
}

# After these a message does not bring a session back; somebody has to change something first.
SPENT_REASONS: Final = frozenset({"max_turns", "budget_exceeded"})
NOT_RESUMED_BY_INPUT: Final = SPENT_REASONS | {"fenced", "ttl_expired"}


@attrs.frozen
class Terms:
    """The settings a session was created under; its own from then on."""

    queue_cap: int = 10
    max_text_bytes: int = 65536
    steer_fallback: Literal["queue", "interrupt"] = "queue"
    ladder: Ladder = attrs.field(factory=Ladder)
    restart: Restart = attrs.field(factory=Restart)
    permission_timeout_seconds: float = 300.0
    suspend_after_seconds: float | None = 900.0  # None: never
    max_turn_bytes: int = 67108864
    quiet_after_seconds: float = 120.0
    stalled_after_seconds: float = 300.0
    tool_stalled_after_seconds: float = 900.0
    on_stall: OnStall = "notify"
    turn_deadline_seconds: float | None = None  # None: no deadline
    # Whether its agent may decide what its own descendants ask, within its own rights.
    answers_for_children: bool = False


@attrs.frozen
class Lineage:
    """Where a session stands in its tree; the default is a root's, whose root it is itself.

    `above` are all that it stands below, the root first: they may be deleted before it is, and
    whoever is left of them still counts it. `input` is the text that it was spawned with, and
    `on_end` what the end of that is to its parent: news, or a turn.
    """

    parent: SessionId | None = None
    root: SessionId | None = None
    depth: int = 0
    role: str | None = None
    lifetime: Lifetime = "with_parent"
    expires_at: float | None = None
    input: InputId | None = None
    on_end: OnEnd = "tell"
    above: tuple[SessionId, ...] | None = None


@attrs.frozen
class Capabilities:
    """What an agent says it can do, and how hard it can be pushed."""

    steering: Steering = "boundary"
    cancels_calls: bool = True
    loads_sessions: bool = False
    # The steps of the ladder that mean something to it; a python agent can only be asked.
    ladder: tuple[LadderStep, ...] = ("ask",)


@attrs.frozen
class Agent:
    """The agent behind a session, while there is one."""

    capabilities: Capabilities
    session_id: str | None = None
    pid: int | None = None


@attrs.frozen
class Remembered:
    """What is kept of an agent, also while there is none.

    `session_id` is the name under which it knows the conversation, so that the next one can go on
    with it. `auth` is how it wants to know who we are, while it waits for that. `cost_before` is
    what the session had cost when that conversation began, for agents count from there. `untold` is
    how many messages were put into the history since its last turn: of these it has not heard.
    """

    session_id: str | None = None
    auth: str | None = None
    cost_before: float | None = None
    untold: int | None = None  # and not 0, so that rows of before can be read


@attrs.frozen
class Failure:
    """Why something did not work, in one of the twelve kinds."""

    kind: str
    detail: str


@attrs.frozen
class Usage:
    """What was spent."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        # Numbers that no store can keep stay at the largest that every store can.
        return Usage(
            min(self.input_tokens + other.input_tokens, LARGEST),
            min(self.output_tokens + other.output_tokens, LARGEST),
            min(self.cost + other.cost, float(LARGEST)),
        )


NO_USAGE: Final = Usage()


@attrs.frozen
class Waiting:
    """An input that was accepted and is not settled yet.

    `number` says when it was accepted, and orders inputs over all modes; moving one changes it.
    A replacement goes before everything else. `staged` ones were offered to the running turn,
    which has not taken them yet; `handed` ones are on their way into a process, and nobody knows
    whether they arrived until it says so.
    """

    id: InputId
    number: int
    text: str
    when_busy: WhenBusy
    source: Source
    accepted_at: float
    generation: int
    expires_at: float | None = None
    replacement: bool = False
    status: Literal["queued", "staged", "handed"] = "queued"
    attachments: tuple[Mapping[str, Any], ...] = ()

    @property
    def order(self) -> tuple[bool, int]:
        """Sorts inputs into the order in which they run."""
        return (not self.replacement, self.number)


@attrs.frozen
class Call:
    """A tool call that is under way."""

    id: CallId
    name: str
    cancellable: bool = True


@attrs.frozen
class Request:
    """A permission or a question that waits for an answer."""

    id: RequestId
    tool: str
    question: str
    options: tuple[Decision, ...]
    asked_at: float
    input: Mapping[str, object] | None = None


@attrs.frozen
class Turn:
    """The turn that is under way; at most one at any instant.

    `step` is how far the ladder went since someone interrupted it, None while nobody has.
    `silence` is what was last said about its progress, None while there is some. `verdict` is what
    its end will mean when it was interrupted by us: that its time was over, that its agent is to be
    restarted, or that a new chapter begins.
    """

    id: TurnId
    input_id: InputId
    source: Source
    started_at: float
    calls: tuple[Call, ...] = ()
    requests: tuple[Request, ...] = ()
    step: LadderStep | None = None
    usage: Usage = NO_USAGE
    silence: Silence | None = None
    verdict: Literal["timed_out", "stalled", "restart", "clear"] | None = None


@attrs.frozen
class PermissionRule:
    """An answer that was given for always."""

    id: RequestId
    tool: str
    decision: Literal["allow_always", "reject_always"]


@attrs.frozen
class Stopping:
    """A stop that was asked for: why, and whether the running turn may end first.

    `agent_closed`: nothing is left of the agent, and only other sessions are waited for.
    """

    cause: Cause
    detail: str | None = None
    after_turn: bool = False
    agent_closed: bool = False
    failure: Failure | None = None


@attrs.frozen
class Spending:
    """What budgets are about: turns begun, tokens, cost, and the seconds that turns have run."""

    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    wall_seconds: float = 0.0

    def __add__(self, other: Spending) -> Spending:
        return Spending(
            min(self.turns + other.turns, LARGEST),
            min(self.tokens + other.tokens, LARGEST),
            min(self.cost + other.cost, float(LARGEST)),
            self.wall_seconds + other.wall_seconds,
        )


@attrs.frozen
class Family:
    """What a session remembers of those below it, and of its own errand for the one above."""

    open_children: int = 0  # started, and their end not told yet
    news: int = 0  # how much news of children there was, and how much of it the agent has read
    news_read: int = 0
    # What descendants have spent, and how many there were, that were deleted since.
    deleted: Spending = Spending()
    deleted_spawns: int = 0
    # How the text that it was spawned with ended, and what its agent said last, for its parent.
    outcome: Outcome | None = None
    text: str = ""

    def __bool__(self) -> bool:
        """Whether there is anything to remember; rows leave out what is empty."""
        return self is not NO_FAMILY and self != NO_FAMILY


NO_FAMILY: Final = Family()


@attrs.frozen(kw_only=True, slots=False)
class Session:
    """One conversation with one agent, as its records have made it.

    Without slots, because a copy with changes is then two dict updates: it is made for every
    record of every session, and `attrs.evolve` took most of the time of a decision.
    """

    id: SessionId
    agent_name: str
    key: SessionKey | None = None
    kind: Kind = "user"
    name: str | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()
    custom: Mapping[str, str] = attrs.field(factory=dict)
    workspace: str | None = None
    lineage: Lineage = Lineage()
    created_at: float = 0.0
    updated_at: float = 0.0
    last_active_at: float = 0.0
    terms: Terms = Terms()
    # None in a child that was given none of its own: those of the nearest above it that has some.
    limits: Limits | None = None
    permissions: Permissions = Permissions()
    rules: tuple[PermissionRule, ...] = ()

    phase: Phase = Phase.STARTING
    archived: bool = False
    # Invariant: set from the request to stop until the session is started again.
    stopping: Stopping | None = None
    # The supervisor is leaving: when the turn is over, rest instead of beginning the next.
    leaving: bool = False
    stop_reason: str | None = None
    stop_detail: str | None = None
    last_failure: Failure | None = None  # stays after a resume, so that a crash remains visible

    agent: Agent | None = None
    remembered: Remembered | None = None
    # Invariant: not None exactly while a turn is open, whatever the phase.
    turn: Turn | None = None
    # A turn that was interrupted and whose task lives on; no other may begin meanwhile.
    zombie: TurnId | None = None
    # Invariant: at most `terms.queue_cap` of them, and one of news from children besides; sorted by
    # `order`.
    inputs: tuple[Waiting, ...] = ()

    turns: int = 0
    messages: int = 0
    tool_calls: int = 0
    usage: Usage = NO_USAGE
    wall_seconds: float = 0.0  # of turns that are over
    family: Family = NO_FAMILY
    restarts: int = 0
    returns: int = 0  # how often it was started again after a stop
    recent_restarts: tuple[float, ...] = ()

    # Each only ever grows (invariant 7).
    accepted: int = 0
    generation: int = 0
    epoch: int = 0
    chapter: int = 0

    def changed(self, **changes: Any) -> Session:  # noqa: ANN401 - the fields' own types
        """A copy with these fields changed."""
        return self.with_changes(changes)

    def with_changes(self, changes: Mapping[str, Any]) -> Session:
        """The same, for whoever has them in a dict already."""
        copy = object.__new__(Session)
        object.__setattr__(copy, "__dict__", {**self.__dict__, **changes})
        return copy

    @property
    def spending(self) -> Spending:
        """What it has spent itself, the running turn's seconds not counted."""
        tokens = self.usage.input_tokens + self.usage.output_tokens
        return Spending(self.turns, tokens, self.usage.cost, self.wall_seconds)

    @property
    def waits_for_auth(self) -> bool:
        """Whether its agent waits until somebody has said who we are."""
        return self.remembered is not None and self.remembered.auth is not None

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing happens in it until somebody wants something."""
        return self.phase in (Phase.SUSPENDED, Phase.STOPPED)

    def find_input(self, input_id: InputId) -> Waiting | None:
        """The input of that id, if it is not settled."""
        return next((waiting for waiting in self.inputs if waiting.id == input_id), None)

    def position(self, input_id: InputId) -> int:
        """Its place among the inputs that wait, from 0."""
        return [waiting.id for waiting in self.inputs].index(input_id)
