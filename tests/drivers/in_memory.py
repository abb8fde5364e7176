"""Agent processes without processes: scripted agents in memory, on whatever clock the test has.

They speak the same protocol over the same port as real ones. What only a kernel can do is played:
a fork is a number, SIGSTOP a silence. `signals` says who was sent what.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.process.port import (
    BeforeItRuns,
    Exit,
    InputClosed,
    Launch,
    LaunchFailed,
)
from supervisor.drivers.scripted import MemoryShelf, ScriptedAgent, Want, parse

# No process of this machine has it, so whoever signals it for real hits nobody.
FIRST_PID: Final = 2**22 + 1
MODULE: Final = "supervisor.drivers.scripted"


class InMemoryProcesses:
    """See `process.port.Processes`."""

    def __init__(self) -> None:
        self.shelf = MemoryShelf()
        self.all: list[InMemoryProcess] = []
        self.signals: list[tuple[int, str]] = []

    @property
    def alive(self) -> list[InMemoryProcess]:
        return [process for process in self.all if not process.gone.is_set()]

    @property
    def overlaps(self) -> int:
        """How many prompts have reached an agent that was busy."""
        return sum(process.agent.overlaps for process in self.all)

    @asynccontextmanager
    async def open(
        self, launch: Launch, *, before_it_runs: BeforeItRuns
    ) -> AsyncIterator[InMemoryProcess]:
        await trio.lowlevel.checkpoint()
        if MODULE not in launch.command:
            raise LaunchFailed(f"there is no program {launch.command[0]}")
        flags = parse(launch.command[launch.command.index(MODULE) + 1 :])
        agent = ScriptedAgent(flags, shelf=self.shelf, environment=launch.environment)
        process = InMemoryProcess(FIRST_PID + len(self.all), agent, self.signals)
        await before_it_runs(process.identity)
        self.all.append(process)
        failure: BaseException | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.run)
            try:
                yield process
            except BaseException as error:  # noqa: BLE001 - raised again, bare
                failure = error
            process.kill()
        if failure is not None:
            raise failure


class InMemoryProcess:
    """See `process.port.Process`."""

    def __init__(self, pid: int, agent: ScriptedAgent, signals: list[tuple[int, str]]) -> None:
        self.identity = ProcessIdentity(pid, 1, "memory")
        self.agent = agent
        self.gone = trio.Event()
        self._signals = signals
        self._exit: Exit | None = None
        self._input = bytearray()
        self._output = bytearray()
        self._errors = ""
        self._input_ended = self._reads_no_more = self._is_stopped = self._output_ended = False
        self._ignores_term = False
        self._changed = trio.Event()

    # The port -----------------------------------------------------------------------------

    async def send(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if self._input_ended or self._exit is not None:
            raise InputClosed
        self._input += data
        self._rouse()

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        while not self._output:
            if self._exit is not None or self._output_ended:
                return b""
            await self._changed.wait()
        data, self._output = bytes(self._output), bytearray()
        return data

    def close_input(self) -> None:
        if not self._input_ended:
            self._input_ended = True
            self._rouse()

    def terminate(self) -> None:
        if self._exit is None:
            self._signals.append((self.identity.pid, "terminate"))
            self._is_stopped = False
            if not self._ignores_term:
                self._leave(Exit(None, 15))

    def kill(self) -> None:
        if self._exit is None:
            self._signals.append((self.identity.pid, "kill"))
            self._leave(Exit(None, 9))

    async def wait(self) -> Exit:
        await self.gone.wait()
        assert self._exit is not None
        return self._exit

    async def wait_gone(self, seconds: float) -> tuple[int, ...]:
        with trio.move_on_after(seconds):
            await self.gone.wait()
            return ()
        return (self.identity.pid,)

    def stderr_tail(self) -> str:
        return self._errors

    # The agent ----------------------------------------------------------------------------

    async def run(self) -> None:
        while self._exit is None:
            self._changed = trio.Event()
            if self._is_stopped:
                await self._changed.wait()
                continue
            self._step()
            if self._exit is None and not self._changed.is_set():
                deadline = self.agent.next_deadline()
                with trio.move_on_at(math.inf if deadline is None else deadline):
                    await self._changed.wait()

    def _step(self) -> None:
        agent = self.agent
        agent.tick(trio.current_time())
        while not self._reads_no_more and b"\n" in self._input:
            line, _, rest = self._input.partition(b"\n")
            self._input = bytearray(rest)
            agent.hear(bytes(line))
        if self._input_ended and not self._reads_no_more:
            self._reads_no_more = True
            agent.hear_end()
        self._write()
        while self._exit is None and not self._is_stopped and (wants := agent.take_wants()):
            for want in wants:
                said = self._perform(want)
                if self._exit is not None:
                    return
                agent.done(want, said)
            self._write()

    def _write(self) -> None:
        said = b"".join(self.agent.take_output())
        if said and not self._output_ended:
            self._output += said
            self._rouse()

    def _perform(self, want: Want) -> str:
        match want.do:
            case "exit":
                self._write()
                self._leave(Exit(want.number))
            case "stop":
                self._is_stopped = True
            case "ignore_term":
                self._ignores_term = True
            case "deafen":
                self._reads_no_more = True
            case "close_output":
                self._output_ended = True
                self._rouse()
            case "log":
                self._errors += want.text
        return ""

    def _leave(self, how: Exit) -> None:
        self._exit = how
        self.gone.set()
        self._rouse()

    def _rouse(self) -> None:
        self._changed.set()
