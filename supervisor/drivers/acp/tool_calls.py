"""The tool calls of one turn as the agent reports them: each starts once and ends once.

Rule 1: the first message about a call starts it, even if it is an update; the status completed or
        failed ends it; later messages are ignored.
Rule 2: only a call that runs in a terminal of the supervisor can be cancelled. That is unknown when
        the call starts: its terminal is reported later, or never. So while terminals are offered
        every call counts as cancellable, and an interrupt waits for the terminal to be reported.
Rule 3: a repeated field is not written again, and a field that replaces an earlier one is cut
        shorter, so that the records of a growing output do not grow with its square.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

import attrs
import trio

from supervisor.core import agent_events
from supervisor.core.ids import CallId, TurnId
from supervisor.drivers.port import DriverContext

from .content import (
    as_list,
    as_mapping,
    as_name,
    as_text,
    bounded_data,
    content_data,
    terminal_ids,
    truncate,
)
from .tool_reports import ToolReport, parse_tool_report, shorten_title

ToolCallOutcome: TypeAlias = Literal["completed", "failed", "interrupted"]

MAX_ID_LETTERS: Final = 256
# Open calls are stored in the session's row, which is written with every step.
MAX_OPEN_CALLS: Final = 256
MAX_CALLS: Final = 10_000
MAX_TERMINALS: Final = 16
MAX_RESULT_BYTES: Final = 65536
# For a field that replaces an earlier one while the call runs.
MAX_REPLACEMENT_BYTES: Final = 4096
# Part of the ladder's ask step that an interrupt waits for a terminal. Below 1, so that no call is
# killed after the session has reported that it could not be cancelled.
_WAIT_FRACTION: Final = 0.9
_FINAL_STATUSES: Final[Mapping[str, ToolCallOutcome]] = {
    "completed": "completed",
    "failed": "failed",
}


class TerminalAccess(Protocol):
    """The part of `Terminals` that tool calls use."""

    def is_running(self, terminal_id: str) -> bool:
        """Return True if the terminal's command runs."""

    async def cancel(self, terminal_id: str) -> None:
        """Kill the terminal's command and wait, within a bound, until it has ended."""

    def describe(self, terminal_id: str) -> Mapping[str, Any] | None:
        """Return output and exit status; None if the terminal is unknown."""


@attrs.define(eq=False)
class _OpenToolCall:
    """A call that has not ended."""

    id: CallId
    name: str
    report: ToolReport
    terminals: list[str] = attrs.field(factory=list)
    # The last written value of each field; an equal value is not written again.
    last_written: dict[str, Any] = attrs.field(factory=dict)
    is_interrupted: bool = False
    # Tasks that wait for a terminal of the call, or for its end.
    waiters: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    def max_bytes_for(self, field: str) -> int:
        """Return the maximum size of a field in a record: less if the field replaces a value."""
        return MAX_REPLACEMENT_BYTES if field in self.last_written else MAX_RESULT_BYTES

    def add_terminals(self, terminals: Sequence[str]) -> None:
        """Add terminals in which the call runs."""
        self.terminals = list(dict.fromkeys((*self.terminals, *terminals)))[:MAX_TERMINALS]
        self.waiters.unpark_all()


class ToolCalls:
    """The tool calls of one turn, by the agent's ids."""

    def __init__(
        self, context: DriverContext, turn: TurnId, terminal_access: TerminalAccess | None
    ) -> None:
        self._context = context
        self._turn = turn
        self._terminal_access = terminal_access
        # By the agent's id; None for a call that has ended.
        self._calls: dict[str, _OpenToolCall | None] = {}
        self._open = 0

    def __len__(self) -> int:
        return len(self._calls)

    def report_of(self, tool_call_id: object) -> ToolReport:
        """Return the merged report of a call, from all its updates so far."""
        call = self._calls.get(tool_call_id) if isinstance(tool_call_id, str) else None
        return ToolReport() if call is None else call.report

    async def on_update(self, update: Mapping[str, Any]) -> str | None:
        """Handle a `tool_call` or `tool_call_update`; return the problem of a malformed update.

        Raise `OutputTooLarge` if the turn's output exceeds its limit. Wait while the session's
        mailbox is full.
        """
        key = as_name(update.get("toolCallId"), max_letters=MAX_ID_LETTERS)
        if key is None:
            return "a tool call without an id"
        report = parse_tool_report(update)
        if key not in self._calls:
            if self._open >= MAX_OPEN_CALLS or len(self._calls) >= MAX_CALLS:
                return "too many tool calls"
            await self._begin(key, report)
        call = self._calls[key]
        if call is None:
            return None
        call.report = call.report.merged(report)
        call.add_terminals(terminal_ids(update.get("content")))
        outcome = _FINAL_STATUSES.get(as_text(update.get("status")) or "")
        if outcome is None:
            self._write(call, self._description(report, update) | self._progress(call, update))
        else:
            self._write(call, self._description(report, update))
            await self._end(key, call, outcome, self._result(call, update))
        return None

    async def interrupt(self, call_id: CallId) -> bool:
        """Kill the terminals of a call and end the call; return True if it runs in our terminals.

        If the call has no terminal yet, wait for one within a bound. No other call is affected. If
        this is cancelled, the call may continue.
        """
        found = [(key, call) for key, call in self._calls.items() if call and call.id == call_id]
        if not found or self._terminal_access is None:
            return False
        [(key, call)] = found
        running = await self._wait_running_terminals(key, call, self._terminal_access)
        if not running:
            return False
        call.is_interrupted = True
        for terminal in running:
            await self._terminal_access.cancel(terminal)
        if self._calls[key] is not None:  # else the agent has reported the end already
            await self._end(key, call, "interrupted", None)
        return True

    async def _wait_running_terminals(
        self, key: str, call: _OpenToolCall, terminal_access: TerminalAccess
    ) -> list[str]:
        """Wait for a running terminal of the call and return all of them; empty after the bound."""
        running: list[str] = []
        with trio.move_on_after(self._context.ladder.ask_seconds * _WAIT_FRACTION):
            while self._calls[key] is not None:
                running = [
                    terminal for terminal in call.terminals if terminal_access.is_running(terminal)
                ]
                if running:
                    break
                await call.waiters.park()
        return running

    async def _begin(self, key: str, report: ToolReport) -> None:
        call = _OpenToolCall(CallId(self._context.new_id("call")), report.display_name, report)
        self._context.count_output(self._turn, {"name": call.name, "input": report.input})
        call.last_written |= {"rawInput": report.input, "name": call.name}
        # Added before it is reported: an interrupt can follow at once.
        self._calls[key] = call
        self._open += 1
        await self._context.report_when_possible(
            agent_events.CallStarted(
                turn=self._turn,
                call=call.id,
                name=call.name,
                input=report.input,
                cancellable=self._terminal_access is not None,
                **self._context.stamp(),
            )
        )

    def _description(self, report: ToolReport, update: Mapping[str, Any]) -> dict[str, object]:
        """Return the fields of the update that describe the call."""
        locations = [as_mapping(location) for location in as_list(update.get("locations"))]
        return {
            "name": report.name,
            "title": shorten_title(report.title),
            "kind": report.kind,
            "locations": bounded_data(locations, MAX_REPLACEMENT_BYTES) or None,
            "rawInput": report.input,
        }

    def _progress(self, call: _OpenToolCall, update: Mapping[str, Any]) -> dict[str, object]:
        """Return status and output of a running call; for an ended call they are its result."""
        content = content_data(update.get("content"), self._describe_terminal)
        return {
            "status": as_name(update.get("status")),
            "content": bounded_data(content, call.max_bytes_for("content")) or None,
            "rawOutput": bounded_data(update.get("rawOutput"), call.max_bytes_for("rawOutput")),
        }

    def _write(self, call: _OpenToolCall, fields: Mapping[str, object]) -> None:
        changed = {
            name: value
            for name, value in fields.items()
            if value is not None and call.last_written.get(name) != value
        }
        if changed:
            call.last_written |= changed
            body = {"call_id": call.id, "name": call.name, "update": changed}
            self._context.write(self._turn, "tool_update", body)

    def _result(self, call: _OpenToolCall, update: Mapping[str, Any]) -> object:
        """Return the result of a call: text if all its content is text, else data."""
        output = update.get("rawOutput")
        items = update.get("content")
        if not items and output is None:
            items = [{"type": "terminal", "terminalId": terminal} for terminal in call.terminals]
        content = content_data(items, self._describe_terminal)
        texts = [_item_text(item) for item in content]
        if not texts:
            return bounded_data(output, MAX_RESULT_BYTES)
        if None in texts:
            return bounded_data(content, MAX_RESULT_BYTES)
        return truncate("\n".join(text for text in texts if text is not None), MAX_RESULT_BYTES)

    def _describe_terminal(self, terminal_id: str) -> Mapping[str, Any] | None:
        return (
            None if self._terminal_access is None else self._terminal_access.describe(terminal_id)
        )

    async def _end(
        self, key: str, call: _OpenToolCall, outcome: ToolCallOutcome, result: object
    ) -> None:
        self._calls[key] = None
        self._open -= 1
        call.waiters.unpark_all()
        if result is not None:
            self._context.count_output(self._turn, {"result": result})
        await self._context.report_when_possible(
            agent_events.CallEnded(
                turn=self._turn,
                call=call.id,
                outcome="interrupted" if call.is_interrupted else outcome,
                result=result,
                **self._context.stamp(),
            )
        )


def _item_text(item: object) -> str | None:
    if isinstance(item, str):
        return item
    fields = as_mapping(item)
    return as_text(fields.get("text")) if fields.get("type") == "text" else None
