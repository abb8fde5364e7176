"""The tool calls of one turn, as an agent reports them: begun once, ended once, whatever it sends.

Rule 1: the first that is heard of a call begins it, be it an update; what says that it is completed
        or failed ends it; what comes after that is late, and nothing.
Rule 2: a call is ours to cancel only if it runs in a terminal of ours. That is not known when it
        begins: the terminal is shown later, or never. So while terminals are offered every call is
        said to be cancellable, and one that is to end waits a while for its terminal to turn up.
Rule 3: what an agent repeats is not written again, and what it replaces over and over while a call
        runs is written short, so that a long output that grows costs no square of its length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

import attrs
import trio

from supervisor.core import events as ev
from supervisor.core.ids import CallId, TurnId
from supervisor.drivers.acp.reading import as_list, as_mapping, as_name, as_text
from supervisor.drivers.port import Office

from .content import bounded, cut, shown_content, terminals_in
from .tools import ToolFacts, facts_of, short

CallOutcome: TypeAlias = Literal["completed", "failed", "interrupted"]

MAX_ID_LETTERS: Final = 256
# Open at once: they are in the session's row, which is written with every step.
MAX_OPEN: Final = 256
MAX_CALLS: Final = 10_000
MAX_TERMINALS: Final = 16
MAX_BYTES: Final = 65536
# Of what replaces something that was shown before, while the call runs.
MAX_BYTES_AGAIN: Final = 4096
# How much of the time that an interrupt has is spent on waiting for a terminal: not quite all,
# so that nothing ends of which was said that it is out of reach.
_PATIENCE: Final = 0.9
_ENDS: Final[Mapping[str, CallOutcome]] = {"completed": "completed", "failed": "failed"}


class Reach(Protocol):
    """The terminals that we run for the agent."""

    def is_running(self, terminal_id: str) -> bool:
        """Whether something runs in it."""

    async def cancel(self, terminal_id: str) -> None:
        """End what runs in it, and wait until it is over; bounded."""

    def shown(self, terminal_id: str) -> Mapping[str, Any] | None:
        """What has come out of it, and how it ended; None if it was never there."""


@attrs.define(eq=False)
class _Call:
    """A call that is under way."""

    id: CallId
    name: str
    facts: ToolFacts
    terminals: list[str] = attrs.field(factory=list)
    # What was written of each field last, so that it is not written again.
    written: dict[str, Any] = attrs.field(factory=dict)
    is_interrupted: bool = False
    # Who waits for a terminal of it to turn up, or for its end.
    waiting: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    def room_for(self, field: str) -> int:
        """How many bytes of that may be written: less of what replaces something."""
        return MAX_BYTES_AGAIN if field in self.written else MAX_BYTES

    def show(self, terminals: Sequence[str]) -> None:
        """It runs in these terminals, or in these too."""
        self.terminals = list(dict.fromkeys((*self.terminals, *terminals)))[:MAX_TERMINALS]
        self.waiting.unpark_all()


class Calls:
    """Those of one turn; what an agent calls them, and what we do."""

    def __init__(self, office: Office, turn: TurnId, reach: Reach | None) -> None:
        self._office = office
        self._turn = turn
        self._reach = reach
        # By the agent's id; None stands for one that is over.
        self._calls: dict[str, _Call | None] = {}
        self._open = 0

    def __len__(self) -> int:
        return len(self._calls)

    def known(self, tool_call_id: object) -> ToolFacts:
        """What was said of a call so far."""
        call = self._calls.get(tool_call_id) if isinstance(tool_call_id, str) else None
        return ToolFacts() if call is None else call.facts

    async def take(self, update: Mapping[str, Any]) -> str | None:
        """Take in a `tool_call` or `tool_call_update`; gives what is wrong with it, if anything.

        Raises `OutputTooLarge`. Waits while the session has no room for the news.
        """
        key = as_name(update.get("toolCallId"), max_letters=MAX_ID_LETTERS)
        if key is None:
            return "a tool call without an id"
        said = facts_of(update)
        if key not in self._calls:
            if self._open >= MAX_OPEN or len(self._calls) >= MAX_CALLS:
                return "more tool calls than are kept track of"
            await self._begin(key, said)
        call = self._calls[key]
        if call is None:
            return None
        call.facts = call.facts.joined(said)
        call.show(terminals_in(update.get("content")))
        outcome = _ENDS.get(as_text(update.get("status")) or "")
        if outcome is None:
            self._write(call, self._about(said, update) | self._progress(call, update))
        else:
            self._write(call, self._about(said, update))
            await self._end(key, call, outcome, self._result(call, update))
        return None

    async def interrupt(self, call_id: CallId) -> bool:
        """End what runs a call, if that is ours to end, and the call with it; gives whether it was.

        Waits for a terminal of it if there is none yet; bounded. Nothing else is touched. If it is
        cancelled, the call may go on as if nobody had asked.
        """
        found = [(key, call) for key, call in self._calls.items() if call and call.id == call_id]
        if not found or self._reach is None:
            return False
        [(key, call)] = found
        running = await self._wait_running(key, call, self._reach)
        if not running:
            return False
        call.is_interrupted = True
        for terminal in running:
            await self._reach.cancel(terminal)
        if self._calls[key] is not None:  # else the agent was quicker to say that it is over
            await self._end(key, call, "interrupted", None)
        return True

    async def _wait_running(self, key: str, call: _Call, reach: Reach) -> list[str]:
        """The terminals in which it runs, as soon as there is one; none if none turns up."""
        running: list[str] = []
        with trio.move_on_after(self._office.ladder.ask_seconds * _PATIENCE):
            while self._calls[key] is not None:
                running = [one for one in call.terminals if reach.is_running(one)]
                if running:
                    break
                await call.waiting.park()
        return running

    async def _begin(self, key: str, said: ToolFacts) -> None:
        call = _Call(CallId(self._office.new_id("call")), said.shown_name, said)
        self._office.charge(self._turn, {"name": call.name, "input": said.input})
        call.written["rawInput"] = said.input
        # Known before anybody can ask for it to be cancelled.
        self._calls[key] = call
        self._open += 1
        await self._office.report_soon(
            ev.CallStarted(
                turn=self._turn,
                call=call.id,
                name=call.name,
                input=said.input,
                cancellable=self._reach is not None,
                **self._office.stamp(),
            )
        )

    def _about(self, said: ToolFacts, update: Mapping[str, Any]) -> dict[str, object]:
        """What a call is, as far as the update says so."""
        locations = [as_mapping(place) for place in as_list(update.get("locations"))]
        return {
            "title": short(said.title),
            "kind": said.kind,
            "locations": bounded(locations, MAX_BYTES_AGAIN) or None,
            "rawInput": said.input,
        }

    def _progress(self, call: _Call, update: Mapping[str, Any]) -> dict[str, object]:
        """How it goes; what comes with its end is its result instead."""
        content = shown_content(update.get("content"), self._shown_terminal)
        return {
            "status": as_name(update.get("status")),
            "content": bounded(content, call.room_for("content")) or None,
            "rawOutput": bounded(update.get("rawOutput"), call.room_for("rawOutput")),
        }

    def _write(self, call: _Call, fields: Mapping[str, object]) -> None:
        changed = {
            name: value
            for name, value in fields.items()
            if value is not None and call.written.get(name) != value
        }
        if changed:
            call.written |= changed
            body = {"call_id": call.id, "name": call.name, "update": changed}
            self._office.write(self._turn, "tool_update", body)

    def _result(self, call: _Call, update: Mapping[str, Any]) -> object:
        """What came of a call: text, if it is nothing but text."""
        output = update.get("rawOutput")
        given = update.get("content")
        if not given and output is None:
            given = [{"type": "terminal", "terminalId": terminal} for terminal in call.terminals]
        content = shown_content(given, self._shown_terminal)
        texts = [_text_in(item) for item in content]
        if not texts:
            return bounded(output, MAX_BYTES)
        if None in texts:
            return bounded(content, MAX_BYTES)
        return cut("\n".join(text for text in texts if text is not None), MAX_BYTES)

    def _shown_terminal(self, terminal_id: str) -> Mapping[str, Any] | None:
        return None if self._reach is None else self._reach.shown(terminal_id)

    async def _end(self, key: str, call: _Call, outcome: CallOutcome, result: object) -> None:
        self._calls[key] = None
        self._open -= 1
        call.waiting.unpark_all()
        if result is not None:
            self._office.charge(self._turn, {"result": result})
        await self._office.report_soon(
            ev.CallEnded(
                turn=self._turn,
                call=call.id,
                outcome="interrupted" if call.is_interrupted else outcome,
                result=result,
                **self._office.stamp(),
            )
        )


def _text_in(item: object) -> str | None:
    if isinstance(item, str):
        return item
    fields = as_mapping(item)
    return as_text(fields.get("text")) if fields.get("type") == "text" else None
