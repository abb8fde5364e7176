"""The tools of agents: which a caller may use, and how a call is carried out.

Rule 1: a call is counted, decoded, carried out and recorded, in this order. A call that is refused
        because there were too many is only counted; the record of the next one has the number.
Rule 2: a refusal is an answer. Only an unknown name of a tool is an error, for the protocol.
Rule 3: the record of a call is durable before its answer, unless the store is degraded.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import trio

from supervisor.config import Settings
from supervisor.core.errors import SessionNotFound, SupervisorError
from supervisor.decode import DecodeError
from supervisor.handles.supervisor import Supervisor
from supervisor.http_server.problems import problem_of_invalid_fields

from .call_rate import CALLS_PER_SECOND, CallRate
from .caller import Caller
from .error_answer import (
    CallRefused,
    error_answer,
    internal_error_answer,
    invalid_arguments_answer,
)
from .session_tool import SessionTool, ToolContext, decode_arguments, plain_answer
from .tool import ToolAnswer, ToolDescription
from .tool_list import TOOLS

logger = logging.getLogger("supervisor")

_INSTRUCTIONS: Final = """\
These tools start and lead other agents, which work in sessions below yours.
`agents` says which agents there are, and what you may still use. `spawn` starts one with a task.
A session is named by its id, or by its name or role where only one of yours has it.
After `spawn`, call `wait`; it returns when a session has news. Pass its `cursor` as `after` to the
next `wait`, then nothing is missed. Without news within `seconds`, just call it again.
`read` has the whole result, the transcript and the tool calls. `why` says what a session waits for.
`send` gives more work or steers; `interrupt` ends a turn; `stop` ends a session for good, which
frees its place.
Limits and budgets are shared with all sessions above and below; a refusal says which one is
exhausted, and `retry` whether it helps to try again.
If you do not know whether a call went through, repeat it with the same `idempotency_key`."""

_LOOKING: Final = """\
These tools show the sessions below yours; with this credential they change nothing.
A session is named by its id, or by its name or role where only one of yours has it."""


class SessionTools:
    """The tools that agents call over MCP; implements `Toolbox`."""

    def __init__(self, sup: Supervisor, tools: Sequence[SessionTool] = TOOLS) -> None:
        self._sup = sup
        self._access = sup.tool_access()
        self._tools = {tool.name: tool for tool in tools}
        # The settings, and the tools as described under them.
        self._described: tuple[Settings, Mapping[str, ToolDescription]] | None = None
        self._rate = CallRate()
        # Calls under way, by caller and tool, of tools that bound them.
        self._under_way: Counter[tuple[str, str]] = Counter()

    def tools_for(self, caller: Caller) -> tuple[ToolDescription, ...]:
        """Return the tools that the caller may use, always in the same order."""
        settings = self._access.settings
        if self._described is None or self._described[0] is not settings:
            described = {name: tool.describe(settings) for name, tool in self._tools.items()}
            self._described = settings, described
        _, descriptions = self._described
        tools = self._tools.items()
        return tuple(descriptions[name] for name, tool in tools if _may_use(caller, tool))

    def instructions_for(self, caller: Caller) -> str:
        """Return the instructions for the model, at most a dozen lines."""
        return _LOOKING if caller.scope == "self,look" else _INSTRUCTIONS

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> ToolAnswer:
        """Call a tool; raise KeyError for a name that `tools_for` does not list."""
        tool = self._tools[name]
        if not _may_use(caller, tool) or caller.session_id is None:
            raise KeyError(name)
        seconds = self._rate.take(caller.session_id)
        if seconds is not None:
            await trio.lowlevel.checkpoint()
            return error_answer(_too_fast(seconds), shown_ids=None)
        subtree = self._access.subtree(caller.session_id)
        context = ToolContext(self._sup, subtree, caller, self._access.settings)
        began, outcome = trio.current_time(), "cancelled"
        try:
            answer = await self._answer(tool, arguments, context)
            outcome = str(answer.structured["code"]) if answer.is_error else "ok"
        finally:
            event = self._access.make_call_event(
                caller=caller.session_id,
                tool=name,
                outcome=outcome,
                target=context.target,
                seconds=trio.current_time() - began,
                refused=self._rate.take_refused(caller.session_id),
            )
            self._access.mark_progress(caller.session_id)
            if outcome == "cancelled":
                self._access.record_call_later(caller.session_id, event)
        await self._access.record_call(caller.session_id, event)
        return answer

    async def _answer(
        self, tool: SessionTool, arguments: Mapping[str, Any], context: ToolContext
    ) -> ToolAnswer:
        """Carry the call out; return its answer, or the refusal."""
        try:
            given: Any = decode_arguments(tool.arguments, arguments)
            answer, text = await self._run_bounded(tool, given, context)
        except DecodeError as fault:
            await trio.lowlevel.checkpoint()
            return invalid_arguments_answer(problem_of_invalid_fields(fault))
        except SessionNotFound as error:
            # It only has the text that the caller gave. Without further reads, so that a session
            # outside takes as long as one that does not exist.
            return error_answer(error, shown_ids=None)
        except SupervisorError as error:
            return error_answer(error, shown_ids=await self._shown_ids(context))
        except Exception:
            logger.exception("tool %s failed", tool.name)
            return internal_error_answer()
        return ToolAnswer(structured=plain_answer(answer), text=text)

    async def _run_bounded(
        self,
        tool: SessionTool,
        given: Any,  # noqa: ANN401 - the arguments of the tool
        context: ToolContext,
    ) -> tuple[Any, str]:
        if tool.max_concurrent is None:
            return await tool.run(context, given)
        key = (context.subtree.id, tool.name)
        if self._under_way[key] >= tool.max_concurrent:
            raise _too_many(tool)
        self._under_way[key] += 1
        try:
            return await tool.run(context, given)
        finally:
            self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]

    async def _shown_ids(self, context: ToolContext) -> set[str]:
        """Return the ids that a refusal may show: all others are masked."""
        subtree = context.subtree
        try:
            return {subtree.id, *(row.id for row in await subtree.descendants())}
        except SupervisorError:  # the store cannot be read, or the session is deleted
            return {subtree.id}


def _may_use(caller: Caller, tool: SessionTool) -> bool:
    """Return True if the tool is in the scope of the caller."""
    if caller.scope == "all":
        return False
    return tool.is_read_only or caller.scope == "self"


def _too_fast(seconds: float) -> CallRefused:
    return CallRefused(
        "too_many_calls",
        f"you called tools more than {CALLS_PER_SECOND} times a second",
        hint="call again after after_seconds; to wait for a session, call wait",
        after_seconds=round(seconds + 0.001, 3),
        limit="calls_per_second",
        allowed=CALLS_PER_SECOND,
    )


def _too_many(tool: SessionTool) -> CallRefused:
    assert tool.max_concurrent is not None
    return CallRefused(
        "too_many_waits",
        f"{tool.max_concurrent} calls of {tool.name} are under way",
        hint="name several sessions in one call, or let one of the calls end",
        after_seconds=1.0,
        limit="concurrent_calls",
        allowed=tool.max_concurrent,
    )
