"""Fake processes: a test plans what they do, and inspects what was done to them.

    processes = FakeProcesses()
    processes.plan(Play(output=[b"hi"], exits=ProcessExit(0)))  # for the next launch
    async with processes.open(launch, before_exec=accept_process) as process: ...
    processes.last.say(b"more"); processes.last.leave(ProcessExit(1)); processes.last.signals

Without a plan a process writes nothing and runs until it is killed.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs
import trio

from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.process.processes import (
    AgentProcess,
    BeforeExec,
    Launch,
    LaunchFailed,
    ProcessExit,
)
from supervisor.json_rpc.rpc_outbox import InputClosed, InputStuck

FIRST_PID = 1000
STUCK_SECONDS = 5.0


async def accept_process(_: ProcessIdentity) -> None:
    await trio.lowlevel.checkpoint()


@attrs.frozen(kw_only=True)
class ProcessBehaviour:
    """The behaviour of a fake process.

    With `exits` it exits right after its output; otherwise it does not exit by itself. `answers`
    maps each chunk of its input to its output. `heeds` are the signals, and the end of its input
    ("close"), that end it; a kill always does, unless it is `unkillable`. With `holds_output` its
    children outlive it and keep its output open.
    """

    output: tuple[bytes, ...] = ()
    exits: ProcessExit | None = None
    answers: Callable[[bytes], bytes] | None = None
    heeds: frozenset[str] = frozenset({"close", "interrupt", "terminate"})
    reads: bool = True
    unkillable: bool = False
    holds_output: bool = False
    launch_seconds: float = 0.0
    fails: str | None = None
    stderr: str = ""


class FakeProcess:
    """`AgentProcess` without a process."""

    def __init__(self, launch: Launch, play: ProcessBehaviour, pid: int) -> None:
        self.launch = launch
        self.play = play
        self.identity = ProcessIdentity(pid, pid * 10, "boot")
        # What was done to the process, in order.
        self.signals: list[str] = []
        self.sent = b""
        self.is_input_closed = False
        self.exit: ProcessExit | None = None
        self._output: deque[bytes] = deque(play.output)
        self._is_silent = False
        self._changed = trio.lowlevel.ParkingLot()

    # For the test -------------------------------------------------------------------------

    @property
    def is_alive(self) -> bool:
        return self.exit is None

    def say(self, data: bytes) -> None:
        """Write to standard output."""
        self._output.append(data)
        self._changed.unpark_all()

    def leave(self, end: ProcessExit) -> None:
        """Exit, if it has not yet; its children may still hold its output."""
        if self.exit is None:
            self.exit = end
            self._is_silent = not self.play.holds_output
            self._changed.unpark_all()

    # For the driver -----------------------------------------------------------------------

    @property
    def input_bytes(self) -> int:
        return len(self.sent)

    async def send(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if self.is_input_closed or not self.is_alive:
            raise InputClosed
        if not self.play.reads:
            await trio.sleep(STUCK_SECONDS)
            raise InputStuck
        self.sent += data
        if self.play.answers is not None:
            self.say(self.play.answers(data))

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        while not self._output:
            if self._is_silent:
                return b""
            await self._changed.park()
        return self._output.popleft()

    def close_input(self) -> None:
        if not self.is_input_closed:
            self.is_input_closed = True
            self.signals.append("close")
            if "close" in self.play.heeds and self.play.answers is not None:
                self.leave(ProcessExit(0))  # a process that reads sees the end of its input

    def interrupt(self) -> None:
        self.signals.append("interrupt")
        if "interrupt" in self.play.heeds:
            self.leave(ProcessExit(None, signal.SIGINT))

    def terminate(self) -> None:
        self.signals.append("terminate")
        if "terminate" in self.play.heeds:
            self.leave(ProcessExit(None, signal.SIGTERM))

    def kill(self) -> None:
        self.signals.append("kill")
        if not self.play.unkillable:
            self.leave(ProcessExit(None, signal.SIGKILL))

    async def wait(self) -> ProcessExit:
        await trio.lowlevel.checkpoint()
        while self.exit is None:
            await self._changed.park()
        return self.exit

    async def wait_gone(self, seconds: float) -> tuple[int, ...]:
        with trio.move_on_after(seconds):
            await self.wait()
            return ()
        return (self.identity.pid,)

    def stderr_tail(self) -> str:
        return self.play.stderr


class FakeProcesses:
    """`Processes` with fake processes; `launches` are all launches, `all` all processes."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.all: list[FakeProcess] = []
        self._plans: deque[ProcessBehaviour] = deque()

    def plan(self, *plays: ProcessBehaviour) -> None:
        """Set the behaviour of the next processes, in order."""
        self._plans += plays

    @property
    def last(self) -> FakeProcess:
        return self.all[-1]

    @property
    def alive(self) -> list[FakeProcess]:
        return [process for process in self.all if process.is_alive]

    def open(
        self, launch: Launch, *, before_exec: BeforeExec
    ) -> AbstractAsyncContextManager[AgentProcess]:
        return self._open(launch, before_exec)

    @asynccontextmanager
    async def _open(self, launch: Launch, before_exec: BeforeExec) -> AsyncIterator[AgentProcess]:
        play = self._plans.popleft() if self._plans else ProcessBehaviour()
        self.launches.append(launch)
        await trio.sleep(play.launch_seconds)
        if play.fails is not None:
            raise LaunchFailed(play.fails)
        process = FakeProcess(launch, play, FIRST_PID + len(self.all))
        await before_exec(process.identity)
        self.all.append(process)
        if play.exits is not None:
            process.leave(play.exits)
        try:
            yield process
        finally:
            if process.is_alive:
                process.kill()
