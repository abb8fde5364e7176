"""Permission checks for an agent's requests, grants, and `session/request_permission`.

The session decides by its permissions, permission rules and mode, and asks a user for the rest. It
records each question; a request that the mode allows needs no question.

An agent asks before it edits a file or runs a command, and then requests the same from us. The user
is asked once: an allowing answer is a grant. It covers the files named in the question until the
turn ends, and the named command once, or while the agent runs.

Rule 1: options are matched by kind; ids and labels differ between agents. The first of a kind
        counts.
Rule 2: an agent is never granted more than was decided. allow_always may be sent as allow_once, and
        reject_once and reject_always replace each other; but allow_once is never sent as
        allow_always. If no option fits, the request is cancelled.

A request is put to the session and answered exactly once.

Rule 3: every request is answered; `cancelled` when its turn is interrupted, over or lost.
Rule 4: when a turn is interrupted, the agent receives `session/cancel` before the answers to its
        requests. Otherwise it would take them for rejections and continue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

import attrs
import trio

from supervisor.core import agent_events
from supervisor.core.errors import OutputTooLarge
from supervisor.core.ids import RequestId, TurnId
from supervisor.core.permissions import DEFAULT_MODE, answer_by_mode
from supervisor.core.state import Decision
from supervisor.core.workspace_root import WorkspaceRoot
from supervisor.drivers.port import DriverContext
from supervisor.json_rpc.rpc_messages import INVALID_PARAMS, RpcError

from .content import as_list, as_mapping
from .tool_reports import ToolReport, parse_tool_report
from .workspace import OutsideWorkspace, Workspace

PermissionAnswer: TypeAlias = Decision | Literal["cancelled"]

ALLOWING_ANSWERS: Final[frozenset[PermissionAnswer]] = frozenset({"allow_once", "allow_always"})


@attrs.frozen(kw_only=True)
class PermissionQuestion:
    """The fields of `PermissionAsked` without turn and request id, which the driver adds."""

    tool: str
    question: str
    kind: str | None = None
    inside_workspace: bool = False
    input: Mapping[str, Any] | None = None
    options: tuple[Decision, ...] = get_args(Decision)


# Asks the session and waits for the decision; "cancelled" also if no turn runs.
AskPermission: TypeAlias = Callable[[PermissionQuestion], Awaitable[PermissionAnswer]]


async def check_allowed(
    context: DriverContext, ask: AskPermission, report: ToolReport, *, granted: bool
) -> None:
    """Raise `RpcError` unless the session may do this in its workspace; ask a user if necessary.

    `granted`: an earlier answer allowed the same action.
    """
    permissions = context.permissions
    kind = report.kind or ""
    if not permissions.allows("tools", kind):
        raise denied_error(report)
    match answer_by_mode(permissions.mode or DEFAULT_MODE, kind, inside_workspace=True):
        case "reject":
            raise denied_error(report)
        case "ask" if not granted:
            answer = await ask(
                PermissionQuestion(
                    tool=report.permission_name(permissions),
                    question=report.title or kind,
                    kind=kind,
                    inside_workspace=True,
                    input=report.input,
                )
            )
            if answer not in ALLOWING_ANSWERS:
                raise denied_error(report)


def denied_error(report: ToolReport) -> RpcError:
    """Return the error for a request that the permissions or a user rejected."""
    return RpcError(INVALID_PARAMS, f"this session is not allowed to {report.kind}")


# Tool kinds that change a file.
_WRITE_KINDS: Final = frozenset({"edit", "delete", "move"})

MAX_GRANTS: Final = 1000


class Grants:
    """Permissions granted to one agent."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        # One set per command: all texts that denote it. Running it uses up the whole set.
        self._once: list[frozenset[str]] = []
        self._always: set[str] = set()

    def end_turn(self) -> None:
        """Drop the grants of the turn."""
        self._paths.clear()
        self._once.clear()

    def add(self, report: ToolReport, decision: Decision, *, paths: Iterable[str]) -> None:
        """Add a grant for the files or the command in the question.

        `paths` are its resolved paths.
        """
        if report.kind in _WRITE_KINDS:
            self._add(self._paths, paths)
        elif report.kind == "execute" and decision == "allow_always":
            self._add(self._always, report.commands)
        elif report.kind == "execute" and len(self._once) < MAX_GRANTS:
            self._once.append(report.commands)

    def covers_write(self, path: str) -> bool:
        """Return True if this file may be written without asking."""
        return path in self._paths

    def consume_command(self, commands: frozenset[str]) -> bool:
        """Return True if this command may run without asking; remove a grant of allow_once."""
        if commands & self._always:
            return True
        for known in self._once:
            if commands & known:
                self._once.remove(known)
                return True
        return False

    @staticmethod
    def _add(grants: set[str], texts: Iterable[str]) -> None:
        for text in texts:
            if len(grants) < MAX_GRANTS:
                grants.add(text)


MAX_OPTIONS: Final = 100

MAX_QUESTION_LETTERS: Final = 4000

MAX_OPTION_ID_LETTERS: Final = 1000

_DECISIONS: Final[tuple[Decision, ...]] = get_args(Decision)

_SUBSTITUTES: Final[Mapping[Decision, tuple[Decision, ...]]] = {
    "allow_once": ("allow_once",),
    "allow_always": ("allow_always", "allow_once"),
    "reject_once": ("reject_once", "reject_always"),
    "reject_always": ("reject_always", "reject_once"),
}


@attrs.frozen
class PermissionParams:
    """An agent's permission request: the tool call, and the option id of each decision."""

    report: ToolReport
    options: Mapping[Decision, str]

    def result(self, answer: PermissionAnswer) -> dict[str, object]:
        """Return the result to send for an answer."""
        for decision in () if answer == "cancelled" else _SUBSTITUTES[answer]:
            if decision in self.options:
                chosen = {"outcome": "selected", "optionId": self.options[decision]}
                return {"outcome": chosen}
        return {"outcome": {"outcome": "cancelled"}}


def parse_request(params: object, tool_report: Callable[[object], ToolReport]) -> PermissionParams:
    """Return the request in the params of `session/request_permission`.

    Raise `RpcError` if the params are malformed. `tool_report` returns the earlier updates about a
    tool call, merged.
    """
    fields = as_mapping(params)
    call = fields.get("toolCall")
    if not isinstance(call, dict):
        raise RpcError(INVALID_PARAMS, "toolCall is not an object")
    options = _options_by_decision(fields.get("options"))
    if not options:
        kinds = ", ".join(_DECISIONS)
        raise RpcError(INVALID_PARAMS, f"no option has a kind of {kinds}")
    report = tool_report(call.get("toolCallId")).merged(parse_tool_report(call))
    return PermissionParams(report, options)


def _options_by_decision(offered: object) -> dict[Decision, str]:
    """Return the first option id of each kind, in the order of `Decision`."""
    found: dict[Decision, str] = {}
    for item in as_list(offered)[:MAX_OPTIONS]:
        option = as_mapping(item)
        kind, option_id = option.get("kind"), option.get("optionId")
        if not isinstance(option_id, str) or len(option_id) > MAX_OPTION_ID_LETTERS:
            continue
        if kind in _DECISIONS and kind not in found:
            found[kind] = option_id
    return {decision: found[decision] for decision in _DECISIONS if decision in found}


class PermissionHandler:
    """Handler of `session/request_permission` for one agent."""

    def __init__(
        self,
        context: DriverContext,
        *,
        ask: AskPermission,
        grants: Grants,
        tool_report: Callable[[object], ToolReport],
        limiter: trio.CapacityLimiter,
        workspace_root: WorkspaceRoot | None = None,
        subagent_name: Callable[[object], str | None] = lambda _: None,
    ) -> None:
        self._context = context
        self._ask = ask
        self._grants = grants
        self._tool_report = tool_report
        self._subagent_name = subagent_name
        self._limiter = limiter
        self._workspace_root = workspace_root

    async def handle_request(self, params: object) -> dict[str, object]:
        """Ask for a decision, keep a grant, and return the result for the agent.

        Raise `RpcError` if the request is malformed. The session bounds the wait for the decision.
        """
        subagent = self._subagent_name(params)
        # The ids of a subagent's tool calls are its own: another call may have the same one.
        request = parse_request(
            params, self._tool_report if subagent is None else lambda _: ToolReport()
        )
        report = request.report
        question = report.title or report.display_name
        if subagent is not None:
            question = f"{subagent}: {question}"
        paths = await self._resolved_paths(report)
        answer = await self._ask(
            PermissionQuestion(
                tool=report.permission_name(self._context.permissions),
                question=question[:MAX_QUESTION_LETTERS],
                kind=report.kind,
                inside_workspace=bool(paths),
                input=report.input,
                options=tuple(request.options),
            )
        )
        if answer in ALLOWING_ANSWERS and answer != "cancelled":
            self._grants.add(report, answer, paths=paths)
        return request.result(answer)

    async def _resolved_paths(self, report: ToolReport) -> tuple[str, ...]:
        """Return the resolved paths of a report.

        The result is empty if the report names no path, or one outside the workspace.
        """
        workspace = Workspace.of(self._context, self._workspace_root)
        if workspace is None or not report.paths:
            return ()
        return await trio.to_thread.run_sync(
            _resolve_all, workspace, report.paths, limiter=self._limiter, abandon_on_cancel=True
        )


def _resolve_all(workspace: Workspace, paths: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(workspace.resolve_tool_path(path).path for path in paths)
    except OutsideWorkspace:
        return ()


class _PendingQuestion:
    """A request that has no answer yet."""

    __slots__ = ("answer", "answered")

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.answer: PermissionAnswer = "cancelled"


class PendingPermissions:
    """Open permission requests of one agent.

    `before_asking` waits until the running turn has its id, `before_cancelling` until the agent
    has received the cancel of its turn.
    """

    def __init__(
        self,
        context: DriverContext,
        *,
        before_asking: Callable[[], Awaitable[None]],
        before_cancelling: Callable[[], Awaitable[None]],
        on_output_too_large: Callable[[OutputTooLarge], None],
    ) -> None:
        self._context = context
        self._before_asking = before_asking
        self._before_cancelling = before_cancelling
        self._on_output_too_large = on_output_too_large
        self._turn: TurnId | None = None
        self._open: dict[RequestId, _PendingQuestion] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin_turn(self, turn: TurnId) -> None:
        """Assign requests to this turn."""
        self._turn = turn

    def end_turn(self) -> None:
        """Answer the open requests with `cancelled`."""
        self._turn = None
        for pending in self._open.values():
            pending.answered.set()

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """Report the question and wait for the decision; the session bounds the wait."""
        await self._before_asking()
        turn = self._turn
        if turn is None:
            return "cancelled"
        asked = {"tool": question.tool, "question": question.question, "kind": question.kind}
        try:
            self._context.count_output(turn, {**asked, "input": question.input})
        except OutputTooLarge as error:
            self._on_output_too_large(error)
            return "cancelled"
        request = RequestId(self._context.new_id("req"))
        denied_by = await self._context.before_request(
            turn, request, {**asked, "input": question.input, "options": question.options}
        )
        if self._turn != turn:
            return "cancelled"
        pending = self._open[request] = _PendingQuestion()
        try:
            await self._context.report_when_possible(
                agent_events.PermissionAsked(
                    turn=turn,
                    request=request,
                    tool=question.tool,
                    question=question.question,
                    kind=question.kind,
                    inside_workspace=question.inside_workspace,
                    input=question.input,
                    options=question.options,
                    denied_by=denied_by,
                    **self._context.stamp(),
                )
            )
            await pending.answered.wait()
            if pending.answer == "cancelled":
                await self._before_cancelling()
        finally:
            del self._open[request]
        return pending.answer

    def answer(self, request: RequestId, answer: PermissionAnswer) -> None:
        """Answer an open request; ignore a second answer."""
        pending = self._open.get(request)
        if pending is not None and not pending.answered.is_set():
            pending.answer = answer
            pending.answered.set()
