"""One terminal: a command that runs, or has run, and what it put out."""

from __future__ import annotations

import logging
import signal
from typing import Any, Final

import attrs
import trio

from supervisor.core.ids import TurnId
from supervisor.drivers.process.port import (
    BeforeItRuns,
    Exit,
    Launch,
    LaunchFailed,
    Process,
    Processes,
)

from .output import Output

# What is shown of one in the record of its tool call.
SHOWN_BYTES: Final = 16384
# How long what was killed may take to die, and what has died to let go of its output.
KILL_SECONDS: Final = 2.0
DRAIN_SECONDS: Final = 2.0

logger = logging.getLogger("supervisor")


@attrs.define(eq=False)
class Terminal:
    """One command, and what came of it."""

    id: str
    turn: TurnId | None
    output: Output
    # Around all that it does; cancelled before it runs, it never will.
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    process: Process | None = None
    exit: Exit | None = None
    problem: str | None = None
    # Set when it runs, or it is known that it will not.
    begun: trio.Event = attrs.field(factory=trio.Event)
    # Set when it is over and its output is there, or it was killed and will not die.
    over: trio.Event = attrs.field(factory=trio.Event)

    def kill(self) -> None:
        """End it, and everything it has started."""
        if self.process is None:
            self.scope.cancel(reason="it was killed before it ran")
        elif not self.over.is_set():
            self.process.kill()

    async def run(self, processes: Processes, launch: Launch, before_it_runs: BeforeItRuns) -> None:
        """Run it to its end; what goes wrong with it is its own trouble."""
        try:
            with self.scope:
                async with processes.open(launch, before_it_runs=before_it_runs) as process:
                    self.process = process
                    process.close_input()  # nobody will ever write to it
                    self.begun.set()
                    await self._watch(process)
                    # Said before the block is left, which sees to what it may have left behind.
                    self.over.set()
        except LaunchFailed as error:
            self.problem = str(error)
        except Exception:
            logger.exception("terminal %s failed", self.id)
        finally:
            self.begun.set()
            self.over.set()

    async def _watch(self, process: Process) -> None:
        """Take in what it puts out until it has ended, and then what is still on its way."""
        done = trio.Event()

        async def read() -> None:
            while data := await process.receive():
                self.output.add(data)
            done.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            self.exit = await process.wait()
            with trio.move_on_after(DRAIN_SECONDS):
                await done.wait()
            nursery.cancel_scope.cancel(reason="it is over")
        self.output.end()

    async def end(self) -> None:
        """Kill it, and wait until it is over; bounded."""
        self.kill()
        with trio.move_on_after(KILL_SECONDS):
            await self.over.wait()
        self.over.set()

    def shown(self) -> dict[str, Any]:
        """For people."""
        shown: dict[str, Any] = {"output": self.output.text(SHOWN_BYTES)}
        return shown if self.status is None else {**shown, **self.status}

    @property
    def status(self) -> dict[str, object] | None:
        """How it ended, in the words of the protocol; None while it runs."""
        if not self.over.is_set():
            return None
        if self.exit is None:  # it would not die, or never lived
            return {"exitCode": None, "signal": None}
        return {"exitCode": self.exit.code, "signal": _name_of(self.exit.signal)}


def _name_of(number: int | None) -> str | None:
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
