"""The terminals of one agent: commands that it requests, each a contained and recorded process.

Rule 1: a terminal exists from its creation until its release, even if its command has ended or was
        killed; its output can be read until the release.
Rule 2: a wait for a terminal blocks no other request, and ends also when the terminal is killed or
        released.
Rule 3: no command outlives the nursery passed to `Terminals`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import trio

from supervisor.core.ids import TurnId
from supervisor.core.workspace_root import WorkspaceRoot
from supervisor.drivers.identity import ProcessIdentity, is_alive
from supervisor.drivers.port import DriverContext
from supervisor.drivers.process.processes import AgentProcess, BeforeExec, Launch, Processes
from supervisor.json_rpc.rpc_messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    RpcError,
)

from .content import as_mapping
from .permissions import AskPermission, Grants, check_allowed
from .terminal import Terminal, TerminalCommand, TerminalOutput, parse_command
from .workspace import (
    NotRegularFile,
    OutsideWorkspace,
    ResolvedPath,
    Workspace,
    folder_identity,
)

logger = logging.getLogger("supervisor")


class RecordedProcesses:
    """`Processes` that records each process, and removes the record when the process is dead."""

    def __init__(self, processes: Processes, context: DriverContext) -> None:
        self._processes = processes
        self._context = context

    @asynccontextmanager
    async def open(self, launch: Launch, *, before_exec: BeforeExec) -> AsyncIterator[AgentProcess]:
        """Start a process and record its identity while it runs."""
        recorded: list[ProcessIdentity] = []

        async def record(identity: ProcessIdentity) -> None:
            recorded.append(identity)
            await self._context.record_process(identity)
            await before_exec(identity)

        try:
            async with self._processes.open(launch, before_exec=record) as process:
                yield process
        finally:
            for identity in recorded:
                self._forget(identity)

    def _forget(self, identity: ProcessIdentity) -> None:
        if is_alive(identity):
            # It stays recorded: the next start kills it as an orphan.
            logger.error("process %d was sent SIGKILL and is still alive", identity.pid)
        else:
            self._context.forget_process(identity)


MAX_TERMINALS: Final = 16
# Released terminals kept for the record of their tool call.
MAX_REMEMBERED: Final = 32

LAUNCH_SECONDS: Final = 30.0


class Terminals:
    """The terminals of one agent."""

    def __init__(
        self,
        context: DriverContext,
        *,
        processes: Processes,
        nursery: trio.Nursery,
        ask: AskPermission,
        grants: Grants,
        limiter: trio.CapacityLimiter,
        workspace_root: WorkspaceRoot | None = None,
        environment: Mapping[str, str],
        before_exec: BeforeExec,
    ) -> None:
        self._context = context
        self._processes = processes
        self._nursery = nursery
        self._ask = ask
        self._grants = grants
        self._limiter = limiter
        self._workspace_root = workspace_root
        self._environment = environment
        self._before_exec = before_exec
        self._terminals: dict[str, Terminal] = {}
        # Terminals being created; they count against MAX_TERMINALS.
        self._creating = 0
        # Counts kill_turn() and kill_all(): a create() that waits for permission meanwhile fails.
        self._kill_count = 0
        self._released: OrderedDict[str, dict[str, Any]] = OrderedDict()

    # For the agent ------------------------------------------------------------------------

    async def create(self, params: object, *, turn: TurnId | None) -> dict[str, object]:
        """Serve `terminal/create`: start the command and return its terminal's id.

        Raise `RpcError` if the params are malformed, or the permissions forbid the command. If
        cancelled before the command runs, no command runs.
        """
        command = parse_command(params)
        if len(self._terminals) + self._creating >= MAX_TERMINALS:
            raise RpcError(INVALID_PARAMS, f"{MAX_TERMINALS} terminals are open: release one first")
        kills = self._kill_count
        self._creating += 1
        try:
            cwd, folder = await self._resolve_cwd(command)
            # A grant covers the command as the question showed it: in the workspace, without env.
            is_plain = not cwd.parts and not command.env
            await check_allowed(
                self._context,
                self._ask,
                command.report(cwd.path),
                granted=is_plain and self._grants.consume_command(command.command_lines),
            )
        finally:
            self._creating -= 1
        if self._kill_count != kills:
            raise RpcError(INTERNAL_ERROR, "the command was killed before it started")
        # The permission may have taken long: the guardian checks that it is the same folder still.
        launch = attrs.evolve(command.launch(cwd.path, self._environment), folder=folder)
        return {"terminalId": await self._launch(launch, turn, command.max_output_bytes)}

    async def output(self, params: object) -> dict[str, object]:
        """Serve `terminal/output`."""
        terminal = self._find(params)
        await trio.lowlevel.checkpoint()
        return {
            "output": terminal.output.text(),
            "truncated": terminal.output.is_truncated,
            "exitStatus": terminal.status,
        }

    async def wait_for_exit(self, params: object) -> dict[str, object]:
        """Serve `terminal/wait_for_exit`: return when the command has ended."""
        terminal = self._find(params)
        await terminal.ended.wait()
        return terminal.status or {}

    async def kill(self, params: object) -> dict[str, object]:
        """Serve `terminal/kill`: kill the command and keep the terminal."""
        terminal = self._find(params)
        await terminal.kill_and_wait()
        return {}

    async def release(self, params: object) -> dict[str, object]:
        """Serve `terminal/release`: kill the command if it runs and remove the terminal."""
        terminal = self._find(params)
        del self._terminals[terminal.id]
        await terminal.kill_and_wait()
        self._remember(terminal)
        return {}

    # For tool calls and turns -------------------------------------------------------------

    def is_running(self, terminal_id: str) -> bool:
        """Return True if the terminal's command runs."""
        terminal = self._terminals.get(terminal_id)
        return terminal is not None and not terminal.ended.is_set()

    async def cancel(self, terminal_id: str) -> None:
        """Kill the terminal's command and wait, within a bound, until it has ended."""
        terminal = self._terminals.get(terminal_id)
        if terminal is not None:
            await terminal.kill_and_wait()

    @property
    def count(self) -> int:
        """Number of terminals that are not released."""
        return len(self._terminals)

    def kill_turn(self, turn: TurnId) -> None:
        """Kill the commands that were started in this turn, and no others."""
        self._kill_count += 1
        for terminal in self._terminals.values():
            if terminal.turn == turn:
                terminal.kill()

    def kill_all(self) -> None:
        """Kill all commands."""
        self._kill_count += 1
        for terminal in self._terminals.values():
            terminal.kill()

    def describe(self, terminal_id: str) -> Mapping[str, Any] | None:
        """Return output and exit status; None if the terminal is unknown or released long ago."""
        terminal = self._terminals.get(terminal_id)
        return self._released.get(terminal_id) if terminal is None else terminal.describe()

    # Inside -------------------------------------------------------------------------------

    def _find(self, params: object) -> Terminal:
        terminal_id = as_mapping(params).get("terminalId")
        terminal = self._terminals.get(terminal_id) if isinstance(terminal_id, str) else None
        if terminal is None:
            raise RpcError(RESOURCE_NOT_FOUND, "terminalId is not the id of an open terminal")
        return terminal

    async def _resolve_cwd(self, command: TerminalCommand) -> tuple[ResolvedPath, tuple[int, int]]:
        """Return the working directory of a command, with device and inode.

        Raise `RpcError` if it is outside the workspace.
        """
        workspace = Workspace.of(self._context, self._workspace_root)
        if workspace is None:
            raise RpcError(INVALID_PARAMS, "the session has no workspace")

        def resolve() -> tuple[ResolvedPath, tuple[int, int]]:
            path = workspace.resolve(command.cwd or workspace.workspace)
            return path, folder_identity(path)

        try:
            return await trio.to_thread.run_sync(
                resolve, limiter=self._limiter, abandon_on_cancel=True
            )
        except (OutsideWorkspace, NotRegularFile, OSError, ValueError):
            raise RpcError(INVALID_PARAMS, "cwd is not in the workspace") from None

    async def _launch(self, launch: Launch, turn: TurnId | None, max_output_bytes: int) -> str:
        terminal = Terminal(self._context.new_id("term"), turn, TerminalOutput(max_output_bytes))
        # Added before it runs, so that kill_turn() and kill_all() reach it.
        self._terminals[terminal.id] = terminal
        self._nursery.start_soon(
            terminal.run, self._processes, launch, self._before_exec, name=terminal.id
        )
        try:
            with trio.move_on_after(LAUNCH_SECONDS):
                await terminal.started.wait()
        except BaseException:
            self._drop(terminal)
            raise
        if terminal.process is None:
            self._drop(terminal)
            raise RpcError(INTERNAL_ERROR, terminal.problem or "the command did not start")
        return terminal.id

    def _drop(self, terminal: Terminal) -> None:
        """Kill a terminal whose id was never returned to the agent."""
        terminal.scope.cancel(reason="terminal/create failed or was cancelled")
        del self._terminals[terminal.id]

    def _remember(self, terminal: Terminal) -> None:
        self._released[terminal.id] = terminal.describe()
        while len(self._released) > MAX_REMEMBERED:
            self._released.popitem(last=False)
