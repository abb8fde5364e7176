"""Items of `watch_sessions()`: rows of sessions, requests, and the health of the store.

The server makes them, the client decodes them, and the screens show them. The records, deltas and
gaps of the named sessions are those of `core/records.py`.

Rule 1: this module imports the core only, so that a short command does not load the runtime.
Rule 2: a row has what a list shows of a session; `Info` has the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.ids import RequestId, SessionId, TurnId, parse_session_id
from supervisor.core.info import Badge, Info
from supervisor.core.records import Delta, Gap, Record
from supervisor.core.session_values import Attention, ContextUse, LastOutcome, Phase

if TYPE_CHECKING:
    from supervisor.sessions.inbox import PermissionRequest
    from supervisor.store.pending import StoreState

# Sessions whose records one feed contains.
MAX_NAMED: Final = 16

BudgetName: TypeAlias = Literal["turns", "tokens", "cost", "wall_seconds"]


@attrs.frozen
class TightestBudget:
    """The budget of which the largest share is used, on the path from a session to its root.

    `session_id` owns it: a session whose limits contain it, the session itself or an ancestor.
    """

    session_id: SessionId
    name: BudgetName
    used: float
    allowed: float

    @property
    def share(self) -> float:
        """The used share, from 0; 1 and more is exhausted."""
        return self.used / self.allowed if self.allowed else 1.0


@attrs.frozen(kw_only=True)
class SessionRow:
    """One session as a list shows it.

    `waiting_for` is the word of `Info.waiting_for`, and `waiting_since` the time of `why()`; both
    are None while it waits for nothing. `last_text` is the last line that the agent said, at most
    200 characters. `tokens` and `cost` are of the session itself.
    """

    id: SessionId
    parent: SessionId | None
    root: SessionId
    depth: int
    name: str | None
    title: str | None
    agent: str
    role: str | None
    workspace: str | None
    tags: tuple[str, ...]
    badge: Badge
    phase: Phase
    archived: bool
    waiting_for: str | None
    waiting_since: float | None
    queued: int
    turn_id: TurnId | None
    turn_started_at: float | None
    last_text: str | None
    tokens: int
    cost: float
    budget: TightestBudget | None
    last_outcome: LastOutcome | None = None
    attention: tuple[Attention, ...] = ()  # the most urgent first
    seen_seq: int = 0
    last_seq: int
    stop_reason: str | None
    stop_detail: str | None
    created_at: float
    last_active_at: float
    children: int  # that are active
    context: ContextUse | None = None


def row_of(
    info: Info,
    *,
    waiting_since: float | None = None,
    turn_started_at: float | None = None,
    last_text: str | None = None,
    budget: TightestBudget | None = None,
) -> SessionRow:
    """Return the row of a session; those of a stopped one need nothing that `Info` lacks."""
    usage = info.usage
    return SessionRow(
        id=info.id,
        parent=info.parent,
        root=info.root,
        depth=info.depth,
        name=info.name,
        title=info.title,
        agent=info.agent,
        role=info.role,
        workspace=info.workspace,
        tags=info.tags,
        badge=info.badge,
        phase=info.phase,
        archived=info.archived,
        waiting_for=info.waiting_for,
        waiting_since=waiting_since,
        queued=info.queued,
        turn_id=info.turn_id,
        turn_started_at=turn_started_at,
        last_text=last_text,
        tokens=usage.input_tokens + usage.output_tokens,
        cost=usage.cost,
        budget=budget,
        last_outcome=info.last_outcome,
        attention=info.attention,
        seen_seq=info.seen_seq,
        last_seq=info.last_seq,
        stop_reason=info.stop_reason,
        stop_detail=info.stop_detail,
        created_at=info.created_at,
        last_active_at=info.last_active_at,
        children=len(info.children),
        context=info.context,
    )


@attrs.frozen(kw_only=True)
class Snapshot:
    """The first item of a feed, and the first after each reconnect: it replaces all rows.

    `rows` has the sessions that are not stopped, and the stopped ones that a person should look at.
    With `is_reset`, the position that was asked for lies after the last one: the daemon has another
    store, or an older copy of it. What is known of the named sessions must be read again.
    """

    position: int  # of the last record of all sessions
    rows: tuple[SessionRow, ...]
    requests: tuple[PermissionRequest, ...]
    store: StoreState
    daemon_started_at: float
    is_reset: bool = False


@attrs.frozen
class SessionGone:
    """A session that was deleted; there will be no further row of it."""

    id: SessionId


@attrs.frozen
class RequestOpened:
    """A permission request that waits for a decision from now on."""

    request: PermissionRequest


@attrs.frozen
class RequestClosed:
    """A permission request that waits no longer; without a decision its turn ended."""

    id: RequestId
    session_id: SessionId
    decision: str | None


@attrs.frozen
class StoreChanged:
    """The health of the store, after a change."""

    store: StoreState


WatchItem: TypeAlias = (
    Snapshot
    | SessionRow
    | SessionGone
    | RequestOpened
    | RequestClosed
    | StoreChanged
    | Record
    | Delta
    | Gap
)


def check_named(sessions: Sequence[str]) -> tuple[SessionId, ...]:
    """Return the ids of the named sessions, each once; raise ConfigError or SessionNotFound."""
    if isinstance(sessions, str) or not isinstance(sessions, Sequence):
        raise ConfigError(f"sessions is {short_repr(sessions)}", hint="give a list of ids")
    found = tuple(dict.fromkeys(parse_session_id(one) for one in sessions))
    if len(found) > MAX_NAMED:
        raise ConfigError(
            f"sessions names {len(found)} sessions", hint=f"name at most {MAX_NAMED} at a time"
        )
    return found


def check_position(after: int) -> None:
    """Raise ConfigError if `after` is not a position."""
    if isinstance(after, bool) or not isinstance(after, int) or after < 0:
        raise ConfigError(f"after is {short_repr(after)}", hint="give a position, or 0")
