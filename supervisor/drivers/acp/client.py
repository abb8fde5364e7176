"""The client side of ACP for one agent process: files, terminals, permissions, updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

import attrs
import trio

from supervisor.core import agent_events
from supervisor.core.agent_options import AgentOption, OptionValue
from supervisor.core.creation import Message
from supervisor.core.effects import StartTurn
from supervisor.core.errors import OutputTooLarge
from supervisor.core.ids import RequestId, TurnId
from supervisor.core.workspace_root import WorkspaceRoot
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.port import DriverContext
from supervisor.drivers.process.environment import agent_environment
from supervisor.drivers.process.processes import AgentProcess
from supervisor.drivers.runtime import DriverRuntime
from supervisor.json_rpc.rpc_handlers import RequestHandler, RpcHandlers

from .agent_spec import AcpAgentSpec
from .capabilities import AgentCapabilities, AgentStatus, client_capabilities
from .config_options import offered_options
from .content import as_list, as_mapping, as_name
from .file_access import FileAccess
from .permissions import Grants, PendingPermissions, PermissionAnswer, PermissionHandler
from .prompts import context_blocks, prompt_blocks
from .terminals import RecordedProcesses, Terminals
from .turn_result import TurnActivity, safe_text
from .updates import Updates

# Threads for disk access, per agent: a slow disk under one agent does not block another.
_MAX_THREADS: Final = 4


class TurnOwner(Protocol):
    """The part of `AcpSession` that the client calls."""

    @property
    def turn(self) -> TurnId | None:
        """The running turn; None if no turn runs."""

    async def on_update(self, params: object) -> None:
        """Record a `session/update` of the agent."""

    def end_turn_for(self, error: OutputTooLarge) -> None:
        """End the turn because its output is too large."""

    async def wait_adopted(self) -> None:
        """Wait until the running turn has its id; the wait is bounded."""

    async def wait_cancel_sent(self) -> None:
        """Wait until the agent has received the cancel of its turn, if there is one.

        The wait is bounded.
        """


_UNKNOWN_ANSWER: Final = (
    "the agent sent an answer with an id that belongs to no open call; if it was meant to end this "
    "turn, the turn still waits: interrupt it"
)


class AcpClient:
    """Handlers of one agent's requests and updates. `session` is set after the handshake."""

    def __init__(
        self,
        agent: AcpAgentSpec,
        context: DriverContext,
        runtime: DriverRuntime,
        nursery: trio.Nursery,
        process: AgentProcess,
        *,
        workspace_root: WorkspaceRoot | None,
    ) -> None:
        self._context = context
        self._process = process
        launch = agent.launch(context.workspace)
        self.cwd = launch.cwd or "/"
        limiter = trio.CapacityLimiter(_MAX_THREADS)
        self._grants = Grants()
        # Requests served in the running turn; they count as activity of the turn.
        self._requests_served = 0
        self.pending_permissions = PendingPermissions(
            context,
            before_asking=self._wait_adopted,
            before_cancelling=self._wait_cancel_sent,
            on_output_too_large=self._end_turn_for,
        )
        self._files = FileAccess(
            context,
            ask=self.pending_permissions.ask,
            grants=self._grants,
            limiter=limiter,
            workspace_root=workspace_root,
        )
        self._terminals = Terminals(
            context,
            workspace_root=workspace_root,
            processes=RecordedProcesses(runtime.processes, context),
            nursery=nursery,
            ask=self.pending_permissions.ask,
            grants=self._grants,
            limiter=limiter,
            environment=agent_environment({}),  # without the agent's own variables
            before_exec=_no_further_check,
        )
        # Fixed while the process runs, as announced; permissions are checked at each request.
        offered = client_capabilities(context)
        self._can_read, self._can_write = (
            offered["fs"]["readTextFile"],
            offered["fs"]["writeTextFile"],
        )
        self.has_terminals: bool = offered["terminal"]
        self.updates = Updates(
            context,
            terminal_access=self._terminals if self.has_terminals else None,
            has_subagents=agent.subagents,
        )
        self._permissions = PermissionHandler(
            context,
            ask=self.pending_permissions.ask,
            grants=self._grants,
            tool_report=self.updates.tool_report,
            subagent_name=self.updates.subagent_name,
            limiter=limiter,
            workspace_root=workspace_root,
        )
        self.capabilities = AgentCapabilities()
        # Set after the handshake.
        self.session: TurnOwner | None = None
        self._reported_choices: Mapping[str, object] = {}
        # Warnings to write when the next turn starts: a record needs a turn.
        self._warnings: list[str] = []
        # Why `kill_agent` killed the process.
        self.kill_reason: str | None = None
        # The last turn with a warning of an unknown answer.
        self._warned_turn: TurnId | None = None

    # Turns --------------------------------------------------------------------------------

    @property
    def _turn(self) -> TurnId | None:
        return None if self.session is None else self.session.turn

    def begin_turn(self, turn: TurnId) -> None:
        """Assign updates and permission requests to this turn; write pending warnings."""
        self.updates.begin_turn(turn)
        self.pending_permissions.begin_turn(turn)
        warnings, self._warnings = self._warnings, []
        for text in warnings:
            self._context.write(turn, "warning", {"text": text})

    def warn(self, text: str) -> None:
        """Queue a warning for the next turn."""
        self._warnings.append(safe_text(text))

    def cancel_turn(self, turn: TurnId) -> None:
        """Kill the terminals that the turn started."""
        self._terminals.kill_turn(turn)

    def stop_background_work(self) -> None:
        """Kill all terminals of the agent, whatever turn started them."""
        self._terminals.kill_all()

    def answer_permission(self, request: RequestId, answer: PermissionAnswer) -> None:
        """Answer a permission request of the agent, if it is still open."""
        self.pending_permissions.answer(request, answer)

    def end_turn(self) -> TurnActivity:
        """Close the turn's permission requests and grants.

        Return the turn's activity besides text.
        """
        self.pending_permissions.end_turn()
        self._grants.end_turn()
        activity = self.updates.end_turn()
        served, self._requests_served = self._requests_served, 0
        return attrs.evolve(activity, calls=activity.calls + served)

    async def prompt_params(self, effect: StartTurn, *, sends_history: bool) -> dict[str, Any]:
        """Return the prompt: the messages that the agent has not seen, the input and its trace."""
        messages: Sequence[Message] = ()
        if sends_history or effect.missed_messages:
            messages = await self._context.history(effect.turn)
        if not sends_history:
            messages = messages[max(0, len(messages) - effect.missed_messages) :]
        blocks = prompt_blocks(
            effect.text,
            effect.attachments,
            capabilities=self.capabilities,
            workspace=self._context.workspace,
        )
        params: dict[str, Any] = {"prompt": [*context_blocks(messages), *blocks]}
        return params | {"_meta": dict(effect.trace)} if effect.trace else params

    # Choices ------------------------------------------------------------------------------

    def read_session_result(self, answer: object) -> None:
        """Read modes and options from the result of `session/new`, `/load` or `/resume`."""
        self.updates.status = self.updates.status.with_session_result(answer)

    def report_choices(self) -> None:
        """Report modes, options and commands of an attached agent if they have changed."""
        event = self._changed_choices()
        if event is not None:
            self._context.report_eventually(event)

    def _changed_choices(self) -> agent_events.AgentChoicesReported | None:
        choices = _choices(self.updates.status)
        if self.session is None or choices == self._reported_choices:
            return None
        self._reported_choices = choices
        return agent_events.AgentChoicesReported(
            choices=choices, options=self.offered_options(), **self._context.stamp()
        )

    def offered_options(self) -> tuple[AgentOption, ...]:
        """Return the options that the agent offers."""
        return offered_options(self.updates.status)

    def set_option(self, option_id: str, value: OptionValue, answer: object) -> None:
        """Read the options from the answer to setting one; without them, set its value here."""
        if as_list(as_mapping(answer).get("configOptions")):
            self.read_session_result(answer)
            return
        status = self.updates.status
        options = tuple(
            {**option, "currentValue": value} if option.get("id") == option_id else option
            for option in status.config_options
        )
        self.updates.status = attrs.evolve(status, config_options=options)

    def set_mode(self, mode: str) -> None:
        """Set the current mode; agents need not report a mode that the client sets."""
        self.updates.status = attrs.evolve(self.updates.status, mode=mode)

    # Serving ------------------------------------------------------------------------------

    def handlers(self) -> RpcHandlers:
        """Return the handlers of the agent's messages; only announced methods have one."""
        requests: dict[str, RequestHandler] = {
            "session/request_permission": self._permissions.handle_request
        }
        if self._can_read:
            requests["fs/read_text_file"] = self._counting(self._files.read)
        if self._can_write:
            requests["fs/write_text_file"] = self._counting(self._files.write)
        if self.has_terminals:
            requests["terminal/create"] = self._counting(self._create_terminal)
            requests["terminal/output"] = self._terminals.output
            requests["terminal/wait_for_exit"] = self._terminals.wait_for_exit
            requests["terminal/kill"] = self._terminals.kill
            requests["terminal/release"] = self._terminals.release
        return RpcHandlers(
            requests,
            {"session/update": self._on_update},
            on_unknown_answer=self._warn_of_unknown_answer,
        )

    def _counting(self, handler: RequestHandler) -> RequestHandler:
        """Wrap a handler so that each request counts as activity of the turn."""

        async def serve(params: object) -> object:
            self._requests_served += 1
            return await handler(params)

        return serve

    def _warn_of_unknown_answer(self) -> None:
        """Write a warning to the running turn, once: the answer may be meant to end it."""
        turn = self._turn
        if turn is not None and turn != self._warned_turn:
            self._warned_turn = turn
            with suppress(OutputTooLarge):
                self._context.write(turn, "warning", {"text": _UNKNOWN_ANSWER})

    def _end_turn_for(self, error: OutputTooLarge) -> None:
        if self.session is not None:
            self.session.end_turn_for(error)

    async def _wait_adopted(self) -> None:
        if self.session is not None:
            await self.session.wait_adopted()

    async def _wait_cancel_sent(self) -> None:
        if self.session is not None:
            await self.session.wait_cancel_sent()

    async def _create_terminal(self, params: object) -> object:
        return await self._terminals.create(params, turn=self._turn)

    async def _on_update(self, params: object) -> None:
        if self.session is not None:
            await self.session.on_update(self.updates.routed(params))
            if _update_kind(params) in _CHOICE_UPDATES:
                event = self._changed_choices()
                if event is not None:
                    await self._context.report_when_possible(event)
        elif isinstance(params, dict):
            await self.updates.on_update(params.get("update"))

    def kill_agent(self, why: str) -> None:
        """Kill the process and keep the reason, which becomes the failure of the agent."""
        self.kill_reason = why
        self._process.kill()


# The updates with which an agent reports that it has changed its mode or an option.
_CHOICE_UPDATES: Final = frozenset({"current_mode_update", "config_option_update"})


def _update_kind(params: object) -> object:
    return as_name(as_mapping(as_mapping(params).get("update")).get("sessionUpdate"))


def _choices(status: AgentStatus) -> dict[str, object]:
    """Return the choices for users, without the context use, which changes with each update."""
    choices: dict[str, object] = {
        "mode": status.mode,
        "modes": list(status.modes),
        "config_options": list(status.config_options),
        "commands": list(status.commands),
    }
    return {name: choice for name, choice in choices.items() if choice}


async def _no_further_check(_: ProcessIdentity) -> None:
    """Do nothing: `RecordedProcesses` has recorded the process already."""
