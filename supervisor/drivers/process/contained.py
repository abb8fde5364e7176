"""Processes for real: each one under a guardian of its own (see `guardian`).

Rule 1: whatever begins here ends here. The block is left when nothing of the process is alive, or
        the time for that is over and it was said who is; pipes, tasks and the guardian go with it.
Rule 2: we signal nobody but our own guardian. It signals those below it, and when it was killed by
        somebody else, what is left is found by its mark (see `sweep`).
"""

# What each method of a port does is said there.
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

from supervisor.drivers.identity import ProcessIdentity, identify

from .launching import encode_launch, launch_failure
from .leftovers.marker import Marker, new_marker
from .leftovers.sweep import kill_marked
from .lifeline import Lifeline, Streams, start_guardian
from .pipes import Tail
from .port import BeforeItRuns, Exit, Launch, LaunchFailed
from .text import readable

logger = logging.getLogger("supervisor")

INPUT_SECONDS: Final = 30.0
START_SECONDS: Final = 10.0
KILL_SECONDS: Final = 2.0
TAIL_BYTES: Final = 16384
MAX_STARTS_AT_ONCE: Final = 4


@attrs.frozen
class Signalled:
    """A signal that was sent for a containment: to a process, or to a group if `pid` is below 0."""

    number: int
    pid: int
    agent: ProcessIdentity | None


class ContainedProcesses:
    """See `port.Processes`; `on_signal` hears of signals that were sent, the first 250 of each."""

    def __init__(
        self,
        *,
        input_seconds: float = INPUT_SECONDS,
        start_seconds: float = START_SECONDS,
        kill_seconds: float = KILL_SECONDS,
        tail_bytes: int = TAIL_BYTES,
        on_signal: Callable[[Signalled], None] = lambda _: None,
    ) -> None:
        self.input_seconds = input_seconds
        self.start_seconds = start_seconds
        self.kill_seconds = kill_seconds
        self.tail_bytes = tail_bytes
        self.on_signal = on_signal
        self._starts = trio.CapacityLimiter(MAX_STARTS_AT_ONCE)

    @asynccontextmanager
    @enable_ki_protection
    async def open(
        self, launch: Launch, *, before_it_runs: BeforeItRuns
    ) -> AsyncIterator[ContainedProcess]:
        """See `port.Processes`. What the block raises is raised bare."""
        lifeline, streams = await start_guardian(limiter=self._starts)
        process = ContainedProcess(self, launch, lifeline, streams)
        failure: BaseException | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.listen)
            nursery.start_soon(process.drain)
            try:
                await process.begin(before_it_runs)
                yield process
            except BaseException as error:  # noqa: BLE001 - raised again, bare, below
                failure = error
            await process.end()
        if failure is not None:
            raise failure


class ContainedProcess:
    """See `port.Process`."""

    def __init__(
        self, terms: ContainedProcesses, launch: Launch, lifeline: Lifeline, streams: Streams
    ) -> None:
        self._terms = terms
        self._launch = launch
        self._lifeline = lifeline
        self._streams = streams
        self._tail = Tail(streams.stderr, max_bytes=terms.tail_bytes)
        self._marker: Marker = new_marker(lifeline.identity())
        self._identity: ProcessIdentity | None = None
        self._pid: int | None = None
        self._ran = False
        self._failure: tuple[int, str] | None = None
        self._exit: Exit | None = None
        self._left: tuple[int, ...] = ()
        # Each is set when that is known, or when nobody is left who could say it.
        self._is_there = trio.Event()
        self._has_begun = trio.Event()
        self._has_ended = trio.Event()
        # Invariant: set last, when nothing is left, or nothing more is done about what is.
        self._is_gone = trio.Event()
        self._listening = trio.CancelScope(shield=True)
        self._draining = trio.CancelScope(shield=True)

    # For the driver ---------------------------------------------------------------------

    @property
    def identity(self) -> ProcessIdentity:
        assert self._identity is not None  # nobody gets to see it before
        return self._identity

    async def send(self, data: bytes) -> None:
        await self._streams.stdin.send(data, within_seconds=self._terms.input_seconds)

    async def receive(self) -> bytes:
        return await self._streams.stdout.receive()

    def close_input(self) -> None:
        self._streams.stdin.close()

    def interrupt(self) -> None:
        self._lifeline.order("interrupt")

    def terminate(self) -> None:
        self._lifeline.order("terminate")

    def kill(self) -> None:
        self._lifeline.order("kill")

    async def wait(self) -> Exit:
        await self._has_ended.wait()
        assert self._exit is not None
        return self._exit

    async def wait_gone(self, seconds: float) -> tuple[int, ...]:
        with trio.move_on_after(seconds):
            await self._is_gone.wait()
            return self._left
        return self._who_is_left()

    def stderr_tail(self) -> str:
        return readable(self._tail.read())

    # For the block ----------------------------------------------------------------------

    async def begin(self, before_it_runs: BeforeItRuns) -> None:
        """Have the agent there, then on record, then running; raises `LaunchFailed`."""
        seconds = self._terms.start_seconds
        order = encode_launch(self._launch, self._marker)
        with trio.move_on_after(seconds):
            await self._lifeline.send(order, within_seconds=seconds)
            await self._is_there.wait()
        if self._pid is None:
            raise self._why_not()
        self._identity = identify(self._pid) or _unknown(self._pid)
        if self._identity is None:
            raise LaunchFailed("somebody has killed it before it ran")
        await before_it_runs(self._identity)
        self._lifeline.order("go")
        with trio.move_on_after(seconds):
            await self._has_begun.wait()
        if not self._ran:
            raise self._why_not()

    def _why_not(self) -> LaunchFailed:
        if self._failure is not None:
            return launch_failure(self._launch, *self._failure)
        if self._has_ended.is_set():
            return LaunchFailed("its guardian has died before it ran")
        return LaunchFailed(f"its guardian was not ready in {self._terms.start_seconds} s")

    @enable_ki_protection
    async def listen(self) -> None:
        """Hear the guardian out; if it ends before its time, see to what it has left."""
        with self._listening:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._lifeline.keep_awake)
                await self._lifeline.listen(self._hear)
                nursery.cancel_scope.cancel(reason="the guardian is no more")
            if not self._is_gone.is_set():
                await self._take_over()

    @enable_ki_protection
    async def drain(self) -> None:
        """Read what it writes to standard error, always."""
        with self._draining:
            await self._tail.drain()

    async def end(self) -> None:
        """Kill what is left, see to it within the bound, and let go of everything.

        A guardian that cannot do it in its time is killed, and then it is done without one.
        """
        with trio.move_on_after(self._terms.kill_seconds, shield=True):
            self._lifeline.cut()
            await self._is_gone.wait()
        with trio.move_on_after(2 * self._terms.kill_seconds, shield=True):
            await self._lifeline.end()
            await self._is_gone.wait()
        for pid in self._who_is_left():
            logger.error("process %d could not be killed", pid)
        self._listening.cancel(reason="the process is over")
        self._draining.cancel(reason="the process is over")
        self._streams.close()

    # What the guardian says -------------------------------------------------------------

    def _hear(self, line: str) -> None:
        word, *rest = line.split(" ")
        match word, rest:
            case "agent", [pid]:
                self._pid = int(pid)
                self._is_there.set()
            case "running", []:
                self._ran = True
                self._has_begun.set()
            case "failed", [number, what]:
                self._failure = (int(number), what)
                self._is_there.set()
                self._has_begun.set()
            case "exited", [code]:
                self._end_with(_exit(int(code)))
            case "signal", [number, *pids]:
                for pid in pids:
                    self._note(int(number), int(pid))
            case "left", pids:
                self._left = tuple(map(int, pids))
                self._streams.give_up()
            case "gone", []:
                self._left = ()
                self._end_with(_exit(None))
                self._is_gone.set()
            case _:
                logger.error("a guardian says: %s", line)

    def _end_with(self, how: Exit) -> None:
        """The first to say how it ended is right."""
        self._exit = self._exit or how
        self._is_there.set()
        self._has_begun.set()
        self._has_ended.set()

    async def _take_over(self) -> None:
        """The guardian was killed: everything that it has guarded goes, as far as it is found."""
        self._end_with(Exit(None, guarded=False))
        if self._identity is not None:
            logger.error("the guardian of process %d is dead", self._identity.pid)
            left = await kill_marked(
                self._marker,
                self._identity,
                within_seconds=self._terms.kill_seconds,
                on_kill=lambda one: self._note(signal.SIGKILL, one.pid),
            )
            self._left = tuple(one.pid for one in left)
        self._streams.give_up()
        self._is_gone.set()

    def _note(self, number: int, pid: int) -> None:
        self._terms.on_signal(Signalled(number, pid, self._identity))

    def _who_is_left(self) -> tuple[int, ...]:
        if self._left or self._is_gone.is_set():
            return self._left
        return () if self._pid is None else (self._pid,)


def _exit(code: int | None) -> Exit:
    if code is not None and code < 0:
        return Exit(None, signal=-code)
    return Exit(code)


def _unknown(pid: int) -> ProcessIdentity | None:
    """For where nobody can be identified; nobody is ever taken for this one, and killed."""
    return None if identify(os.getpid()) else ProcessIdentity(pid, 0, "")
