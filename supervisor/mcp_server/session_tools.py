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
from supervisor.core.ids import SessionId
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
from .open_questions import UnreadQuestions
from .session_tool import SessionTool, ToolContext, decode_arguments, plain_answer
from .tool import ToolAnswer, ToolDescription
from .tool_list import ASSISTANT_TOOLS, TOOLS

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

_ASSISTING: Final = """\
These tools show and lead the agent sessions of a person: all of them.
A session is named by its id, its name, its key or a path `root/child`. `list` has the sessions.
`create` starts one, with a first text if you give one; `send` gives it more work; then call `wait`
with its id, and pass the `cursor` as `after` to the next `wait`.
Where a tool says "below yours", every session is meant.
`inbox` has what agents ask; `answer` decides it in the name of the person: ask them if in doubt.
`read` has results and transcripts, `search` finds messages, `why` says what a session waits for.
Nothing here deletes a session or widens its permissions.
If you do not know whether a call went through, repeat it with the same `idempotency_key`."""


class SessionTools:
    """The tools that agents call over MCP; implements `Toolbox`."""

    def __init__(
        self,
        sup: Supervisor,
        tools: Sequence[SessionTool] = TOOLS,
        assistant_tools: Sequence[SessionTool] = ASSISTANT_TOOLS,
    ) -> None:
        self._sup = sup
        self._access = sup.tool_access()
        # By whether the caller is a person's assistant, and by name.
        self._tools = {
            False: {tool.name: tool for tool in tools},
            True: {tool.name: tool for tool in assistant_tools},
        }
        self._unread_questions = UnreadQuestions()
        # The settings, and the tools as described under them.
        self._described: tuple[Settings, Mapping[int, ToolDescription]] | None = None
        self._rate = CallRate()
        # Calls under way, by caller and tool, of tools that bound them.
        self._under_way: Counter[tuple[str, str]] = Counter()

    def tools_for(self, caller: Caller) -> tuple[ToolDescription, ...]:
        """Return the tools that the caller may use, always in the same order."""
        settings = self._access.settings
        if self._described is None or self._described[0] is not settings:
            tools = [tool for of_scope in self._tools.values() for tool in of_scope.values()]
            self._described = settings, {id(tool): tool.describe(settings) for tool in tools}
        _, descriptions = self._described
        offered = self._tools[caller.scope == "all"].values()
        return tuple(descriptions[id(tool)] for tool in offered if self._may_use(caller, tool))

    def _may_use(self, caller: Caller, tool: SessionTool) -> bool:
        """Return True if the caller may use a tool of its scope."""
        if caller.scope == "all":
            return caller.session_id is None
        if not tool.is_read_only and caller.scope != "self":
            return False
        if tool.needs_answering:
            return caller.session_id is not None and self._access.may_answer(caller.session_id)
        return True

    def instructions_for(self, caller: Caller) -> str:
        """Return the instructions for the model, at most a dozen lines."""
        if caller.scope == "all":
            return _ASSISTING
        return _LOOKING if caller.scope == "self,look" else _INSTRUCTIONS

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> ToolAnswer:
        """Call a tool; raise KeyError for a name that `tools_for` does not list."""
        tool = self._tools[caller.scope == "all"][name]
        if not self._may_use(caller, tool) or (caller.session_id is None) != (
            caller.scope == "all"
        ):
            raise KeyError(name)
        # A credential is no id of a session, so the two never meet.
        key = caller.session_id or SessionId(f"credential {caller.name}")
        seconds = self._rate.take(key)
        if seconds is not None:
            await trio.lowlevel.checkpoint()
            return error_answer(_too_fast(seconds), shown_ids=None)
        context = self._context_of(caller)
        began, outcome = trio.current_time(), "cancelled"
        try:
            answer = await self._answer(tool, arguments, context, key)
            outcome = str(answer.structured["code"]) if answer.is_error else "ok"
        finally:
            event = self._access.make_call_event(
                caller=caller.session_id or caller.name,
                tool=name,
                outcome=outcome,
                target=context.target,
                seconds=trio.current_time() - began,
                refused=self._rate.take_refused(key),
            )
            recorded_in = _recording_session(caller, tool, context)
            if caller.session_id is not None:
                self._access.mark_progress(caller.session_id)
            if recorded_in is None:
                logger.info("tool called: %s by %s, %s", name, caller.name, outcome)
            elif outcome == "cancelled":
                self._access.record_call_later(recorded_in, event)
        if recorded_in is not None:
            await self._access.record_call(recorded_in, event)
        return answer

    def _context_of(self, caller: Caller) -> ToolContext:
        subtree = (
            self._access.every_session()
            if caller.session_id is None
            else self._access.subtree(caller.session_id)
        )
        settings = self._access.settings
        return ToolContext(self._sup, subtree, caller, settings, self._unread_questions)

    async def _answer(
        self,
        tool: SessionTool,
        arguments: Mapping[str, Any],
        context: ToolContext,
        key: SessionId,
    ) -> ToolAnswer:
        """Carry the call out; return its answer, or the refusal."""
        try:
            given: Any = decode_arguments(tool.arguments, arguments)
            answer, text = await self._run_bounded(tool, given, context, key)
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
        caller: SessionId,
    ) -> tuple[Any, str]:
        if tool.max_concurrent is None:
            return await tool.run(context, given)
        key = (caller, tool.name)
        if self._under_way[key] >= tool.max_concurrent:
            raise _too_many(tool)
        self._under_way[key] += 1
        try:
            return await tool.run(context, given)
        finally:
            self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]

    async def _shown_ids(self, context: ToolContext) -> set[str] | None:
        """Return the ids that a refusal may show: all others are masked. None: all are shown."""
        if context.caller.session_id is None:
            return None
        subtree = context.subtree
        try:
            return {subtree.id, *(row.id for row in await subtree.descendants())}
        except SupervisorError:  # the store cannot be read, or the session is deleted
            return {subtree.id}


def _recording_session(caller: Caller, tool: SessionTool, context: ToolContext) -> SessionId | None:
    """Return the session in which a call is on record; None for one that is only in the log.

    What an assistant changes is on record where it changes it; what it reads is in the log, so that
    looking at a session does not change it.
    """
    if caller.session_id is not None:
        return caller.session_id
    return None if tool.is_read_only else context.target


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
