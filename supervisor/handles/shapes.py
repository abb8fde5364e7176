"""Frozen classes of arguments and results: options, inputs, pages, waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from supervisor.core.creation import Options
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.info import Badge
from supervisor.core.receipts import TurnResult
from supervisor.core.records import Record
from supervisor.core.scopes import Scope, ToolCall, TurnScope

from .page import Page

if TYPE_CHECKING:
    from supervisor.core.state import PendingInput

__all__ = [
    "Input",
    "InputState",
    "InputStatus",
    "Options",
    "Page",
    "Role",
    "Scope",
    "ToolCall",
    "TurnRecords",
    "TurnScope",
    "Waits",
    "Why",
    "input_status",
]

# The role of a message. `assistant` is the name that other programs use for an agent.
Role: TypeAlias = Literal["user", "agent", "assistant"]


@attrs.frozen
class Input:
    """An input that is accepted and not settled."""

    id: InputId
    text: str
    status: Literal["queued", "staged"]
    position: int
    accepted_at: float
    expires_at: float | None


def input_status(waiting: PendingInput) -> Literal["queued", "staged"]:
    """Return `queued`, or `staged` for an input that waits to be steered into a turn."""
    return "queued" if waiting.status == "queued" else "staged"


InputStatus: TypeAlias = Literal[
    "queued", "staged", "delivered", "steered", "cancelled", "expired", "failed"
]


@attrs.frozen(kw_only=True)
class InputState:
    """The current state of an input.

    `result` is set when the turn that the input started or was steered into has ended. If there
    will be no result, `code`, `detail` and `hint` are those of the error: the input was settled
    without a turn, or its session is stopped with the input queued.
    """

    id: InputId
    session_id: SessionId
    status: InputStatus
    position: int | None = None  # in the queue, from 0; None after it
    turn_id: TurnId | None = None
    result: TurnResult | None = None
    code: str | None = None
    detail: str | None = None
    hint: str | None = None


@attrs.frozen
class TurnRecords:
    """The records of one turn, or those between two turns, for which `turn_id` is None."""

    turn_id: TurnId | None
    records: tuple[Record, ...]


@attrs.frozen
class Waits:
    """One session of the chain: what it waits for, and since when.

    `waits_for` is one word: `model`, `tool`, `person`, `child`, `turn_slot` (all turn slots are
    taken), `child_slot` (the parent has as many active children as its limit allows), `zombie` (the
    task of an ended turn still runs), `hook`, `process` (the agent process is stopped or gone),
    `start`, `restart`, `end` (of its turn or its agent), `input`, or `nothing`. `detail` says more,
    such as the name of the tool.
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
    """The chain of waits that starts at a session.

    `cycle` contains the sessions that wait for each other, in order; it is empty without a cycle.
    """

    session_id: SessionId
    chain: tuple[Waits, ...]
    cycle: tuple[SessionId, ...] = ()

    @property
    def waits_for(self) -> str:
        """The wait at the end of the chain, which has to end first, or `cycle`."""
        return "cycle" if self.cycle else self.chain[-1].waits_for

    def __str__(self) -> str:
        lines = [f"{waits}, for {waits.seconds:.0f} s" for waits in self.chain]
        if self.cycle:
            lines.append(f"they wait for each other: {' -> '.join((*self.cycle, self.cycle[0]))}")
        return "\n".join(lines)
