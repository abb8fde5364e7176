"""The state of a session: the row that is stored, and the input of every decision.

Rule 1: all classes are frozen; a state changes only by folding a fact (`fold.fold`).
Rule 2: derived values are not stored: positions, badges and counts of waiting inputs are
        properties.
Rule 3: a bounded field has its bound beside it.

The values that answers to readers have too are in `session_values.py`, without msgspec.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

from .agent_options import AgentOption, OptionValue
from .endings import Cause
from .frozen_struct import FrozenStruct, known_to_attrs
from .ids import CallId, InputId, RequestId, SessionId, SessionKey, TurnId
from .limits import Limits, Lineage, Terms
from .permissions import Permissions
from .session_values import (
    IDLE,
    INTERRUPTING,
    NO_USAGE,
    RESTARTING,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    SUSPENDED,
    Attention,
    CallInterrupt,
    ContextUse,
    Decision,
    Failure,
    InputOutcome,
    LadderStep,
    Outcome,
    PermissionRule,
    Phase,
    RequestKind,
    SessionKind,
    Silence,
    Source,
    Spending,
    Steering,
    Usage,
    WhenBusy,
)

__all__ = [
    "IDLE",
    "INACTIVE",
    "INTERRUPTING",
    "NO_TREE_STATE",
    "NO_USAGE",
    "RESTARTING",
    "RUNNING",
    "STARTING",
    "STOPPED",
    "STOPPING",
    "SUSPENDED",
    "Agent",
    "Attention",
    "CallInterrupt",
    "Capabilities",
    "ContextUse",
    "Decision",
    "EndedTurn",
    "Failure",
    "InputOutcome",
    "LadderStep",
    "OpenCall",
    "OpenRequest",
    "OpenTurn",
    "Outcome",
    "PendingInput",
    "PermissionRule",
    "Phase",
    "SavedAgent",
    "SessionKind",
    "SessionState",
    "Silence",
    "Source",
    "Spending",
    "Steering",
    "Stopping",
    "TreeState",
    "Usage",
    "WhenBusy",
]

EndedTurn: TypeAlias = tuple[Outcome, str | None, float, TurnId, int]

# The phases in which a session does nothing until it receives a request.
INACTIVE: Final = frozenset({SUSPENDED, STOPPED})


@attrs.frozen
class Capabilities:
    """Capabilities of an agent, and the ladder steps that apply to it."""

    steering: Steering = "boundary"
    cancels_calls: bool = True
    loads_sessions: bool = False
    # The ladder steps that have an effect on it; a Python agent can only be asked.
    ladder: tuple[LadderStep, ...] = ("ask",)


@attrs.frozen
class Agent:
    """The running agent of a session."""

    capabilities: Capabilities
    session_id: str | None = None
    pid: int | None = None


@attrs.frozen
class SavedAgent:
    """Facts about an agent that are kept after the agent has exited.

    `session_id` is the agent's own id of the conversation, so that the next agent can continue it.
    `auth` is the authentication method that the agent waits for. `cost_before` is the session's
    cost when that conversation began, because agents report the cost since then. `untold` is the
    number of messages that were added to the history since its last turn, which the agent has not
    seen.
    """

    session_id: str | None = None
    auth: str | None = None
    cost_before: float | None = None
    untold: int | None = None  # not 0, so that older rows can be read


@known_to_attrs
class PendingInput(FrozenStruct):
    """An accepted input that is not settled yet.

    `number` is the order of acceptance over all modes; moving an input changes it. A
    replacement comes before everything else. `staged` inputs were offered to the running turn,
    which has not taken them yet; `handed` inputs are being sent to a process, and are
    unconfirmed until the process reports them.
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
    trace: Mapping[str, str] | None = None  # its trace context, which the agent is told

    @property
    def order(self) -> tuple[bool, int]:
        """The sort key of the order in which inputs run."""
        return (not self.replacement, self.number)


@attrs.frozen
class OpenCall:
    """A tool call in progress.

    `interrupt` is set by an interrupt of this call alone: the call was asked to end, or is
    unreachable, because it did not end in time or the agent cannot cancel it.
    """

    id: CallId
    name: str
    cancellable: bool = True
    interrupt: CallInterrupt | None = None


@attrs.frozen
class OpenRequest:
    """A permission request that waits for a decision, or a question that waits for a text."""

    id: RequestId
    tool: str
    question: str
    options: tuple[Decision, ...]
    asked_at: float
    input: Mapping[str, object] | None = None
    # Steady time at which it is rejected; None: it waits until it is answered.
    expires_at: float | None = None
    # The number of its record; None in rows of early versions, see `keeps_attention`.
    seq: int | None = None
    kind: RequestKind = "permission"
    # Of a question: answers to choose from; any other text is an answer too.
    choices: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Return what it asks, on behalf of which tool."""
        return self.question if self.kind == "question" else f"{self.tool}: {self.question}"


@known_to_attrs
class OpenTurn(FrozenStruct):
    """The turn in progress; at most one at any instant.

    `step` is the last ladder step of an interrupt, None while there is none. `silence` is the last
    reported level, None while there is progress. `verdict` says why the supervisor interrupted the
    turn: its deadline elapsed, its agent is restarted, or a new chapter begins.
    """

    id: TurnId
    input_id: InputId
    source: Source
    started_at: float
    calls: tuple[OpenCall, ...] = ()
    requests: tuple[OpenRequest, ...] = ()
    step: LadderStep | None = None
    usage: Usage = NO_USAGE
    silence: Silence | None = None
    verdict: Literal["timed_out", "stalled", "restart", "clear"] | None = None

    def find_call(self, call_id: CallId | None) -> OpenCall | None:
        """Return the call with that id, or None if it is not in progress."""
        return next((call for call in self.calls if call.id == call_id), None)


@attrs.frozen
class Stopping:
    """A requested stop: its cause, and whether the running turn may end first.

    `agent_closed`: the agent has ended, and the session waits only for other sessions.
    """

    cause: Cause
    detail: str | None = None
    after_turn: bool = False
    agent_closed: bool = False
    failure: Failure | None = None


@attrs.frozen
class TreeState:
    """Tree-related state: the session's children, and the input that it was spawned with."""

    open_children: int = 0  # started, and their end not recorded yet
    news: int = 0  # news of children so far, and how much of it the agent has read
    news_read: int = 0
    # Spending and number of descendants that were deleted since.
    deleted: Spending = Spending()
    deleted_spawns: int = 0
    # The outcome of its spawn input, and its agent's last text, for its parent.
    outcome: Outcome | None = None
    text: str = ""

    def __bool__(self) -> bool:
        """Return False for the default value, which rows leave out."""
        return self is not NO_TREE_STATE and self != NO_TREE_STATE


NO_TREE_STATE: Final = TreeState()


@attrs.frozen(kw_only=True, slots=False)
class SessionState:
    """The state of one session: the result of folding its records.

    The class has no slots, because a copy with changes is then two dict updates: it is made for
    every record of every session, and `attrs.evolve` took most of the time of a decision.
    """

    id: SessionId
    agent_name: str
    key: SessionKey | None = None
    kind: SessionKind = "user"
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
    # None in a child without its own: those of the nearest ancestor that has some apply.
    limits: Limits | None = None
    permissions: Permissions = Permissions()
    rules: tuple[PermissionRule, ...] = ()

    # Values that the session wants, by the ids or short names of its agent's options.
    options: Mapping[str, OptionValue] = attrs.field(factory=dict)
    # The agent's options and their current values, as it last reported them.
    offered: tuple[AgentOption, ...] = ()
    # Whether the agent has reported `offered` since the session exists.
    knows_offer: bool = False
    # Names of the MCP servers that a caller gave. Their commands and values are in memory only.
    mcp_servers: tuple[str, ...] = ()

    phase: Phase = STARTING
    archived: bool = False
    # Invariant: set from the request to stop until the session is started again.
    stopping: Stopping | None = None
    # The supervisor shuts down: suspend after the turn instead of starting the next one.
    leaving: bool = False
    stop_reason: str | None = None
    stop_detail: str | None = None
    last_failure: Failure | None = None  # stays after a resume, so that a crash remains visible

    agent: Agent | None = None
    remembered: SavedAgent | None = None
    # Invariant: not None exactly while a turn is open, whatever the phase.
    turn: OpenTurn | None = None
    # An interrupted turn whose task has not ended; no other turn may start meanwhile.
    zombie: TurnId | None = None
    # Invariant: at most `terms.queue_cap` of them, plus one of news from children; sorted by
    # `order`.
    inputs: tuple[PendingInput, ...] = ()

    turns: int = 0
    messages: int = 0
    tool_calls: int = 0
    usage: Usage = NO_USAGE
    # As the agent last reported it in this chapter; None if it has not.
    context: ContextUse | None = None
    wall_seconds: float = 0.0  # of turns that have ended
    family: TreeState = NO_TREE_STATE
    restarts: int = 0
    returns: int = 0  # number of starts after a stop
    recent_restarts: tuple[float, ...] = ()

    # Set by the first claim of a version that keeps the next two. Records before that claim do not
    # change them, because the rows of early versions do not have them.
    keeps_attention: bool = False
    # The fields of `LastOutcome`. A plain tuple, which orjson writes without a call: each step of a
    # turn writes the row.
    last_turn: EndedTurn | None = None
    # At most one of each kind, the newest; requests are not in it. See `attention.py`.
    attention: tuple[Attention, ...] = ()

    # Each only ever grows.
    seen_seq: int = 0
    accepted: int = 0
    generation: int = 0
    epoch: int = 0
    chapter: int = 0

    def changed(self, **changes: Any) -> SessionState:  # noqa: ANN401 - the types of the fields
        """Return a copy with these fields changed."""
        return self.with_changes(changes)

    def with_changes(self, changes: Mapping[str, Any]) -> SessionState:
        """Return a copy with the fields of a dict changed."""
        copy = object.__new__(SessionState)
        object.__setattr__(copy, "__dict__", {**self.__dict__, **changes})
        return copy

    @property
    def spending(self) -> Spending:
        """The spending of the session itself, without the seconds of the running turn."""
        tokens = self.usage.input_tokens + self.usage.output_tokens
        return Spending(self.turns, tokens, self.usage.cost, self.wall_seconds)

    @property
    def waits_for_auth(self) -> bool:
        """True while the agent waits for an authentication."""
        return self.remembered is not None and self.remembered.auth is not None

    @property
    def is_inactive(self) -> bool:
        """True if the session does nothing until it receives a request."""
        return self.phase in INACTIVE

    def find_input(self, input_id: InputId) -> PendingInput | None:
        """Return the input with that id, or None if it is settled or unknown."""
        for waiting in self.inputs:
            if waiting.id == input_id:
                return waiting
        return None

    def position(self, input_id: InputId) -> int:
        """Return the position of an input among the queued inputs, from 0."""
        return [waiting.id for waiting in self.inputs].index(input_id)
