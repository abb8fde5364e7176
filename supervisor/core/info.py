"""A session as users see it: one frozen record, and a badge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import attrs

from .agent_options import AgentOption, OptionValue
from .attention import attention_of
from .endings import FAILED_REASONS
from .ids import SessionId, TurnId
from .limits import Limits
from .permissions import Permissions
from .session_values import (
    Attention,
    AttentionKind,
    ContextUse,
    Failure,
    LastOutcome,
    Phase,
    SessionKind,
    Spending,
    Usage,
)
from .validation import replace_controls

if TYPE_CHECKING:
    from .state import SessionState

Badge: TypeAlias = Literal[
    "failed",
    "stopped",
    "waiting-for-auth",
    "waiting-for-you",
    "hung",
    "unhealthy",
    "restarting",
    "running",
    "idle",
    "suspended",
    "unknown",
]

# What a session needs of a person, the most urgent first; see `need_of`.
Need: TypeAlias = Literal["waiting", "hung", "failed", "finished", "running", "idle", "resting"]

NEEDS: Final[tuple[Need, ...]] = get_args(Need)

# Kinds of records after which a session may be idle; see `is_idle`.
IDLE_KINDS: Final = frozenset(
    {
        "turn_ended",
        "input_settled",
        "session_started",
        "session_suspended",
        "session_resumed",
        "session_stopped",
    }
)


def is_idle(phase: Phase, *, queued: int) -> bool:
    """Return whether a session does nothing until it receives a request.

    A stopped session is idle although inputs may be queued: they run only after a resume.
    """
    is_without_turn = phase in (Phase.IDLE, Phase.SUSPENDED)
    return phase is Phase.STOPPED or (is_without_turn and not queued)


@attrs.frozen(kw_only=True)
class Info:
    """A snapshot of one session."""

    id: SessionId
    key: str | None
    kind: SessionKind
    name: str | None
    title: str | None
    tags: tuple[str, ...]
    custom: Mapping[str, str]
    agent: str
    workspace: str | None
    phase: Phase
    archived: bool
    badge: Badge
    parent: SessionId | None
    root: SessionId
    depth: int
    role: str | None
    lifetime: str
    expires_at: float | None
    limits: Limits
    permissions: Permissions
    children: tuple[SessionId, ...]
    turn_id: TurnId | None
    turns: int
    messages: int
    tool_calls: int
    queued: int
    generation: int
    epoch: int
    last_seq: int
    usage: Usage
    stop_reason: str | None
    stop_detail: str | None
    last_failure: Failure | None
    waiting_for: str | None
    restarts: int
    agent_session_id: str | None
    pid: int | None
    created_at: float
    updated_at: float
    last_active_at: float
    spent: Spending = Spending()  # by it and by all its descendants, deleted ones included
    last_outcome: LastOutcome | None = None  # None before the end of a turn, or of early versions
    attention: tuple[Attention, ...] = ()  # what a person should look at, the most urgent first
    seen_seq: int = 0  # the last record that a person is known to have seen
    # The values that the session wants, by option; see `offered_options` for the current ones.
    options: Mapping[str, OptionValue] = attrs.field(factory=dict)
    offered_options: tuple[AgentOption, ...] = ()  # as its agent last reported them
    context: ContextUse | None = None  # as its agent last reported it; None: it has not


class Node(Info):
    """A session in its tree: an `Info` whose children are nodes."""

    children: tuple[Node, ...]  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Return the fields, with the number of children: a tree may be deeper than the stack."""
        names = (field.name for field in attrs.fields(Info))
        shown = (
            f"children=<{len(self.children)} nodes>"
            if name == "children"
            else f"{name}={getattr(self, name)!r}"
            for name in names
        )
        return f"Node({', '.join(shown)})"


def shown_title(session: SessionState) -> str | None:
    """Return the title on one line: the stored one may be the start of any message."""
    return None if session.title is None else replace_controls(session.title)


def make_info(
    session: SessionState,
    *,
    last_seq: int,
    limits: Limits | None = None,
    children: tuple[SessionId, ...] = (),
    spent: Spending | None = None,
    waits_for: str | None = None,
) -> Info:
    """Return the `Info` of a session; facts about its tree, which its row lacks, are arguments."""
    agent = session.agent
    lineage = session.lineage
    return Info(
        id=session.id,
        key=None if session.key is None else str(session.key),
        kind=session.kind,
        name=session.name,
        title=shown_title(session),
        tags=session.tags,
        custom=dict(session.custom),  # a copy, so that changing it does not change the session
        agent=session.agent_name,
        workspace=session.workspace,
        phase=session.phase,
        archived=session.archived,
        badge=badge_of(session),
        parent=lineage.parent,
        root=lineage.root or session.id,
        depth=lineage.depth,
        role=lineage.role,
        lifetime=lineage.lifetime,
        expires_at=lineage.expires_at,
        limits=limits or session.limits or Limits(),
        permissions=session.permissions,
        children=children,
        turn_id=session.turn.id if session.turn else None,
        turns=session.turns,
        messages=session.messages,
        tool_calls=session.tool_calls,
        queued=len(session.inputs),
        generation=session.generation,
        epoch=session.epoch,
        last_seq=last_seq,
        usage=session.usage,
        stop_reason=session.stop_reason,
        stop_detail=session.stop_detail,
        last_failure=session.last_failure,
        waiting_for=waits_for or waiting_for(session),
        restarts=session.restarts,
        agent_session_id=session.remembered.session_id if session.remembered else None,
        pid=agent.pid if agent else None,
        created_at=session.created_at,
        updated_at=session.updated_at,
        last_active_at=session.last_active_at,
        spent=session.spending if spent is None else spent,
        last_outcome=None if session.last_turn is None else LastOutcome(*session.last_turn),
        attention=attention_of(session),
        seen_seq=session.seen_seq,
        options=dict(session.options),
        offered_options=session.offered,
        context=session.context,
    )


_BADGES: Final[Mapping[Phase, Badge]] = {
    Phase.RESTARTING: "restarting",
    Phase.RUNNING: "running",
    Phase.INTERRUPTING: "running",
    Phase.IDLE: "idle",
    Phase.SUSPENDED: "suspended",
}


def badge_of(session: SessionState) -> Badge:  # noqa: PLR0911 - one per badge
    """Return the badge of a session: that of the first condition below that holds."""
    if session.phase is Phase.STOPPED:
        return "failed" if session.stop_reason in FAILED_REASONS else "stopped"
    if session.waits_for_auth:
        return "waiting-for-auth"
    if session.turn is not None and session.turn.requests:
        return "waiting-for-you"
    if session.turn is not None and session.turn.silence == "stalled":
        return "hung"
    if session.zombie is not None:
        return "unhealthy"
    if session.phase is Phase.STOPPING and session.turn is not None:
        return "running"
    return _BADGES.get(session.phase, "unknown")


def waiting_for(session: SessionState) -> str | None:
    """Return what the session's state shows that it waits for; None if it waits for nothing."""
    turn = session.turn
    if session.zombie is not None:
        return "zombie"
    if session.waits_for_auth:
        return "auth"
    if turn is None:
        return None
    if turn.requests:
        return "person"
    return "tool" if turn.calls else "model"


_WAITS_FOR_A_PERSON: Final = frozenset[AttentionKind]({"permission", "question", "login"})

# Ends of earlier turns, which a turn that runs may make good.
_OF_EARLIER_TURNS: Final = frozenset[AttentionKind](
    {"failed_turn", "lost_turn", "failed_session", "budget"}
)

# Reasons of a stop that no user asked for, so its last turn may be news.
_STOPPED_BY_ITSELF: Final = frozenset({"completed", "ttl_expired"})


def need_of(info: Info) -> Need:  # noqa: PLR0911 - one for each need
    """Return what a session needs of a person: the first of the needs below that it has.

    `finished` means that its last turn has ended since a person saw the session. A session that
    is archived needs nothing. While a turn runs, the failure of an earlier one is not `failed`.
    """
    kinds = {item.kind for item in info.attention}
    if info.archived:
        return "resting"
    if kinds & _WAITS_FOR_A_PERSON:
        return "waiting"
    if info.badge in ("hung", "unhealthy"):
        return "hung"
    if kinds and (info.turn_id is None or not kinds <= _OF_EARLIER_TURNS):
        return "failed"
    if _is_resting(info):
        return "resting"
    if info.phase not in (Phase.IDLE, Phase.SUSPENDED, Phase.STOPPED):
        return "running"
    if info.last_outcome is not None and info.last_outcome.seq > info.seen_seq:
        return "finished"
    return "idle" if info.phase is Phase.IDLE else "resting"


def _is_resting(info: Info) -> bool:
    """Return True for a session that was stopped for a reason that is not news."""
    return info.phase is Phase.STOPPED and info.stop_reason not in _STOPPED_BY_ITSELF
