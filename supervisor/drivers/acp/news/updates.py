"""Each `session/update` of an agent, put where it belongs, in the order in which they come.

Rule 1: whatever an agent sends, nothing is raised from here but `OutputTooLarge`.
Rule 2: what an agent tells of the past (`session/load` does) is history: no news, no record, no
        spending. What comes while no turn runs is late, or early, and only what people may choose
        from is kept of it.
Rule 3: what we do not know is tolerated, counted, and said once for each kind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import attrs

from supervisor.core import events as ev
from supervisor.core.errors import BudgetSpent
from supervisor.core.ids import CallId, TurnId
from supervisor.core.session import Usage
from supervisor.drivers.acp.reading import as_mapping, as_name
from supervisor.drivers.port import Office, TextKind

from .calls import Calls, Reach
from .content import bounded, text_of
from .ending import Did
from .surfaced import KINDS, Surfaced
from .tools import ToolFacts
from .usage import Meter

MAX_ODDITIES: Final = 32
MAX_ODDITY_BYTES: Final = 2048
MAX_PLAN_BYTES: Final = 65536
# What the user said; it is on record as the user wrote it.
_ECHO: Final = "user_message_chunk"


@attrs.define(eq=False)
class _Turn:
    """The turn that the updates are about."""

    id: TurnId
    calls: Calls
    # The message that text of each kind was last part of, where the agent gives them names.
    messages: dict[TextKind, str] = attrs.field(factory=dict)
    thoughts: int = 0
    plans: int = 0
    # Whether the last that was said of its state is that something went wrong with it.
    is_faulty: bool = False
    # What was spent and could not be reported yet, because the session had no room.
    unreported: Usage = Usage()


class Updates:
    """What one agent says of one session, over all its turns."""

    def __init__(self, office: Office, *, reach: Reach | None = None) -> None:
        self._office = office
        self._reach = reach
        self._meter = Meter()
        self._turn: _Turn | None = None
        self._is_history = False
        self._had_turns = False
        self.surfaced = Surfaced()
        # What was strange, and how often; no more kinds than a person would read.
        self.oddities: dict[str, int] = {}

    # For the driver -----------------------------------------------------------------------

    def begin_turn(self, turn: TurnId) -> None:
        """Updates are this turn's from now on."""
        self._meter.begin_turn()
        self._turn = _Turn(turn, Calls(self._office, turn, self._reach))
        self._had_turns = True

    def end_turn(self) -> Did:
        """What comes from now on is late; gives what was done besides saying something."""
        turn, self._turn = self._turn, None
        if turn is None:
            return Did()
        if turn.unreported != Usage():
            self._office.report_surely(self._usage_report(turn))
        return Did(len(turn.calls), turn.thoughts, turn.plans, turn.is_faulty)

    @contextmanager
    def history(self) -> Iterator[None]:
        """What comes inside of the block was before."""
        self._is_history = True
        try:
            yield
        finally:
            self._is_history = False

    def carry_on(self) -> None:
        """The agent goes on with a conversation: what that has cost so far is counted."""
        self._meter.carry_on(self._office.agent_session_cost)

    def known(self, tool_call_id: object) -> ToolFacts:
        """What was said of a tool call of this turn so far."""
        return ToolFacts() if self._turn is None else self._turn.calls.known(tool_call_id)

    async def interrupt_call(self, call: CallId) -> bool:
        """End a tool call, if that is in our hands; gives whether it was."""
        return self._turn is not None and await self._turn.calls.interrupt(call)

    def take_answer(self, answer: object) -> None:
        """Count what the answer to the prompt says was spent; the turn is still the one it was."""
        if self._turn is not None:
            self._spend(self._turn, self._meter.read_answer(as_mapping(answer)))

    async def take(self, update: object) -> None:
        """Take in one update; waits while the store is behind, so that the agent is slowed.

        Raises `OutputTooLarge` if the turn has put out more than it may.
        """
        given = as_mapping(update)
        kind = given.get("sessionUpdate")
        if not isinstance(kind, str):
            kind = "unknown"
        elif kind in KINDS:
            self.surfaced = self.surfaced.absorb(given)
        turn = self._turn
        if turn is None or self._is_history:
            if kind == "usage_update" and not self._had_turns:
                self._meter.read_update(given)  # spent before any of it was ours to count
            return
        take = _TAKERS.get(kind)
        if take is not None:
            await take(self, turn, given)
        elif kind not in KINDS and kind != _ECHO:
            self._note_oddity(turn, f"an update of kind {as_name(kind) or 'unknown'}", given)
        if not self._office.has_room:
            await self._office.wait_for_room()

    # One for each kind --------------------------------------------------------------------

    async def _take_text(self, turn: _Turn, update: Mapping[str, Any]) -> None:
        self._write_text(turn, "agent_text", update)
        if "_meta" in update:
            self._spend(turn, self._meter.read_text(update))

    async def _take_thought(self, turn: _Turn, update: Mapping[str, Any]) -> None:
        turn.thoughts += 1
        self._write_text(turn, "thought", update)

    async def _take_call(self, turn: _Turn, update: Mapping[str, Any]) -> None:
        problem = await turn.calls.take(update)
        if problem is not None:
            self._note_oddity(turn, problem, update)

    async def _take_plan(self, turn: _Turn, update: Mapping[str, Any]) -> None:
        entries = bounded(update.get("entries"), MAX_PLAN_BYTES)
        turn.plans += 1
        self._office.write(
            turn.id, "plan", {"entries": entries if isinstance(entries, list) else []}
        )

    async def _take_usage(self, turn: _Turn, update: Mapping[str, Any]) -> None:
        self._spend(turn, self._meter.read_update(update))

    async def _take_state(self, turn: _Turn, update: Mapping[str, Any]) -> None:
        # Codex says so, and then ends the turn as if it were a success.
        codex = as_mapping(as_mapping(update.get("_meta")).get("codex"))
        state = as_mapping(codex.get("threadStatus")).get("type")
        if state is not None:
            turn.is_faulty = state == "systemError"

    # Inside -------------------------------------------------------------------------------

    def _write_text(self, turn: _Turn, kind: TextKind, update: Mapping[str, Any]) -> None:
        text = text_of(update.get("content"))
        if not text:
            return
        message = as_name(update.get("messageId"))
        before = turn.messages.get(kind)
        if message is not None:
            turn.messages[kind] = message
        continues = message is None or before is None or message == before
        self._office.write_text(turn.id, kind, text, continues=continues)

    def _spend(self, turn: _Turn, used: Usage) -> None:
        if used == Usage():
            return
        try:
            self._office.spend(turn.id, used)
        except BudgetSpent:
            return  # the turn is being interrupted for that
        turn.unreported += used
        if self._office.report(self._usage_report(turn)):
            turn.unreported = Usage()

    def _usage_report(self, turn: _Turn) -> ev.UsageReported:
        return ev.UsageReported(turn=turn.id, usage=turn.unreported, **self._office.stamp())

    def _note_oddity(self, turn: _Turn, what: str, update: Mapping[str, Any]) -> None:
        seen = self.oddities.get(what, 0)
        if seen or len(self.oddities) < MAX_ODDITIES:
            self.oddities[what] = seen + 1
            if not seen:
                raw = bounded(update, MAX_ODDITY_BYTES)
                body = {"text": f"the agent sent {what}, which was ignored", "update": raw}
                self._office.write(turn.id, "warning", body)


_Taker: TypeAlias = Callable[[Updates, _Turn, Mapping[str, Any]], Awaitable[None]]

_TAKERS: Final[Mapping[str, _Taker]] = {
    "agent_message_chunk": Updates._take_text,  # noqa: SLF001 - a table of its own methods
    "agent_thought_chunk": Updates._take_thought,  # noqa: SLF001
    "tool_call": Updates._take_call,  # noqa: SLF001
    "tool_call_update": Updates._take_call,  # noqa: SLF001
    "plan": Updates._take_plan,  # noqa: SLF001
    "session_info_update": Updates._take_state,  # noqa: SLF001
    "usage_update": Updates._take_usage,  # noqa: SLF001
}
