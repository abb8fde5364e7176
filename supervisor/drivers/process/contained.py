"""Processes that run under a guardian each (see `guardian`).

Rule 1: the block of `open` ends when the process and its descendants are dead, or when the time
        for that is over and the survivors are logged. Pipes, tasks and the guardian end with it.
Rule 2: we signal only our own guardian. The guardian signals its descendants. If the guardian was
        killed, its containment is found by the marker and killed (see `orphans`).
"""

# The port documents its methods.
# ruff: noqa: D102

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio
from trio.lowlevel import enable_ki_protection
from trio_util import run_and_cancelling

from supervisor.core.log_content import Content
from supervisor.core.text import decode_printable
from supervisor.drivers.identity import ProcessIdentity, identify

from .environment import Marker, new_marker
from .fork_server import ForkServer, open_fork_server
from .guardian_client import (
    AgentStreams,
    GuardianClient,
    encode_launch,
    launch_failure,
    start_guardian,
)
from .orphans import kill_containment
from .pipes import OutputTail
from .processes import BeforeExec, Launch, LaunchFailed, ProcessExit

logger = logging.getLogger("supervisor")

INPUT_SECONDS: Final = 30.0
START_SECONDS: Final = 10.0
KILL_SECONDS: Final = 2.0
TAIL_BYTES: Final = 16384
MAX_STARTS_AT_ONCE: Final = 4


@attrs.frozen
class SentSignal:
    """A signal sent within a containment: to a process, or to a group if `pid` is negative."""

    number: int
    pid: int
    agent: ProcessIdentity | None


class ContainedProcesses:
    """`processes.Processes` with guardians; `on_signal` gets the first 250 signals of each."""

    def __init__(
        self,
        server: ForkServer,
        *,
        input_seconds: float = INPUT_SECONDS,
        start_seconds: float = START_SECONDS,
        kill_seconds: float = KILL_SECONDS,
        tail_bytes: int = TAIL_BYTES,
        on_signal: Callable[[SentSignal], None] = lambda _: None,
    ) -> None:
        self._server = server
        self.input_seconds = input_seconds
        self.start_seconds = start_seconds
        self.kill_seconds = kill_seconds
        self.tail_bytes = tail_bytes
        self.on_signal = on_signal
        self._starts = trio.CapacityLimiter(MAX_STARTS_AT_ONCE)

    @asynccontextmanager
    @enable_ki_protection
    async def open(
        self, launch: Launch, *, before_exec: BeforeExec
    ) -> AsyncIterator[ContainedProcess]:
        """Run the program under a guardian for the duration of the block; see `Processes.open`.

        An exception of the block is raised without an exception group.
        """
        async with self._starts:
            guardian_client, streams = await start_guardian(
                self._server, within_seconds=self.start_seconds
            )
        process = ContainedProcess(self, launch, guardian_client, streams)
        failure: BaseException | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.listen)
            nursery.start_soon(process.drain)
            try:
                await process.start(before_exec)
                yield process
            except BaseException as error:  # noqa: BLE001 - raised again below, outside the nursery
                failure = error
            await process.end()
        if failure is not None:
            raise failure


@asynccontextmanager
async def open_processes() -> AsyncIterator[ContainedProcesses]:
    """Yield contained processes; all of them have to be over at the end of the block."""
    async with open_fork_server() as server:
        yield ContainedProcesses(server)


class ContainedProcess:
    """`processes.AgentProcess` under a guardian."""

    def __init__(
        self,
        settings: ContainedProcesses,
        launch: Launch,
        guardian_client: GuardianClient,
        streams: AgentStreams,
    ) -> None:
        self._settings = settings
        self._launch = launch
        self._guardian_client = guardian_client
        self._streams = streams
        self._tail = OutputTail(streams.stderr, max_bytes=settings.tail_bytes)
        self._marker: Marker = new_marker(guardian_client.identity())
        self._identity: ProcessIdentity | None = None
        self._pid: int | None = None
        self._has_started = False
        self._failure: tuple[int, str] | None = None
        self._exit: ProcessExit | None = None
        self._survivor_pids: tuple[int, ...] = ()
        # Each is set when the guardian has reported it, or when the guardian has ended.
        self._forked = trio.Event()
        self._exec_known = trio.Event()
        self._exited = trio.Event()
        # Invariant: set last, when no process is left, or the survivors are given up.
        self._all_exited = trio.Event()
        self._listen_scope = trio.CancelScope(shield=True)
        self._drain_scope = trio.CancelScope(shield=True)

    # For the driver ---------------------------------------------------------------------

    @property
    def identity(self) -> ProcessIdentity:
        assert self._identity is not None  # set before the process is yielded
        return self._identity

    @property
    def input_bytes(self) -> int:
        return self._streams.stdin.written_bytes

    async def send(self, data: bytes) -> None:
        await self._streams.stdin.send(data, within_seconds=self._settings.input_seconds)

    async def receive(self) -> bytes:
        return await self._streams.stdout.receive()

    def close_input(self) -> None:
        self._streams.stdin.close()

    def interrupt(self) -> None:
        self._guardian_client.send_command("interrupt")

    def terminate(self) -> None:
        self._guardian_client.send_command("terminate")

    def kill(self) -> None:
        self._guardian_client.send_command("kill")

    async def wait(self) -> ProcessExit:
        await self._exited.wait()
        assert self._exit is not None
        return self._exit

    async def wait_gone(self, seconds: float) -> tuple[int, ...]:
        with trio.move_on_after(seconds):
            await self._all_exited.wait()
            return self._survivor_pids
        return self._survivors()

    def stderr_tail(self) -> str:
        return decode_printable(self._tail.read())

    # For the block ----------------------------------------------------------------------

    async def start(self, before_exec: BeforeExec) -> None:
        """Fork the agent, call `before_exec`, then execute the program.

        Raise `LaunchFailed` if it fails.
        """
        seconds = self._settings.start_seconds
        request = encode_launch(self._launch, self._marker)
        with trio.move_on_after(seconds):
            await self._guardian_client.send_launch(request, within_seconds=seconds)
            await self._forked.wait()
        if self._pid is None:
            raise self._start_error()
        self._identity = identify(self._pid) or _unverified_identity(self._pid)
        if self._identity is None:
            raise LaunchFailed("the process was killed before it ran")
        await before_exec(self._identity)
        self._guardian_client.send_command("go")
        with trio.move_on_after(seconds):
            await self._exec_known.wait()
        if not self._has_started:
            raise self._start_error()

    def _start_error(self) -> LaunchFailed:
        if self._failure is not None:
            return launch_failure(self._launch, *self._failure)
        if self._exited.is_set():
            return LaunchFailed("its guardian died before it ran")
        return LaunchFailed(f"its guardian was not ready within {self._settings.start_seconds} s")

    @enable_ki_protection
    async def listen(self) -> None:
        """Handle the guardian's reports; if the guardian ends early, kill its containment."""
        with self._listen_scope:
            async with run_and_cancelling(self._guardian_client.send_continue_periodically):
                await self._guardian_client.read_reports(self._on_report)
            if not self._all_exited.is_set():
                await self._kill_without_guardian()

    @enable_ki_protection
    async def drain(self) -> None:
        """Read standard error continuously."""
        with self._drain_scope:
            await self._tail.drain()

    async def end(self) -> None:
        """Kill the remaining processes within a time limit, and release all resources.

        A guardian that does not finish in time is killed, and the remaining processes after it.
        """
        with trio.move_on_after(self._settings.kill_seconds, shield=True):
            self._guardian_client.close_commands()
            await self._all_exited.wait()
        with trio.move_on_after(2 * self._settings.kill_seconds, shield=True):
            await self._guardian_client.kill_and_wait()
            await self._all_exited.wait()
        for pid in self._survivors():
            logger.error("process %d could not be killed", pid)
        self._listen_scope.cancel(reason="the process is over")
        self._drain_scope.cancel(reason="the process is over")
        self._streams.close()

    # Reports of the guardian ------------------------------------------------------------

    def _on_report(self, line: str) -> None:
        word, *rest = line.split(" ")
        match word, rest:
            case "guardian", [_]:
                pass  # its pid is known already
            case "agent", [pid]:
                self._pid = int(pid)
                self._forked.set()
            case "running", []:
                self._has_started = True
                self._exec_known.set()
            case "failed", [number, what]:
                self._failure = (int(number), what)
                self._forked.set()
                self._exec_known.set()
            case "exited", [code]:
                self._set_exit(_exit_from_code(int(code)))
            case "signal", [number, *pids]:
                for pid in pids:
                    self._report_signal(int(number), int(pid))
            case "left", pids:
                self._survivor_pids = tuple(map(int, pids))
                self._streams.stop_waiting()
            case "gone", []:
                self._survivor_pids = ()
                self._set_exit(_exit_from_code(None))
                self._all_exited.set()
            case _:
                shown = " ".join(line.split()[:2])  # its word, and the class of an error
                logger.error("unexpected report from a guardian: %s", Content(line, shown=shown))

    def _set_exit(self, end: ProcessExit) -> None:
        """Store how the process ended; ignore a second call."""
        self._exit = self._exit or end
        self._forked.set()
        self._exec_known.set()
        self._exited.set()

    async def _kill_without_guardian(self) -> None:
        """Kill all processes of the containment that can be found; the guardian was killed."""
        self._set_exit(ProcessExit(None, guarded=False))
        if self._identity is not None:
            logger.error("the guardian of process %d is dead", self._identity.pid)
            left = await kill_containment(
                self._marker,
                self._identity,
                within_seconds=self._settings.kill_seconds,
                on_kill=lambda process: self._report_signal(signal.SIGKILL, process.pid),
            )
            self._survivor_pids = tuple(process.pid for process in left)
        self._streams.stop_waiting()
        self._all_exited.set()

    def _report_signal(self, number: int, pid: int) -> None:
        self._settings.on_signal(SentSignal(number, pid, self._identity))

    def _survivors(self) -> tuple[int, ...]:
        if self._survivor_pids or self._all_exited.is_set():
            return self._survivor_pids
        return () if self._pid is None else (self._pid,)


def _exit_from_code(code: int | None) -> ProcessExit:
    if code is not None and code < 0:
        return ProcessExit(None, signal=-code)
    return ProcessExit(code)


def _unverified_identity(pid: int) -> ProcessIdentity | None:
    """Return an identity that no process matches, on a system without /proc; else None."""
    return None if identify(os.getpid()) else ProcessIdentity(pid, 0, "")
