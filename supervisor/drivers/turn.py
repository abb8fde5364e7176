"""What a python agent gets: the turn it is in, and all that it may do there.

Rule 1: when the turn is over (ended, interrupted, abandoned) every method raises `TurnOver`, so
        that nothing which comes late gets anywhere.
Rule 2: every `async` method passes a checkpoint, so that an interrupt finds it; only the end of a
        tool call does not, for what was done in it is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, get_args

import trio

from supervisor.core import events as ev
from supervisor.core.creation import Message
from supervisor.core.errors import (
    ConfigError,
    OutputTooLarge,
    PermissionDenied,
    TurnOver,
    shown,
)
from supervisor.core.ids import CallId, InputId, RequestId, SessionId, TurnId
from supervisor.core.session import Decision, Usage

from .course import Course, Question
from .plain import plain, plain_text

if TYPE_CHECKING:
    from supervisor.core.effects import StartTurn

    from .port import Child, ChildRequest, News, TextKind

# Whose turn the code that runs now belongs to; None outside of agents.
INSIDE: Final[ContextVar[SessionId | None]] = ContextVar("INSIDE", default=None)

CallOutcome = Literal["completed", "failed", "interrupted"]


class Turn:
    """One run of an agent on one input.

    `text` is what it was sent, `history` what was said before, `attachments` what came with it.
    """

    def __init__(self, order: StartTurn, course: Course, *, closing: trio.Event) -> None:
        office = course.office
        self.id: TurnId = order.turn
        self.input_id: InputId = order.input
        self.session_id: SessionId = office.session_id
        self.text: str = order.text
        self.attachments: tuple[Mapping[str, Any], ...] = order.attachments
        self.workspace: str | None = office.workspace
        self.history: Sequence[Message] = ()
        self._office = office
        self._closing = closing
        self._course = course

    def __repr__(self) -> str:
        return f"<Turn {self.id} of {self.session_id}{' (over)' if self._course.is_over else ''}>"

    async def say(self, text: str) -> None:
        """Put text out; whoever watches sees it at once."""
        await self._put_out("agent_text", text)

    async def think(self, text: str) -> None:
        """Put out what is thought and not said."""
        await self._put_out("thought", text)

    async def plan(self, entries: Sequence[object]) -> None:
        """Show what the agent is going to do."""
        self.refuse_if_over()
        self._office.write(self.id, "plan", {"entries": plain(entries)})
        await self._office.wait_for_room()

    def tool(
        self,
        name: str,
        input: Mapping[str, Any] | None = None,  # noqa: A002 - its public name
    ) -> Call:
        """A tool call, for `async with`: it can be interrupted alone, and its end is a boundary.

        If it is interrupted its block is cancelled and left, `call.interrupted` is set, and the
        turn goes on. Raises `PermissionDenied` if the session may not use that tool.
        """
        self.refuse_if_over()
        name = _some_text("a tool's name", name)
        if not self._office.permissions.allows("tools", name):
            raise PermissionDenied(
                f"session {self.session_id} may not use the tool {name!r}",
                hint="add it to permissions.tools when the session is created",
            )
        return Call(self._course, CallId(self._office.new_id("call")), name, input)

    def steering(self) -> list[str]:
        """Take what was steered in so far; each text is handed out once."""
        self.refuse_if_over()
        if not self._course.offered:
            return []
        taken = ev.SteeringTaken(
            turn=self.id,
            inputs=tuple(input_id for input_id, _ in self._course.offered),
            **self._office.stamp(),
        )
        if not self._office.report(taken):
            return []  # the session has no room for the news, so they stay for the next time
        texts = [text for _, text in self._course.offered]
        self._course.offered = []
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
        """Ask whether something may be done; True when it is allowed.

        `kind` says what the tool does (`read`, `search`, `edit`, ...) and `path` to what: reading
        inside the workspace needs nobody's answer unless the mode says so.
        """
        self.refuse_if_over()
        question = _some_text("a question", question)
        tool = _some_text("a tool's name", tool)
        kind = plain_text(kind) if isinstance(kind, str) else None  # else nobody knows what it does
        given = None if input is None else _plain_mapping(input)
        self._office.charge(self.id, {"tool": tool, "question": question, "input": given})
        request = RequestId(self._office.new_id("req"))
        asked = {"tool": tool, "question": question, "kind": kind, "input": given}
        options = get_args(Decision)
        denied_by = await self._office.before_request(
            self.id, request, {**asked, "options": options}
        )
        self.refuse_if_over()
        waiting = self._course.asked[request] = Question()
        try:
            await self._office.report_soon(
                ev.PermissionAsked(
                    turn=self.id,
                    request=request,
                    tool=tool,
                    question=question,
                    kind=kind,
                    inside_workspace=_is_inside(self.workspace, path),
                    input=given,
                    denied_by=denied_by,
                    **self._office.stamp(),
                )
            )
            await waiting.answered.wait()
            # If the turn is interrupted its requests are cancelled too, and that is no answer.
            await trio.lowlevel.checkpoint_if_cancelled()
            self.refuse_if_over()
        finally:
            del self._course.asked[request]
        return waiting.decision in ("allow_once", "allow_always")

    def usage(self, *, input_tokens: int = 0, output_tokens: int = 0, cost: float = 0.0) -> None:
        """Say what was spent since the last time.

        It is drawn from the budgets of the session and of all above it. What spends the last of one
        is still counted, and the turn is interrupted for it; what comes after raises `BudgetSpent`.
        """
        self.refuse_if_over()
        used = _checked_usage(input_tokens, output_tokens, cost)
        self._office.spend(self.id, used)
        self._course.unreported += used
        self._course.report_usage()

    async def spawn(self, agent: str, text: str, **options: Any) -> Child:  # noqa: ANN401
        """A child of this session, at work on `text`; answers when its agent is up.

        Options are those of `Session.spawn`. Raises `SpawnRefused`. Giving up the wait does not
        undo it: then the child is there, and told of by `news()`.
        """
        self.refuse_if_over()
        return await self._office.spawn(self, agent, text, **options)

    async def descendant(self, session_id: str) -> Child:
        """One that was spawned by this session, or below it; raises `PermissionDenied`."""
        self.refuse_if_over()
        return await self._office.descendant(self, session_id)

    def news(self) -> list[News]:
        """What became of children since it was last asked, in this turn or an earlier one."""
        self.refuse_if_over()
        return self._office.news(self.id)

    def requests(self) -> list[ChildRequest]:
        """What those below wait to be allowed, if this session was given the right to answer."""
        self.refuse_if_over()
        return self._office.requests()

    async def answer_request(self, request_id: str, decision: Decision) -> None:
        """Decide for one below; raises `PermissionDenied` for more than this session may itself."""
        self.refuse_if_over()
        await self._office.answer_request(request_id, decision)

    async def hang(self) -> None:
        """Be deaf to every interrupt until the supervisor itself leaves; for scripts and tests."""
        self.refuse_if_over()
        with trio.CancelScope(shield=True):
            await self._closing.wait()

    # Inside -------------------------------------------------------------------------------

    async def _put_out(self, kind: TextKind, text: str) -> None:
        self.refuse_if_over()
        if not isinstance(text, str):
            raise OutputTooLarge(f"{shown(text)} is no text", hint="say text; str() makes some")
        if text:
            self._office.write_text(self.id, kind, plain_text(text))
        await self._office.wait_for_room()

    def refuse_if_over(self) -> None:
        """Raise `TurnOver` if it is over, and what comes of it no longer counts."""
        self._course.refuse_if_over()


class Call(AbstractAsyncContextManager["Call"]):
    """A tool call under way; `interrupted` says whether somebody stopped it."""

    def __init__(
        self, course: Course, call_id: CallId, name: str, given: Mapping[str, Any] | None
    ) -> None:
        self.id = call_id
        self.name = name
        self.interrupted = False
        self._course = course
        self._given = given
        self._scope = trio.CancelScope()
        self._was_entered = False
        self._result: object = None

    async def __aenter__(self) -> Self:
        course = self._course
        course.refuse_if_over()
        if self._was_entered:
            raise ConfigError(f"call {self.id} was made already", hint="turn.tool() makes another")
        given = None if self._given is None else _plain_mapping(self._given)
        self._was_entered = True
        await course.office.wait_for_room()
        await course.office.before_call(course.id, self.id, self.name, given)
        course.refuse_if_over()
        course.office.charge(course.id, {"name": self.name, "input": given})
        started = ev.CallStarted(
            turn=course.id,
            call=self.id,
            name=self.name,
            input=given,
            **course.office.stamp(),
        )
        # Before anybody can know of it, or an interrupt might come and find nothing.
        course.calls[self.id] = self._scope
        try:
            await course.office.report_soon(started)
        except BaseException:
            del course.calls[self.id]
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
        del self._course.calls[self.id]
        swallowed = bool(self._scope.__exit__(kind, error, traceback))
        self.interrupted = self._scope.cancelled_caught
        outcome: CallOutcome
        if self.interrupted:
            outcome = "interrupted"
        elif error is None:
            outcome = "completed"
        elif is_cancellation(error):
            outcome = "interrupted"  # with its turn
        else:
            outcome = "failed"
        self._report_end(outcome)
        return swallowed

    def result(self, value: object) -> None:
        """Say what came of it."""
        course = self._course
        course.refuse_if_over()
        result = plain(value)
        course.office.charge(course.id, {"result": result})
        self._result = result

    def update(self, value: object) -> None:
        """Show how it goes."""
        course = self._course
        course.refuse_if_over()
        if self.id not in course.calls:
            raise TurnOver(f"call {self.id} is over", hint="update it inside its block")
        body = {"call_id": self.id, "name": self.name, "update": plain(value)}
        course.office.write(course.id, "tool_update", body)

    def _report_end(self, outcome: CallOutcome) -> None:
        course = self._course
        if course.is_over:  # whoever ended it has closed its calls too
            return
        ended = ev.CallEnded(
            turn=course.id,
            call=self.id,
            outcome=outcome,
            result=self._result,
            **course.office.stamp(),
        )
        course.office.report_surely(ended)


def _plain_mapping(given: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"the input of a tool is {shown(given)}", hint="give a mapping, or None")
    made = plain(given)
    assert isinstance(made, dict)
    return made


def _some_text(what: str, text: object) -> str:
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"{what} is {shown(text)}", hint="give some text")
    return plain_text(text)


def is_cancellation(error: BaseException) -> bool:
    """Whether it is nothing but trio's own Cancelled, also where nurseries have grouped it."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1] is None
    return isinstance(error, trio.Cancelled)


def _is_inside(workspace: str | None, path: str | None) -> bool:
    # Real paths, with links resolved, are the business of drivers that touch files. Here the agent
    # says what it is about to read, and only what is plainly inside goes without asking.
    if workspace is None or not isinstance(path, str) or not path or path.startswith("~"):
        return False
    parts = path.split("/")
    if ".." in parts:
        return False
    return not path.startswith("/") or f"{path}/".startswith(f"{workspace.rstrip('/')}/")


def _checked_usage(input_tokens: int, output_tokens: int, cost: float) -> Usage:
    for name, value, kinds in (
        ("input_tokens", input_tokens, (int,)),
        ("output_tokens", output_tokens, (int,)),
        ("cost", cost, (int, float)),
    ):
        # Nothing but a number: one of another class may add up as it likes.
        if type(value) not in kinds or not 0 <= value < 2**53:
            raise ConfigError(
                f"{name} is {shown(value)}",
                hint="give what was spent since the last report, 0 or more",
            )
    return Usage(input_tokens, output_tokens, float(cost))
