"""One turn of a command: its process, from the wait for room to when nothing of it is left.

Rule 1: the turn's end is reported once, and when it is, the process is gone, or it is said that
        nothing can kill it.
Rule 2: output and prompt flow at the same time: a command may write before it has read.
Rule 3: the conversation has the name that the last turn gave it that did not fail. One that failed
        may have begun nothing that could be gone on with.
"""

from __future__ import annotations

import logging
import signal
import uuid
from contextlib import AsyncExitStack
from typing import Final

import trio
from trio.lowlevel import enable_ki_protection

from supervisor.core import events as ev
from supervisor.core.effects import StartTurn
from supervisor.core.errors import OutputTooLarge, StoreDegraded
from supervisor.core.session import LadderStep
from supervisor.drivers.identity import ProcessIdentity, is_alive
from supervisor.drivers.port import Hindrance, Office, Workshop
from supervisor.drivers.process.health import hindrance_of
from supervisor.drivers.process.port import (
    Exit,
    InputClosed,
    InputStuck,
    LaunchFailed,
    Process,
)
from supervisor.drivers.python import shown_error

from .agent import CommandAgent
from .words import SESSION_ID, has

logger = logging.getLogger("supervisor")

MAX_ERROR_LETTERS: Final = 2000
# So that the name of a conversation is one that every command takes for one, and comes from our
# own ids, which tests can repeat.
_NAMES: Final = uuid.UUID("5d1a3a0c-52f2-4f5e-9d0b-0a6f0b6a7c11")


class Run:
    """See above."""

    def __init__(
        self, agent: CommandAgent, order: StartTurn, office: Office, workshop: Workshop
    ) -> None:
        self.turn = order.turn
        self._agent = agent
        self._order = order
        self._office = office
        self._workshop = workshop
        self._scope = trio.CancelScope()
        self._process: Process | None = None
        # Who is on record as ours.
        self._identity: ProcessIdentity | None = None
        self._output = agent.new_output()
        self._has_output = False
        # Why the turn has failed, if that is known before the process has ended; set once.
        self._problem: str | None = None
        self._is_interrupted = self._is_let_go = False
        self.is_abandoned = self.is_over = False
        self.when_over = trio.Event()

    # Orders -------------------------------------------------------------------------------

    def take_step(self, step: LadderStep) -> None:
        """Have it end: as Ctrl-C does, then by SIGTERM to its group, then by killing everything."""
        if self.is_over:
            return
        self._is_interrupted = True
        if self._process is None:
            self._scope.cancel(reason="the turn was interrupted before its process was there")
            return
        match step:
            case "ask":
                self._process.interrupt()
            case "close":
                self._process.close_input()
            case "terminate":
                self._process.terminate()
            case "kill":
                self._process.kill()

    def abandon(self) -> None:
        """The turn is over, though its process is not; or was not, when that was decided."""
        if self.is_over:
            self._report_end_of_zombie()
        elif not self.is_abandoned:
            self.is_abandoned = True
            pid = None if self._identity is None else self._identity.pid
            whose = f"{self._agent.name} in {self._office.session_id} (process {pid})"
            self._workshop.zombies[self.turn] = whose

    def let_go(self, *, within_seconds: float) -> None:
        """Nobody waits for its end any more: have it end, gently if that is quick."""
        self._is_let_go = True
        if self._process is not None:
            self._process.terminate()
        self._scope.deadline = trio.current_time() + within_seconds

    def hindrance(self) -> Hindrance | None:
        """What keeps it from working."""
        if self._process is not None:
            return hindrance_of(self._process.identity)
        slots = self._workshop.slots
        if not slots.available_tokens:
            return Hindrance("start", f"all {slots.total_tokens} agent processes are taken")
        return Hindrance("start", "its process is starting")

    # The turn -----------------------------------------------------------------------------

    @enable_ki_protection
    async def run(self) -> None:
        """Run it, and report what came of it."""
        how: Exit | None = None
        try:
            with self._scope:
                how = await self._through_process()
        except (LaunchFailed, StoreDegraded) as error:
            self._fail(str(error))
        except Exception as error:
            # Ours, not the command's; but it may not bring anybody else down.
            logger.exception("the driver of %s has failed", self._agent.name)
            self._fail(shown_error(error))
        finally:
            self._forget_process()
            self._workshop.zombies.pop(self.turn, None)
            self.is_over = True
            self.when_over.set()
        if self.is_abandoned:
            self._report_end_of_zombie()
        elif not self._is_let_go:
            self._report_end(how)

    async def _through_process(self) -> Exit:
        workshop, office, order = self._workshop, self._office, self._order
        if not workshop.slots.available_tokens:
            workshop.make_room()
        async with workshop.slots, AsyncExitStack() as starting:
            await starting.enter_async_context(workshop.starting)
            known = office.agent_session_id
            fresh = str(uuid.uuid5(_NAMES, office.new_id("conversation")))
            launch = self._agent.launch(
                office.workspace, prompt=order.text, session_id=known, fresh=fresh
            )
            if order.attachments:
                problem = "attachments are left out: a command is given text only"
                office.write(self.turn, "warning", {"text": problem})
            async with workshop.processes.open(launch, before_it_runs=self._note) as process:
                self._process = process
                await starting.aclose()
                by_word = self._agent.takes_prompt_as_word(known)
                how = await self._converse(process, b"" if by_word else _encoded(order.text))
            if self._may_go_on(how):
                self._name_conversation(known, fresh)
            return how

    async def _converse(self, process: Process, prompt: bytes) -> Exit:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._give, process, prompt)
            await self._read(process)
            how = await process.wait()
            nursery.cancel_scope.cancel(reason="the process is gone")
        await process.wait_gone(self._office.ladder.kill_seconds)
        self._note_failure(how, process)
        return how

    async def _give(self, process: Process, prompt: bytes) -> None:
        """The prompt, and that there is no more; a command that does not want it may end so."""
        try:
            if prompt:
                await process.send(prompt)
        except InputClosed:
            return
        except InputStuck:
            self._fail("it has not read its prompt")
            process.kill()
        process.close_input()

    async def _read(self, process: Process) -> None:
        """All that it writes; what is too much kills it."""
        try:
            while piece := await process.receive():
                self._say(self._output.feed(piece))
                await self._office.wait_for_room()
            self._say(self._output.finish())
            complaint = self._output.complaint()
            if complaint is not None:
                self._office.write(self.turn, "warning", {"text": complaint})
        except OutputTooLarge as error:
            self._fail(shown_error(error))
            process.kill()

    def _say(self, texts: list[str]) -> None:
        for text in texts:
            self._office.write_text(
                self.turn,
                "agent_text",
                text,
                continues=self._has_output and self._output.is_stream,
            )
            self._has_output = True

    # Its end ------------------------------------------------------------------------------

    def _fail(self, problem: str) -> None:
        self._problem = self._problem or problem[:MAX_ERROR_LETTERS]

    def _note_failure(self, how: Exit, process: Process) -> None:
        """Why it has failed, if its end says so: what it wrote last is what people need."""
        if how.is_clean:
            return
        last_words = process.stderr_tail().strip() or self._output.last_words().strip()
        why = _shown_exit(how)
        room = MAX_ERROR_LETTERS - len(why) - 2
        self._fail(f"{why}: {last_words[-room:]}" if last_words else why)

    def _may_go_on(self, how: Exit) -> bool:
        """Whether the next turn can go on where this one has ended."""
        if self.is_abandoned or self._is_let_go:
            return False
        if self._is_interrupted:
            return self._has_output or self._output.session_id is not None
        return how.is_clean and self._problem is None

    def _name_conversation(self, known: str | None, fresh: str) -> None:
        """A name that it was given counts only if it was given one."""
        name = self._output.session_id or known
        if name is None and has(self._agent.command, SESSION_ID):
            name = fresh
        if name is not None and name != known:
            self._office.report_surely(
                ev.AgentSessionNamed(session_id=name, **self._office.stamp())
            )

    def _report_end(self, how: Exit | None) -> None:
        stamp = self._office.stamp()
        if self._is_interrupted:
            ended = ev.TurnEnded(
                turn=self.turn, outcome="interrupted", stop_reason="cancelled", **stamp
            )
        elif self._problem is not None or how is None:
            ended = ev.TurnEnded(turn=self.turn, outcome="failed", error=self._problem, **stamp)
        else:
            ended = ev.TurnEnded(
                turn=self.turn, outcome="completed", stop_reason="end_turn", **stamp
            )
        self._office.report_surely(ended)

    def _report_end_of_zombie(self) -> None:
        self._office.report_surely(ev.ZombieEnded(turn=self.turn, **self._office.stamp()))

    async def _note(self, identity: ProcessIdentity) -> None:
        self._identity = identity
        await self._office.note_process(identity)

    def _forget_process(self) -> None:
        """It is off the record if it is dead; if nothing can kill it, that is what is wrong."""
        identity = self._identity
        if identity is None:
            return
        if not is_alive(identity):
            self._office.forget_process(identity)
            return
        self._fail(f"unkillable: process {identity.pid} was sent SIGKILL and lives on")
        logger.error("process %d of %s cannot be killed", identity.pid, self._agent.name)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _shown_exit(how: Exit) -> str:
    if how.signal is not None:
        try:
            return f"it was ended by {signal.Signals(how.signal).name}"
        except ValueError:
            return f"it was ended by signal {how.signal}"
    if not how.guarded:
        return "its guardian was killed, and it with that"
    return f"it has exited with code {how.code}"
