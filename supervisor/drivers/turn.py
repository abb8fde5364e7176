"""`Turn` and `Call`: the handles with which the function of a Python agent works.

Rule 1: when the turn is over (ended, interrupted, abandoned) every method raises `TurnOver`, so
        that a late action has no effect.
Rule 2: every `async` method passes a checkpoint, where an interrupt takes effect. Only the end of a
        tool call does not, because the work of the call is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, Literal, Self, Unpack, get_args

import trio

from supervisor.core import agent_events
from supervisor.core.creation import Message, SpawnOptions
from supervisor.core.effects import StartTurn
from supervisor.core.errors import (
    ConfigError,
    OutputTooLarge,
    PermissionDenied,
    TurnOver,
    short_repr,
)
from supervisor.core.ids import CallId, InputId, RequestId, SessionId, TurnId
from supervisor.core.state import Decision, Usage
from supervisor.core.text import plain_data, plain_text

from .port import ChildHandle, ChildRequest, News, TextKind
from .turn_control import PendingPermission, TurnControl

# The session whose agent runs in the current context; None outside of agents.
CURRENT_SESSION: Final[ContextVar[SessionId | None]] = ContextVar("INSIDE", default=None)

CallOutcome = Literal["completed", "failed", "interrupted"]


class Turn:
    """One run of an agent on one input.

    `text` and `attachments` are the input, `history` the messages before it.
    """

    def __init__(
        self, effect: StartTurn, turn_control: TurnControl, *, closing: trio.Event
    ) -> None:
        context = turn_control.context
        self.id: TurnId = effect.turn
        self.input_id: InputId = effect.input
        self.session_id: SessionId = context.session_id
        self.text: str = effect.text
        self.attachments: tuple[Mapping[str, Any], ...] = effect.attachments
        self.history: Sequence[Message] = ()
        self._context = context
        self._closing = closing
        self._turn_control = turn_control

    @property
    def workspace(self) -> str | None:
        """The working directory of the agent; None if the session has none."""
        return self._context.workspace

    def __repr__(self) -> str:
        over = " (over)" if self._turn_control.is_over else ""
        return f"<Turn {self.id} of {self.session_id}{over}>"

    async def say(self, text: str) -> None:
        """Add text to the turn's output; watchers see it at once."""
        await self._write_output("agent_text", text)

    async def think(self, text: str) -> None:
        """Add a thought to the turn's output.

        Thoughts are recorded, but are not part of the text.
        """
        await self._write_output("thought", text)

    async def plan(self, entries: Sequence[object]) -> None:
        """Record the agent's plan."""
        self.raise_if_over()
        self._context.write(self.id, "plan", {"entries": plain_data(entries)})
        await self._context.wait_writable()

    def tool(
        self,
        name: str,
        input: Mapping[str, Any] | None = None,  # noqa: A002 - its public name
    ) -> Call:
        """Return a tool call, for `async with`.

        An interrupt of the call cancels its block and sets `call.interrupted`; the turn goes on
        after the block. The end of the call is a boundary at which steering can be taken. Raise
        `PermissionDenied` if the session may not use the tool.
        """
        self.raise_if_over()
        name = _check_text("a tool's name", name)
        if not self._context.permissions.allows("tools", name):
            raise PermissionDenied(
                f"session {self.session_id} may not use the tool {name!r}",
                hint="add it to permissions.tools when the session is created",
            )
        return Call(self._turn_control, CallId(self._context.new_id("call")), name, input)

    def steering(self) -> list[str]:
        """Return the steering texts that arrived so far; each is returned once."""
        self.raise_if_over()
        if not self._turn_control.offered_steering:
            return []
        taken = agent_events.SteeringTaken(
            turn=self.id,
            inputs=tuple(input_id for input_id, _ in self._turn_control.offered_steering),
            **self._context.stamp(),
        )
        if not self._context.report(taken):
            return []  # the session's mailbox is full: they stay for the next call
        texts = [text for _, text in self._turn_control.offered_steering]
        self._turn_control.offered_steering = []
        return texts

    async def ask(
        self,
        question: str,
        *,
        tool: str,
        input: Mapping[str, Any] | None = None,  # noqa: A002 - its public name
        kind: str | None = None,
        path: str | None = None,
    ) -> bool:
        """Make a permission request and wait for the decision.

        Return True if it allows the request. `kind` is what the tool does (`read`, `search`,
        `edit`, ...) and `path` the file that it uses: reading inside the workspace is allowed
        without a decision unless the mode forbids it.
        """
        self.raise_if_over()
        question = _check_text("a question", question)
        tool = _check_text("a tool's name", tool)
        kind = plain_text(kind) if isinstance(kind, str) else None
        tool_input = None if input is None else _plain_mapping(input)
        counted = {"tool": tool, "question": question, "input": tool_input}
        self._context.count_output(self.id, counted)
        request = RequestId(self._context.new_id("req"))
        details = {"tool": tool, "question": question, "kind": kind, "input": tool_input}
        options = get_args(Decision)
        denied_by = await self._context.before_request(
            self.id, request, {**details, "options": options}
        )
        inside_workspace = _is_in_workspace(self.workspace, path) and (
            await self._context.is_in_workspace(path or "")
        )
        self.raise_if_over()
        waiting = self._turn_control.pending_permissions[request] = PendingPermission()
        try:
            await self._context.report_when_possible(
                agent_events.PermissionAsked(
                    turn=self.id,
                    request=request,
                    tool=tool,
                    question=question,
                    kind=kind,
                    inside_workspace=inside_workspace,
                    input=tool_input,
                    denied_by=denied_by,
                    **self._context.stamp(),
                )
            )
            await waiting.answered.wait()
            # An interrupt of the turn cancels its requests too; that is not a decision.
            await trio.lowlevel.checkpoint_if_cancelled()
            self.raise_if_over()
        finally:
            del self._turn_control.pending_permissions[request]
        return waiting.decision in ("allow_once", "allow_always")

    def usage(self, *, input_tokens: int = 0, output_tokens: int = 0, cost: float = 0.0) -> None:
        """Report the usage since the last report.

        The usage counts against the budgets of the session and its ancestors. A report that
        exhausts a budget is still counted, and the turn is interrupted; a later report raises
        `BudgetSpent`.
        """
        self.raise_if_over()
        used = _check_usage(input_tokens, output_tokens, cost)
        self._context.record_usage(self.id, used)
        self._turn_control.unreported_usage += used
        self._turn_control.report_usage()

    async def spawn(self, agent: str, text: str, **options: Unpack[SpawnOptions]) -> ChildHandle:
        """Spawn a child of this session with an input, and wait until its agent is attached.

        The options are those of `Session.spawn`. Raise `SpawnRefused` if a limit or a permission
        forbids the child. Cancelling the wait does not undo the spawn: the child exists, and
        `news()` reports it.
        """
        self.raise_if_over()
        return await self._context.spawn(self, agent, text, **options)

    async def descendant(self, session_id: str) -> ChildHandle:
        """Return a handle of a descendant; raise `PermissionDenied` for any other session."""
        self.raise_if_over()
        return await self._context.descendant(self, session_id)

    def news(self) -> list[News]:
        """Return the notifications about children since the last call, in this or earlier turns."""
        self.raise_if_over()
        return self._context.news(self.id)

    def requests(self) -> list[ChildRequest]:
        """Return pending permission requests of descendants, if this session may answer them."""
        self.raise_if_over()
        return self._context.requests()

    async def answer_request(self, request_id: str, decision: Decision) -> None:
        """Answer a permission request of a descendant.

        Raise `PermissionDenied` if this session itself may not do what the decision allows.
        """
        self.raise_if_over()
        await self._context.answer_request(request_id, decision)

    async def hang(self) -> None:
        """Ignore every interrupt until the supervisor shuts down; for scripts and tests."""
        self.raise_if_over()
        with trio.CancelScope(shield=True):
            await self._closing.wait()

    async def _write_output(self, kind: TextKind, text: str) -> None:
        self.raise_if_over()
        if not isinstance(text, str):
            raise OutputTooLarge(f"{short_repr(text)} is not text", hint="convert it with str()")
        if text:
            self._context.write_text(self.id, kind, plain_text(text))
        await self._context.wait_writable()

    def raise_if_over(self) -> None:
        """Raise `TurnOver` if the turn is over."""
        self._turn_control.raise_if_over()


class Call(AbstractAsyncContextManager["Call"]):
    """One tool call; `interrupted` is True after its block if the call was interrupted."""

    def __init__(
        self,
        turn_control: TurnControl,
        call_id: CallId,
        name: str,
        tool_input: Mapping[str, Any] | None,
    ) -> None:
        self.id = call_id
        self.name = name
        self.interrupted = False
        self._turn_control = turn_control
        self._input = tool_input
        self._scope = trio.CancelScope()
        self._was_entered = False
        self._result: object = None

    async def __aenter__(self) -> Self:
        turn_control = self._turn_control
        turn_control.raise_if_over()
        if self._was_entered:
            raise ConfigError(
                f"call {self.id} was already used", hint="make another one with turn.tool()"
            )
        tool_input = None if self._input is None else _plain_mapping(self._input)
        self._was_entered = True
        await turn_control.context.wait_writable()
        await turn_control.context.before_call(turn_control.id, self.id, self.name, tool_input)
        turn_control.raise_if_over()
        turn_control.context.count_output(turn_control.id, {"name": self.name, "input": tool_input})
        started = agent_events.CallStarted(
            turn=turn_control.id,
            call=self.id,
            name=self.name,
            input=tool_input,
            **turn_control.context.stamp(),
        )
        # Before the start is reported, so that an interrupt of the call always finds its scope.
        turn_control.calls[self.id] = self._scope
        try:
            await turn_control.context.report_when_possible(started)
        except BaseException:
            del turn_control.calls[self.id]
            self._report_end("interrupted")
            raise
        self._scope.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        del self._turn_control.calls[self.id]
        swallowed = bool(self._scope.__exit__(kind, error, traceback))
        self.interrupted = self._scope.cancelled_caught
        outcome: CallOutcome
        if self.interrupted:
            outcome = "interrupted"
        elif error is None:
            outcome = "completed"
        elif is_cancellation(error):
            outcome = "interrupted"  # together with the turn
        else:
            outcome = "failed"
        self._report_end(outcome)
        return swallowed

    def result(self, value: object) -> None:
        """Set the result of the call, which is recorded at its end."""
        turn_control = self._turn_control
        turn_control.raise_if_over()
        result = plain_data(value)
        turn_control.context.count_output(turn_control.id, {"result": result})
        self._result = result

    def update(self, value: object) -> None:
        """Record progress of the call; raise `TurnOver` outside of the call's block."""
        turn_control = self._turn_control
        turn_control.raise_if_over()
        if self.id not in turn_control.calls:
            raise TurnOver(f"call {self.id} is over", hint="update it inside its block")
        body = {"call_id": self.id, "name": self.name, "update": plain_data(value)}
        turn_control.context.write(turn_control.id, "tool_update", body)

    def _report_end(self, outcome: CallOutcome) -> None:
        turn_control = self._turn_control
        if turn_control.is_over:  # the end of the turn has closed its calls
            return
        ended = agent_events.CallEnded(
            turn=turn_control.id,
            call=self.id,
            outcome=outcome,
            result=self._result,
            **turn_control.context.stamp(),
        )
        turn_control.context.report_eventually(ended)


def _plain_mapping(tool_input: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(tool_input, Mapping):
        raise ConfigError(
            f"the input of a tool is {short_repr(tool_input)}", hint="give a mapping, or None"
        )
    plain = plain_data(tool_input)
    assert isinstance(plain, dict)
    return plain


def _check_text(what: str, text: object) -> str:
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"{what} is {short_repr(text)}", hint="give some text")
    return plain_text(text)


def is_cancellation(error: BaseException) -> bool:
    """Return True for `trio.Cancelled`, and for groups that contain nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1] is None
    return isinstance(error, trio.Cancelled)


def _is_in_workspace(workspace: str | None, path: str | None) -> bool:
    # Here the agent only states what it is about to read: a path counts as inside only if that is
    # certain from its text, and from the links that it leads through.
    if workspace is None or not isinstance(path, str) or not path or path.startswith("~"):
        return False
    parts = path.split("/")
    if ".." in parts:
        return False
    return not path.startswith("/") or f"{path}/".startswith(f"{workspace.rstrip('/')}/")


def _check_usage(input_tokens: int, output_tokens: int, cost: float) -> Usage:
    for name, value, kinds in (
        ("input_tokens", input_tokens, (int,)),
        ("output_tokens", output_tokens, (int,)),
        ("cost", cost, (int, float)),
    ):
        # The exact types only: a subclass may define its own addition.
        if type(value) not in kinds or not 0 <= value < 2**53:
            raise ConfigError(
                f"{name} is {short_repr(value)}",
                hint="give the usage since the last report, 0 or more",
            )
    return Usage(input_tokens, output_tokens, float(cost))
