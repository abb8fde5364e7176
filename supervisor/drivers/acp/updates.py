"""Handling of each `session/update`, in order of arrival, and the usage that agents report.

Rule 1: no update raises an exception, except `OutputTooLarge`.
Rule 2: updates that an agent replays (`session/load` does) are history: they make no records and
        no usage. From updates while no turn runs, only the agent's status and news are kept.
Rule 3: unknown updates are ignored, counted, and reported once per kind.

Agents report usage in two forms, and neither is the usage since the last report. `usage_update` has
the cost of the whole session so far and the tokens in the context. `usage` in the answer to a
prompt has the tokens of that turn; the protocol's text is contradictory there, but agents do so and
its maintainers mean it. Two agents use other places: Gemini the answer's `_meta.quota`, and Qwen
the `_meta.usage` of a text chunk, once per model request.

Budgets must apply while a turn runs, and some agents send only `usage_update`. So growth of the
context counts as input tokens until better figures arrive: each of those tokens was paid at least
once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import attrs

from supervisor.core import agent_events
from supervisor.core.errors import BudgetSpent
from supervisor.core.ids import CallId, TurnId
from supervisor.core.state import ContextUse, Usage
from supervisor.drivers.port import DriverContext, TextKind

from .agent_news import AgentNews, NewsRecord
from .capabilities import STATUS_UPDATES, AgentStatus
from .content import as_integer, as_mapping, as_name, as_number, as_text, bounded_data, content_text
from .tool_calls import TerminalAccess, ToolCalls
from .tool_reports import ToolReport
from .turn_result import TurnActivity


class UsageMeter:
    """Computes the usage since the last report from cumulative reports."""

    def __init__(self) -> None:
        self._cost = 0.0
        self._currency: str | None = None
        # Whether `_cost` is from the store and the agent has not reported a cost yet.
        self._is_resumed = False
        self._context_tokens = 0
        # Counted in this turn; growth of the context counts as input, which most of it is.
        self._turn_tokens = Usage()
        # Counted in this turn by single model requests; if not zero, growth is not counted.
        self._request_tokens = Usage()

    def begin_turn(self) -> None:
        """Reset the tokens of the turn; cost and context continue."""
        self._turn_tokens = Usage()
        self._request_tokens = Usage()

    def resume_from(self, cost: float) -> None:
        """Set the cost of a resumed conversation, unless the agent has reported one."""
        if not self._cost:
            self._cost, self._is_resumed = cost, True

    def read_update(self, update: Mapping[str, Any]) -> Usage:
        """Return the usage since the last `usage_update`.

        A figure that falls is a new count or a corrected estimate; counting continues from the new
        figure.
        """
        grown, cost = self._read_context(update), self._read_cost(update)
        tokens = Usage(input_tokens=grown) if self._request_tokens == Usage() else Usage()
        self._turn_tokens += tokens
        return tokens + Usage(cost=cost)

    def read_text(self, update: Mapping[str, Any]) -> Usage:
        """Return the usage in a text chunk, which is that of one model request; usually zero."""
        usage = as_mapping(as_mapping(update.get("_meta")).get("usage"))
        self._request_tokens += _parse_tokens(usage)
        return self._count_turn_tokens(self._request_tokens)

    def read_prompt_result(self, answer: Mapping[str, Any]) -> Usage:
        """Return the tokens of the turn beyond those counted so far."""
        quota = as_mapping(as_mapping(answer.get("_meta")).get("quota"))
        return self._count_turn_tokens(
            _parse_tokens(as_mapping(answer.get("usage") or quota.get("token_count")))
        )

    def _count_turn_tokens(self, turn: Usage) -> Usage:
        """Set the turn's tokens to these figures if they are higher; return the difference."""
        counted = self._turn_tokens
        # Growth of the context counted as input that was output in fact.
        guessed = max(0, counted.input_tokens - turn.input_tokens)
        more = Usage(
            max(0, turn.input_tokens - counted.input_tokens),
            max(0, turn.output_tokens - counted.output_tokens - guessed),
        )
        self._turn_tokens += more
        return more

    def _read_cost(self, update: Mapping[str, Any]) -> float:
        cost = as_mapping(update.get("cost"))
        amount = as_number(cost.get("amount"))
        if amount is None:
            return 0.0
        currency = as_text(cost.get("currency"))
        before = self._cost if currency == self._currency or self._is_resumed else 0.0
        if self._is_resumed and amount < before:
            before = 0.0  # this agent counts from zero after a resume
        self._cost, self._currency, self._is_resumed = amount, currency, False
        return max(0.0, amount - before)

    def _read_context(self, update: Mapping[str, Any]) -> int:
        used = as_integer(update.get("used"))
        if used is None:
            return 0
        before, self._context_tokens = self._context_tokens, used
        return max(0, used - before)


def _parse_tokens(usage: Mapping[str, Any]) -> Usage:
    input_tokens = as_integer(usage.get("inputTokens", usage.get("input_tokens"))) or 0
    output_tokens = as_integer(usage.get("outputTokens", usage.get("output_tokens"))) or 0
    # Some agents count thought and cached tokens within these figures, some in addition; the total
    # shows which.
    additional = max(0, (as_integer(usage.get("totalTokens")) or 0) - input_tokens - output_tokens)
    thoughts = min(additional, as_integer(usage.get("thoughtTokens")) or 0)
    return Usage(input_tokens + additional - thoughts, output_tokens + thoughts)


MAX_UNKNOWN_UPDATES: Final = 32
MAX_UNKNOWN_UPDATE_BYTES: Final = 2048
MAX_PLAN_BYTES: Final = 65536
# An echo of the user's text, which is recorded as the user sent it.
_USER_TEXT: Final = "user_message_chunk"


@attrs.define(eq=False)
class _TurnUpdates:
    """State of the running turn."""

    id: TurnId
    calls: ToolCalls
    # Id of the last message of each text kind, if the agent sends ids.
    messages: dict[TextKind, str] = attrs.field(factory=dict)
    thoughts: int = 0
    plans: int = 0
    # Records of news, and the last notice of an error.
    news: int = 0
    error_notice: str | None = None
    # Whether the agent's last status report was a failure.
    reported_failure: bool = False
    # Usage not reported yet, because the session's mailbox was full.
    unreported: Usage = Usage()


class Updates:
    """Handler of the updates of one agent, over all its turns."""

    def __init__(
        self,
        context: DriverContext,
        *,
        terminal_access: TerminalAccess | None = None,
        has_subagents: bool = False,
    ) -> None:
        self._context = context
        self._news = AgentNews(has_subagents=has_subagents)
        self._terminal_access = terminal_access
        self._meter = UsageMeter()
        self._turn: _TurnUpdates | None = None
        self._is_replaying = False
        self._had_turns = False
        self.status = AgentStatus()
        self._reported_context: ContextUse | None = None
        # Count of each unknown kind; at most MAX_UNKNOWN_UPDATES kinds.
        self.unknown_updates: dict[str, int] = {}

    # For the driver -----------------------------------------------------------------------

    def begin_turn(self, turn: TurnId) -> None:
        """Assign updates to this turn."""
        self._meter.begin_turn()
        self._turn = _TurnUpdates(turn, ToolCalls(self._context, turn, self._terminal_access))
        self._had_turns = True
        for news in self._news.take_pending():
            self._context.write(turn, news.kind, news.body)

    def end_turn(self) -> TurnActivity:
        """End the turn, so that later updates count as late; return its activity besides text."""
        turn, self._turn = self._turn, None
        if turn is None:
            return TurnActivity()
        if turn.unreported != Usage() or self._has_new_context:
            self._context.report_eventually(self._usage_report(turn))
            self._reported_context = self.status.context
        return TurnActivity(
            len(turn.calls),
            turn.thoughts,
            turn.plans,
            turn.reported_failure,
            news=turn.news,
            error_notice=turn.error_notice,
        )

    @contextmanager
    def replaying_history(self) -> Iterator[None]:
        """Treat updates inside the block as history."""
        self._is_replaying = True
        try:
            yield
        finally:
            self._is_replaying = False

    def resume_usage(self) -> None:
        """Continue from the recorded cost of the agent's conversation."""
        self._meter.resume_from(self._context.agent_session_cost)

    def routed(self, params: object) -> object:
        """Return the params of a `session/update`, with those of a subagent's own subagents.

        Any update of a subagent counts as progress of the turn.
        """
        subagents = self._news.subagents
        if subagents is None:
            return params
        if self._turn is not None and self.subagent_name(params) is not None:
            self._context.mark_progress()
        return subagents.routed(params)

    def subagent_name(self, params: object) -> str | None:
        """Return the name of the subagent that sent a message; None if the agent itself did."""
        subagents = self._news.subagents
        return None if subagents is None else subagents.name_of(as_mapping(params).get("sessionId"))

    def tool_report(self, tool_call_id: object) -> ToolReport:
        """Return the merged report of a tool call of this turn."""
        return ToolReport() if self._turn is None else self._turn.calls.report_of(tool_call_id)

    async def interrupt_call(self, call: CallId) -> bool:
        """Kill the terminals of a tool call; return True if the call runs in our terminals."""
        return self._turn is not None and await self._turn.calls.interrupt(call)

    def on_prompt_result(self, answer: object) -> None:
        """Count the usage in the answer to the prompt; must be called before `end_turn`."""
        if self._turn is not None:
            self._spend(self._turn, self._meter.read_prompt_result(as_mapping(answer)))

    async def on_update(self, update: object) -> None:
        """Handle one update; wait while the store is behind, which slows the agent down.

        Raise `OutputTooLarge` if the output of the turn exceeds its limit.
        """
        fields = as_mapping(update)
        kind = fields.get("sessionUpdate")
        if not isinstance(kind, str):
            kind = "unknown"
        elif kind in STATUS_UPDATES:
            self.status = self.status.with_update(fields)
        turn = self._turn
        if kind not in _UPDATE_HANDLERS and self._news.handles(kind):
            self._on_news(fields)
        elif turn is None or self._is_replaying:
            if kind == "usage_update" and not self._had_turns:
                self._meter.read_update(fields)  # a baseline: usage before our first turn
            return
        elif kind in _UPDATE_HANDLERS:
            await _UPDATE_HANDLERS[kind](self, turn, fields)
        elif kind not in STATUS_UPDATES and kind != _USER_TEXT:
            self._note_unknown_update(
                turn, f"an update of kind {as_name(kind) or 'unknown'}", fields
            )
        if not self._context.is_writable:
            await self._context.wait_writable()

    # One for each kind --------------------------------------------------------------------

    async def _on_text(self, turn: _TurnUpdates, update: Mapping[str, Any]) -> None:
        self._write_text(turn, "agent_text", update)
        if "_meta" in update:
            self._spend(turn, self._meter.read_text(update))

    async def _on_thought(self, turn: _TurnUpdates, update: Mapping[str, Any]) -> None:
        turn.thoughts += 1
        self._write_text(turn, "thought", update)

    async def _on_tool_call(self, turn: _TurnUpdates, update: Mapping[str, Any]) -> None:
        problem = await turn.calls.on_update(update)
        if problem is not None:
            self._note_unknown_update(turn, problem, update)

    async def _on_plan(self, turn: _TurnUpdates, update: Mapping[str, Any]) -> None:
        entries = bounded_data(update.get("entries"), MAX_PLAN_BYTES)
        turn.plans += 1
        self._context.write(
            turn.id, "plan", {"entries": entries if isinstance(entries, list) else []}
        )

    async def _on_usage(self, turn: _TurnUpdates, update: Mapping[str, Any]) -> None:
        self._spend(turn, self._meter.read_update(update))

    async def _on_session_info(self, turn: _TurnUpdates, update: Mapping[str, Any]) -> None:
        # Codex reports an error here, and then ends the turn like a success.
        codex = as_mapping(as_mapping(update.get("_meta")).get("codex"))
        state = as_mapping(codex.get("threadStatus")).get("type")
        if state is not None:
            turn.reported_failure = state == "systemError"

    # Inside -------------------------------------------------------------------------------

    def _on_news(self, update: Mapping[str, Any]) -> None:
        """Write the news in an update, or keep them for the next turn."""
        found, turn = self._news.read(update, self.status.context), self._turn
        if isinstance(found, NewsRecord):
            if self._is_replaying and found.kind != "notice":
                return
            if turn is None or self._is_replaying:
                self._news.keep(found)
                return
            turn.news += 1
            turn.error_notice = found.error or turn.error_notice
            self._context.write(turn.id, found.kind, found.body)
        elif turn is not None:
            self._context.mark_progress()
            if found is not None:
                self._note_unknown_update(turn, found, update)

    def _write_text(self, turn: _TurnUpdates, kind: TextKind, update: Mapping[str, Any]) -> None:
        text = content_text(update.get("content"))
        if not text:
            return
        message = as_name(update.get("messageId"))
        before = turn.messages.get(kind)
        if message is not None:
            turn.messages[kind] = message
        continues = message is None or before is None or message == before
        self._context.write_text(turn.id, kind, text, continues=continues)

    def _spend(self, turn: _TurnUpdates, used: Usage) -> None:
        if used != Usage():
            try:
                self._context.record_usage(turn.id, used)
            except BudgetSpent:
                return  # the session interrupts the turn
        elif not self._has_new_context:
            return
        turn.unreported += used
        if self._context.report(self._usage_report(turn)):
            turn.unreported = Usage()
            self._reported_context = self.status.context

    @property
    def _has_new_context(self) -> bool:
        """True if the agent's context has changed since it was reported to the session."""
        return self.status.context not in (None, self._reported_context)

    def _usage_report(self, turn: _TurnUpdates) -> agent_events.UsageReported:
        return agent_events.UsageReported(
            turn=turn.id,
            usage=turn.unreported,
            context=self.status.context if self._has_new_context else None,
            **self._context.stamp(),
        )

    def _note_unknown_update(
        self, turn: _TurnUpdates, problem: str, update: Mapping[str, Any]
    ) -> None:
        seen = self.unknown_updates.get(problem, 0)
        if seen or len(self.unknown_updates) < MAX_UNKNOWN_UPDATES:
            self.unknown_updates[problem] = seen + 1
            if not seen:
                raw = bounded_data(update, MAX_UNKNOWN_UPDATE_BYTES)
                body = {"text": f"the agent sent {problem}, which was ignored", "update": raw}
                self._context.write(turn.id, "warning", body)


_UpdateHandler: TypeAlias = Callable[[Updates, _TurnUpdates, Mapping[str, Any]], Awaitable[None]]

_UPDATE_HANDLERS: Final[Mapping[str, _UpdateHandler]] = {
    "agent_message_chunk": Updates._on_text,  # noqa: SLF001 - a table of its own methods
    "agent_thought_chunk": Updates._on_thought,  # noqa: SLF001
    "tool_call": Updates._on_tool_call,  # noqa: SLF001
    "tool_call_update": Updates._on_tool_call,  # noqa: SLF001
    "plan": Updates._on_plan,  # noqa: SLF001
    "session_info_update": Updates._on_session_info,  # noqa: SLF001
    "usage_update": Updates._on_usage,  # noqa: SLF001
}
