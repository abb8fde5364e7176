"""Terminals: commands that an agent has us run, each contained by itself.

Rule 1: a terminal is there from its creation until it is released, also when its command is over or
        was killed; its output can be read for as long.
Rule 2: who waits for one keeps nobody else waiting, and is answered also if it is killed or
        released meanwhile.
Rule 3: nothing that runs here outlives the nursery it was given.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import trio

from supervisor.core.ids import TurnId
from supervisor.drivers.acp.reading import as_mapping
from supervisor.drivers.acp.rpc.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    RpcError,
)
from supervisor.drivers.acp.services.asking import Ask, refuse_unless_allowed
from supervisor.drivers.acp.services.grants import Grants
from supervisor.drivers.acp.services.ground import Ground, OffLimits, Pin, Place
from supervisor.drivers.port import Office
from supervisor.drivers.process.port import BeforeItRuns, Processes

from .command import Command, parse_command
from .output import Output
from .terminal import Terminal

MAX_TERMINALS: Final = 16
# Of those that were released, so that the record of a tool call can still show them.
MAX_REMEMBERED: Final = 32
LAUNCH_SECONDS: Final = 30.0


class Terminals:
    """Those of one agent."""

    def __init__(
        self,
        office: Office,
        *,
        processes: Processes,
        nursery: trio.Nursery,
        ask: Ask,
        grants: Grants,
        limiter: trio.CapacityLimiter,
        pin: Pin | None = None,
        environment: Mapping[str, str],
        before_it_runs: BeforeItRuns,
    ) -> None:
        self._office = office
        self._processes = processes
        self._nursery = nursery
        self._ask = ask
        self._grants = grants
        self._limiter = limiter
        self._pin = pin
        self._environment = environment
        self._before_it_runs = before_it_runs
        self._terminals: dict[str, Terminal] = {}
        # Those that are about to be created count too, or many at once would be too many.
        self._coming = 0
        # How often what runs was ended. Who is still asking whether it may run begins no more.
        self._kills = 0
        self._released: OrderedDict[str, dict[str, Any]] = OrderedDict()

    # For the agent ------------------------------------------------------------------------

    async def create(self, params: object, *, turn: TurnId | None) -> dict[str, object]:
        """Serve `terminal/create`: answers when the command runs; raises `RpcError`.

        Cancelled before that, nothing runs.
        """
        command = parse_command(params)
        if len(self._terminals) + self._coming >= MAX_TERMINALS:
            raise RpcError(
                INVALID_PARAMS, f"there are {MAX_TERMINALS} terminals already: release one"
            )
        kills = self._kills
        self._coming += 1
        try:
            place = await self._place_of(command)
            # Who said yes to a command was shown neither another folder nor other variables.
            is_plain = not place.parts and not command.env
            await refuse_unless_allowed(
                self._office,
                self._ask,
                command.facts(place.path),
                granted=is_plain and self._grants.take_command(command.lines),
            )
        finally:
            self._coming -= 1
        if self._kills != kills:
            raise RpcError(INTERNAL_ERROR, "it was ended before it began to run")
        return {"terminalId": await self._launch(command, place.path, turn)}

    async def output(self, params: object) -> dict[str, object]:
        """Serve `terminal/output`."""
        terminal = self._find(params)
        await trio.lowlevel.checkpoint()
        return {
            "output": terminal.output.text(),
            "truncated": terminal.output.is_cut,
            "exitStatus": terminal.status,
        }

    async def wait_for_exit(self, params: object) -> dict[str, object]:
        """Serve `terminal/wait_for_exit`; lasts as long as the command does."""
        terminal = self._find(params)
        await terminal.over.wait()
        return terminal.status or {}

    async def kill(self, params: object) -> dict[str, object]:
        """Serve `terminal/kill`: end the command, and keep the terminal."""
        terminal = self._find(params)
        await terminal.end()
        return {}

    async def release(self, params: object) -> dict[str, object]:
        """Serve `terminal/release`: end the command if it runs, and forget the terminal."""
        terminal = self._find(params)
        del self._terminals[terminal.id]
        await terminal.end()
        self._remember(terminal)
        return {}

    # For tool calls and turns -------------------------------------------------------------

    def is_running(self, terminal_id: str) -> bool:
        """Whether something runs in it."""
        terminal = self._terminals.get(terminal_id)
        return terminal is not None and not terminal.over.is_set()

    async def cancel(self, terminal_id: str) -> None:
        """End what runs in it, and wait until it is over, or plainly will not be."""
        terminal = self._terminals.get(terminal_id)
        if terminal is not None:
            await terminal.end()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._terminals)

    def kill_turn(self, turn: TurnId) -> None:
        """End what was begun in that turn, which is the one that runs; nothing else is touched."""
        self._kills += 1
        for terminal in self._terminals.values():
            if terminal.turn == turn:
                terminal.kill()

    def kill_all(self) -> None:
        """The agent is over, and so is what it had us run."""
        self._kills += 1
        for terminal in self._terminals.values():
            terminal.kill()

    def shown(self, terminal_id: str) -> Mapping[str, Any] | None:
        """What has come out of it, and how it ended; None if it was never there, or long ago."""
        terminal = self._terminals.get(terminal_id)
        return self._released.get(terminal_id) if terminal is None else terminal.shown()

    # Inside -------------------------------------------------------------------------------

    def _find(self, params: object) -> Terminal:
        terminal_id = as_mapping(params).get("terminalId")
        terminal = self._terminals.get(terminal_id) if isinstance(terminal_id, str) else None
        if terminal is None:
            raise RpcError(RESOURCE_NOT_FOUND, "there is no such terminal")
        return terminal

    async def _place_of(self, command: Command) -> Place:
        """Where it is to run; raises `RpcError`."""
        ground = Ground.of(self._office, self._pin)
        if ground is None:
            raise RpcError(INVALID_PARAMS, "there is no workspace here")
        try:
            return await trio.to_thread.run_sync(
                ground.place,
                command.cwd or ground.workspace,
                limiter=self._limiter,
                abandon_on_cancel=True,
            )
        except (OffLimits, OSError, ValueError):
            raise RpcError(INVALID_PARAMS, "cwd is not in the workspace") from None

    async def _launch(self, command: Command, cwd: str, turn: TurnId | None) -> str:
        terminal = Terminal(self._office.new_id("term"), turn, Output(command.max_output_bytes))
        # Known before it runs, so that whoever kills all that runs does not miss it.
        self._terminals[terminal.id] = terminal
        launch = command.launch(cwd, self._environment)
        self._nursery.start_soon(
            terminal.run, self._processes, launch, self._before_it_runs, name=terminal.id
        )
        try:
            with trio.move_on_after(LAUNCH_SECONDS):
                await terminal.begun.wait()
        except BaseException:
            self._drop(terminal)
            raise
        if terminal.process is None:
            self._drop(terminal)
            raise RpcError(INTERNAL_ERROR, terminal.problem or "the command did not begin to run")
        return terminal.id

    def _drop(self, terminal: Terminal) -> None:
        """Nobody will ever know its name, so nobody could end it."""
        terminal.scope.cancel(reason="nobody waits for it to begin")
        del self._terminals[terminal.id]

    def _remember(self, terminal: Terminal) -> None:
        self._released[terminal.id] = terminal.shown()
        while len(self._released) > MAX_REMEMBERED:
            self._released.popitem(last=False)
