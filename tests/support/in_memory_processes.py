"""Scripted agents in memory that implement the process port, on the clock of the test.

They speak the same protocol as real processes. What only a kernel can do is simulated: a fork is a
number, SIGSTOP a pause, and a pipe is full above a limit. `signals` lists the signals sent, and
`wire` all lines with their senders.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Final, Literal, Protocol, TypeAlias

import trio

from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.process.processes import (
    BeforeExec,
    Launch,
    LaunchFailed,
    ProcessExit,
)
from supervisor.drivers.scripted import MemoryConversations, ProcessAction, ScriptedAgent, parse
from supervisor.json_rpc.rpc_outbox import InputClosed, InputStuck

from .fake_command import PLAY, FakeCommand

# Above all real pids, so that a signal sent to it by mistake reaches no process.
FIRST_PID: Final = 2**22 + 1
MODULE: Final = "supervisor.drivers.scripted"
# The capacity of a pipe, and the timeouts for a full pipe and for a kill.
PIPE_BYTES: Final = 65_536
INPUT_SECONDS: Final = 30.0
KILL_SECONDS: Final = 2.0

Side: TypeAlias = Literal["client", "agent"]


class Agent(Protocol):
    """The program of a process, without the process; `ScriptedAgent` is one."""

    @property
    def overlaps(self) -> int: ...
    def tick(self, now: float) -> None: ...
    def receive_line(self, line: bytes) -> None: ...
    def receive_eof(self) -> None: ...
    def action_done(self, action: ProcessAction, output: str = "") -> None: ...
    def take_output(self) -> list[bytes]: ...
    def take_actions(self) -> list[ProcessAction]: ...
    def next_deadline(self) -> float | None: ...


class InMemoryProcesses:
    """`Processes` in memory.

    `make_agent` may make other agents than the command selects. With `are_immortal` a kill has no
    effect: only `die` ends a process.
    """

    def __init__(
        self, make_agent: Callable[[Launch], Agent] | None = None, *, are_immortal: bool = False
    ) -> None:
        self.saved = MemoryConversations()
        self.all: list[InMemoryProcess] = []
        self.signals: list[tuple[int, str]] = []
        # The largest number of processes at one time.
        self.most_alive = 0
        # Called with every line as it is written.
        self.on_line: Callable[[InMemoryProcess, Side, bytes], None] = lambda *_: None
        self._pids = count(FIRST_PID)
        self._make_agent = make_agent or self._scripted
        self._are_immortal = are_immortal

    @property
    def alive(self) -> list[InMemoryProcess]:
        return [process for process in self.all if not process.gone.is_set()]

    @property
    def overlaps(self) -> int:
        """The number of prompts that reached an agent with a running turn."""
        return sum(process.agent.overlaps for process in self.all)

    def is_alive(self, identity: ProcessIdentity) -> bool:
        """Return True if the process is alive; replaces the check of /proc."""
        return any(process.identity == identity for process in self.alive)

    @asynccontextmanager
    async def open(
        self, launch: Launch, *, before_exec: BeforeExec
    ) -> AsyncIterator[InMemoryProcess]:
        await trio.lowlevel.checkpoint()
        agent = self._make_agent(launch)
        process = InMemoryProcess(next(self._pids), agent, self)
        process.is_immortal = self._are_immortal
        await before_exec(process.identity)
        self.all.append(process)
        self.most_alive = max(self.most_alive, len(self.alive))
        failure: BaseException | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.run)
            try:
                yield process
            except BaseException as error:  # noqa: BLE001 - raised again below
                failure = error
            await process.end()
            nursery.cancel_scope.cancel(reason="the block is left")
        if failure is not None:
            raise failure

    def _scripted(self, launch: Launch) -> Agent:
        if launch.command[0] == PLAY:
            return FakeCommand(launch)
        if MODULE not in launch.command:
            raise LaunchFailed(f"unknown program {launch.command[0]}")
        flags = parse(launch.command[launch.command.index(MODULE) + 1 :])
        return ScriptedAgent(flags, saved=self.saved, environment=launch.environment)


class InMemoryProcess:
    """`AgentProcess` in memory."""

    def __init__(self, pid: int, agent: Agent, among: InMemoryProcesses) -> None:
        self.identity = ProcessIdentity(pid, 1, "memory")
        self.agent = agent
        self.gone = trio.Event()
        self.is_immortal = False
        # Every line, in the order in which it was written.
        self.wire: list[tuple[Side, bytes]] = []
        # True if it exited without a signal or the end of its input.
        self.left_by_itself = False
        self._among = among
        self._exit: ProcessExit | None = None
        self.input_bytes = 0
        self._input = bytearray()
        self._output = bytearray()
        self._errors = ""
        self._input_ended = self._reads_no_more = self._output_ended = False
        self._is_stopped = self._was_stopped = False
        self._ignores_term = False
        # The actions not yet performed; while stopped, the first is "stop".
        self._actions: list[ProcessAction] = []
        self._changed = trio.Event()

    # The port -----------------------------------------------------------------------------

    async def send(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(INPUT_SECONDS):
            while len(self._input) >= PIPE_BYTES and not self._is_input_closed:
                await self._changed.wait()
                await trio.lowlevel.checkpoint_if_cancelled()
            if self._is_input_closed:
                raise InputClosed
            self._input += data
            self.input_bytes += len(data)
            for line in data.splitlines():
                self._note("client", line)
            self.rouse()
            return
        self.close_input()
        raise InputStuck

    @property
    def _is_input_closed(self) -> bool:
        return self._input_ended or self._exit is not None

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        while not self._output:
            if self._exit is not None or self._output_ended:
                return b""
            await self._changed.wait()
        data, self._output = bytes(self._output), bytearray()
        self.rouse()
        return data

    def close_input(self) -> None:
        if not self._input_ended:
            self._input_ended = True
            self.rouse()

    def interrupt(self) -> None:
        if self._exit is None:
            self._among.signals.append((self.identity.pid, "interrupt"))
            self._is_stopped = False
            self._leave(ProcessExit(None, 2))

    def terminate(self) -> None:
        if self._exit is None:
            self._among.signals.append((self.identity.pid, "terminate"))
            self._is_stopped = False
            self.rouse()
            if not self._ignores_term and not self.is_immortal:
                self._leave(ProcessExit(None, 15))

    def kill(self) -> None:
        if self._exit is None:
            self._among.signals.append((self.identity.pid, "kill"))
            if not self.is_immortal:
                self._leave(ProcessExit(None, 9))

    async def wait(self) -> ProcessExit:
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

    # For the test -------------------------------------------------------------------------

    def die(self) -> None:
        """End the process, even an immortal one, as by a foreign SIGKILL."""
        self.left_by_itself = self._exit is None
        self._leave(ProcessExit(None, 9))

    @property
    def is_leaving(self) -> bool:
        """True if the process has exited, or one of its pipes was closed, after which it ends."""
        return self._is_input_closed or self._output_ended

    def rouse(self) -> None:
        """Wake all tasks that wait for a change."""
        self._changed.set()

    # The agent ----------------------------------------------------------------------------

    async def run(self) -> None:
        while self._exit is None:
            if self._changed.is_set():
                self._changed = trio.Event()
            if self._is_stopped:
                await self._changed.wait()
                continue
            self._step()
            if self._exit is None and not self._changed.is_set():
                deadline = self.agent.next_deadline()
                with trio.move_on_at(math.inf if deadline is None else deadline):
                    await self._changed.wait()

    async def end(self) -> None:
        """Kill the process, and wait for its end as long as real processes do."""
        self.kill()
        with trio.move_on_after(KILL_SECONDS, shield=True):
            await self.gone.wait()

    def _step(self) -> None:
        agent = self.agent
        agent.tick(trio.current_time())
        self._read()
        while self._write() and (self._actions or self._take_actions()):
            action = self._actions.pop(0)
            if action.kind == "stop" and not self._was_stopped:
                self._actions.insert(0, action)  # it completes when the process is continued
                self._is_stopped = self._was_stopped = True
                return
            self._was_stopped = False
            output = self._perform(action)
            if self._exit is not None:
                return
            agent.action_done(action, output)

    def _take_actions(self) -> bool:
        self._actions = self.agent.take_actions()
        return bool(self._actions)

    def _read(self) -> None:
        was_full = len(self._input) >= PIPE_BYTES
        while not self._reads_no_more and b"\n" in self._input:
            line, _, rest = self._input.partition(b"\n")
            self._input = bytearray(rest)
            self.agent.receive_line(bytes(line))
        if was_full and len(self._input) < PIPE_BYTES:
            self.rouse()
        if self._input_ended and not self._reads_no_more:
            self._reads_no_more = True
            self.agent.receive_eof()

    def _write(self) -> bool:
        """Write the agent's output; return False while the pipe is full."""
        if len(self._output) >= PIPE_BYTES:
            return False
        output = self.agent.take_output()
        if output and not self._output_ended:
            for line in output:
                self._note("agent", line)
            self._output += b"".join(output)
            self.rouse()
        return True

    def _perform(self, action: ProcessAction) -> str:
        match action.kind:
            case "exit":
                self.left_by_itself = not self._input_ended
                self._leave(ProcessExit(action.number))
            case "ignore_term":
                self._ignores_term = True
            case "deafen":
                self._reads_no_more = True
            case "close_output":
                self._output_ended = True
                self.rouse()
            case "log":
                self._errors += action.text
            case "mcp":
                return "there are no processes in memory"
        return ""

    def _note(self, side: Side, line: bytes) -> None:
        self.wire.append((side, line))
        self._among.on_line(self, side, line)

    def _leave(self, end: ProcessExit) -> None:
        self._exit = self._exit or end
        self.gone.set()
        self.rouse()
