"""Shapes that callers give and get: what an interrupt names, what waits, what was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, Literal, TypeAlias, TypedDict, TypeVar

import attrs

from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.info import Badge
from supervisor.core.limits import Ladder, Limits, Restart
from supervisor.core.permissions import Permissions
from supervisor.core.records import Record
from supervisor.core.session import OnStall, Waiting
from supervisor.sessions.shell.results import TurnResult

T = TypeVar("T")


@attrs.frozen
class TurnScope:
    """One turn, by its id."""

    id: str


@attrs.frozen
class ToolCall:
    """One tool call, by its id."""

    id: str


Scope: TypeAlias = Literal["turn", "session", "tree"] | TurnScope | ToolCall


# Who has said something. Other programs say `assistant` for an agent.
Role: TypeAlias = Literal["user", "agent", "assistant"]


class Options(TypedDict, total=False):
    """What a session may be made with besides its agent and its key; see `Supervisor.create`."""

    name: str | None
    title: str | None
    tags: Sequence[str]
    custom: Mapping[str, str] | None
    workspace: str | None
    limits: Limits | None
    permissions: Permissions | None
    restart: Restart | None
    ladder: Ladder | None
    queue_cap: int | None
    max_text_bytes: int | None
    max_turn_bytes: int | None
    steer_fallback: Literal["queue", "interrupt"] | None
    permission_timeout_seconds: float | None
    suspend_after_seconds: float | None
    quiet_after_seconds: float | None
    stalled_after_seconds: float | None
    tool_stalled_after_seconds: float | None
    on_stall: OnStall | None
    turn_deadline_seconds: float | None
    answers_for_children: bool | None


@attrs.frozen
class Input:
    """An input that is accepted and not settled."""

    id: InputId
    text: str
    status: Literal["queued", "staged"]
    position: int
    accepted_at: float
    expires_at: float | None


def status_of(waiting: Waiting) -> Literal["queued", "staged"]:
    """Where an input waits: in the queue, or at the door of the turn that runs."""
    return "queued" if waiting.status == "queued" else "staged"


InputStatus: TypeAlias = Literal[
    "queued", "staged", "delivered", "steered", "cancelled", "expired", "failed"
]


@attrs.frozen(kw_only=True)
class InputState:
    """What has become of an input so far.

    `result` is there once the turn that it began, or was steered into, is over. `code`, `detail`
    and `hint` are those of the error if there will be no result: it was settled without a turn, or
    its session has stopped and holds it.
    """

    id: InputId
    session_id: SessionId
    status: InputStatus
    position: int | None = None  # in the queue, from 0, while it waits there
    turn_id: TurnId | None = None
    result: TurnResult | None = None
    code: str | None = None
    detail: str | None = None
    hint: str | None = None


@attrs.frozen
class TurnRecords:
    """The records of one turn, or those between two turns (`turn_id` is None)."""

    turn_id: TurnId | None
    records: tuple[Record, ...]


@attrs.frozen
class Page(Generic[T]):
    """Some of a list, and like one; `next` is where the rest begins, None at the end."""

    items: tuple[T, ...]
    next: str | None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: int) -> T:
        return self.items[place]


@attrs.frozen
class Waits:
    """One session of the chain: what it waits for, and for how long already.

    `waits_for` is one word: `model`, `tool`, `person`, `child`, `turn` (others run, and it may not
    yet), `place` (its parent has as many children up as it may), `zombie` (a task that will not
    end), `hook`, `process` (its own is stopped, or gone), `start`, `restart`, `end` (of its turn or
    its agent), `input`, or `nothing`. `detail` says which.
    """

    session_id: SessionId
    agent: str
    badge: Badge
    waits_for: str
    detail: str | None
    since: float
    seconds: float

    def __str__(self) -> str:
        what = self.waits_for if self.detail is None else f"{self.waits_for} ({self.detail})"
        return f"{self.session_id} ({self.agent}, {self.badge}) waits for {what}"


@attrs.frozen
class Why:
    """The answer: the chain from the session that was asked about, and the cycle if it is one.

    `cycle` names the sessions that wait for each other, in order; it is empty if none do.
    """

    session_id: SessionId
    chain: tuple[Waits, ...]
    cycle: tuple[SessionId, ...] = ()

    @property
    def waits_for(self) -> str:
        """What is at the end of the chain: the thing that has to happen first."""
        return "each other" if self.cycle else self.chain[-1].waits_for

    def __str__(self) -> str:
        lines = [f"{waits}, since {waits.seconds:.0f} s" for waits in self.chain]
        if self.cycle:
            lines.append(f"they wait for each other: {' -> '.join((*self.cycle, self.cycle[0]))}")
        return "\n".join(lines)
