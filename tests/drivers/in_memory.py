"""Agent processes without processes: scripted agents in memory, on whatever clock the test has.

They speak the same protocol over the same port as real ones. What only a kernel can do is played:
a fork is a number, SIGSTOP a silence, a pipe is full when much is in it. `signals` says who was
sent what, and `wire` what was said, by whom.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Final, Literal, Protocol, TypeAlias

import trio

from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.process.port import (
    BeforeItRuns,
    Exit,
    InputClosed,
    InputStuck,
    Launch,
    LaunchFailed,
)
from supervisor.drivers.scripted import MemoryShelf, ScriptedAgent, Want, parse
from tests.drivers.command_play import PLAY, PlayedCommand

# No process of this machine has it, so whoever signals it for real hits nobody.
FIRST_PID: Final = 2**22 + 1
MODULE: Final = "supervisor.drivers.scripted"
# As much as a pipe holds, how long we wait for one that is full, and for one that is to die.
PIPE_BYTES: Final = 65_536
INPUT_SECONDS: Final = 30.0
KILL_SECONDS: Final = 2.0

Side: TypeAlias = Literal["client", "agent"]


class Agent(Protocol):
    """What a process is, without the process; see `ScriptedAgent`, which is one."""

    @property
    def overlaps(self) -> int: ...
    def tick(self, now: float) -> None: ...
    def hear(self, line: bytes) -> None: ...
    def hear_end(self) -> None: ...
    def done(self, want: Want, said: str = "") -> None: ...
    def take_output(self) -> list[bytes]: ...
    def take_wants(self) -> list[Want]: ...
    def next_deadline(self) -> float | None: ...


class InMemoryProcesses:
    """See `process.port.Processes`.

    `make_agent` may make other agents than the command says. With `are_immortal` not even a kill
    ends one: only `die` does.
    """

    def __init__(
        self, make_agent: Callable[[Launch], Agent] | None = None, *, are_immortal: bool = False
    ) -> None:
        self.shelf = MemoryShelf()
        self.all: list[InMemoryProcess] = []
        self.signals: list[tuple[int, str]] = []
        # How many there were at once, at most.
        self.most_alive = 0
        # Told of every line as it is written.
        self.on_line: Callable[[InMemoryProcess, Side, bytes], None] = lambda *_: None
        self._pids = count(FIRST_PID)
        self._make_agent = make_agent or self._scripted
        self._are_immortal = are_immortal

    @property
    def alive(self) -> list[InMemoryProcess]:
        return [process for process in self.all if not process.gone.is_set()]

    @property
    def overlaps(self) -> int:
        """How many prompts have reached an agent that was busy."""
        return sum(process.agent.overlaps for process in self.all)

    def is_alive(self, identity: ProcessIdentity) -> bool:
        """Instead of a look into /proc."""
        return any(process.identity == identity for process in self.alive)

    @asynccontextmanager
    async def open(
        self, launch: Launch, *, before_it_runs: BeforeItRuns
    ) -> AsyncIterator[InMemoryProcess]:
        await trio.lowlevel.checkpoint()
        agent = self._make_agent(launch)
        process = InMemoryProcess(next(self._pids), agent, self)
        process.is_immortal = self._are_immortal
        await before_it_runs(process.identity)
        self.all.append(process)
        self.most_alive = max(self.most_alive, len(self.alive))
        failure: BaseException | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.run)
            try:
                yield process
            except BaseException as error:  # noqa: BLE001 - raised again, bare
                failure = error
            await process.end()
            nursery.cancel_scope.cancel(reason="the block is left")
        if failure is not None:
            raise failure

    def _scripted(self, launch: Launch) -> Agent:
        if launch.command[0] == PLAY:
            return PlayedCommand(launch)
        if MODULE not in launch.command:
            raise LaunchFailed(f"there is no program {launch.command[0]}")
        flags = parse(launch.command[launch.command.index(MODULE) + 1 :])
        return ScriptedAgent(flags, shelf=self.shelf, environment=launch.environment)


class InMemoryProcess:
    """See `process.port.Process`."""

    def __init__(self, pid: int, agent: Agent, among: InMemoryProcesses) -> None:
        self.identity = ProcessIdentity(pid, 1, "memory")
        self.agent = agent
        self.gone = trio.Event()
        self.is_immortal = False
        # Every line, in the order in which it was written.
        self.wire: list[tuple[Side, bytes]] = []
        # Whether it left, or died, and nobody had told it to.
        self.left_by_itself = False
        self._among = among
        self._exit: Exit | None = None
        self._input = bytearray()
        self._output = bytearray()
        self._errors = ""
        self._input_ended = self._reads_no_more = self._output_ended = False
        self._is_stopped = self._was_stopped = False
        self._ignores_term = False
        # What it is in the middle of while it is stopped.
        self._wants: list[Want] = []
        self._changed = trio.Event()

    # The port -----------------------------------------------------------------------------

    async def send(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(INPUT_SECONDS):
            while len(self._input) >= PIPE_BYTES and not self._is_input_closed:
                await self._changed.wait()
            if self._is_input_closed:
                raise InputClosed
            self._input += data
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
            self._leave(Exit(None, 2))

    def terminate(self) -> None:
        if self._exit is None:
            self._among.signals.append((self.identity.pid, "terminate"))
            self._is_stopped = False
            self.rouse()
            if not self._ignores_term and not self.is_immortal:
                self._leave(Exit(None, 15))

    def kill(self) -> None:
        if self._exit is None:
            self._among.signals.append((self.identity.pid, "kill"))
            if not self.is_immortal:
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

    # For the test -------------------------------------------------------------------------

    def die(self) -> None:
        """At last, or of somebody else's signal."""
        self.left_by_itself = self._exit is None
        self._leave(Exit(None, 9))

    def rouse(self) -> None:
        """Something is different: whoever waits for that looks again."""
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
        """Kill it, and wait for that as long as the real ones do."""
        self.kill()
        with trio.move_on_after(KILL_SECONDS, shield=True):
            await self.gone.wait()

    def _step(self) -> None:
        agent = self.agent
        agent.tick(trio.current_time())
        self._read()
        while self._write() and (self._wants or self._take_wants()):
            want = self._wants.pop(0)
            if want.do == "stop" and not self._was_stopped:
                self._wants.insert(0, want)  # it is done with that when it is continued
                self._is_stopped = self._was_stopped = True
                return
            self._was_stopped = False
            said = self._perform(want)
            if self._exit is not None:
                return
            agent.done(want, said)

    def _take_wants(self) -> bool:
        self._wants = self.agent.take_wants()
        return bool(self._wants)

    def _read(self) -> None:
        was_full = len(self._input) >= PIPE_BYTES
        while not self._reads_no_more and b"\n" in self._input:
            line, _, rest = self._input.partition(b"\n")
            self._input = bytearray(rest)
            self.agent.hear(bytes(line))
        if was_full and len(self._input) < PIPE_BYTES:
            self.rouse()
        if self._input_ended and not self._reads_no_more:
            self._reads_no_more = True
            self.agent.hear_end()

    def _write(self) -> bool:
        """Whether all that it says is written; if not, it goes on when somebody has read."""
        if len(self._output) >= PIPE_BYTES:
            return False
        said = self.agent.take_output()
        if said and not self._output_ended:
            for line in said:
                self._note("agent", line)
            self._output += b"".join(said)
            self.rouse()
        return True

    def _perform(self, want: Want) -> str:
        match want.do:
            case "exit":
                self.left_by_itself = not self._input_ended
                self._leave(Exit(want.number))
            case "ignore_term":
                self._ignores_term = True
            case "deafen":
                self._reads_no_more = True
            case "close_output":
                self._output_ended = True
                self.rouse()
            case "log":
                self._errors += want.text
        return ""

    def _note(self, side: Side, line: bytes) -> None:
        self.wire.append((side, line))
        self._among.on_line(self, side, line)

    def _leave(self, how: Exit) -> None:
        self._exit = self._exit or how
        self.gone.set()
        self.rouse()
