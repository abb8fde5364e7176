"""One turn of a command: its process, from the wait for a slot until all its processes have ended.

Rule 1: the end of the turn is reported once. By then the process is dead, or is reported as
        unkillable.
Rule 2: output is read while the prompt is sent, because a command may write before it reads.
Rule 3: the conversation id is that of the last turn that did not fail. A turn that failed may have
        started no conversation that could be continued.
"""

from __future__ import annotations

import logging
import signal
import uuid
from contextlib import AsyncExitStack
from typing import Final

import trio
from trio.lowlevel import enable_ki_protection
from trio_util import run_and_cancelling

from supervisor.core import agent_events
from supervisor.core.effects import StartTurn
from supervisor.core.errors import ConfigError, OutputTooLarge, StoreDegraded
from supervisor.core.state import LadderStep
from supervisor.core.text import describe_error
from supervisor.drivers.identity import ProcessIdentity, is_alive
from supervisor.drivers.port import BlockedOn, DriverContext
from supervisor.drivers.process.processes import (
    AgentProcess,
    LaunchFailed,
    ProcessExit,
)
from supervisor.drivers.process_state import process_blocked_on
from supervisor.drivers.runtime import DriverRuntime
from supervisor.json_rpc.rpc_outbox import InputClosed, InputStuck

from .template import SESSION_ID, CommandTemplate, has_placeholder

logger = logging.getLogger("supervisor")

MAX_ERROR_CHARS: Final = 2000
# Conversation ids are UUIDs, which every command accepts, derived from our own ids, which are
# reproducible in tests.
_CONVERSATION_NAMESPACE: Final = uuid.UUID("5d1a3a0c-52f2-4f5e-9d0b-0a6f0b6a7c11")


class CommandRun:
    """The run of one turn: process, prompt, output, ladder and end."""

    def __init__(
        self,
        template: CommandTemplate,
        effect: StartTurn,
        context: DriverContext,
        runtime: DriverRuntime,
    ) -> None:
        self.turn = effect.turn
        self._template = template
        self._effect = effect
        self._context = context
        self._runtime = runtime
        self._scope = trio.CancelScope()
        self._process: AgentProcess | None = None
        # The process that is recorded as ours.
        self._identity: ProcessIdentity | None = None
        self._output = template.new_output()
        self._has_output = False
        # Why the turn has failed; only the first reason is kept.
        self._problem: str | None = None
        self._is_interrupted = self._is_closing = False
        self.is_abandoned = self.is_over = False
        self.finished = trio.Event()

    # Called by the driver -----------------------------------------------------------------

    def take_ladder_step(self, step: LadderStep) -> None:
        """Take one step of the ladder: SIGINT, close the input, SIGTERM, kill everything.

        Before the process exists, any step cancels the turn.
        """
        if self.is_over:
            return
        self._is_interrupted = True
        if self._process is None:
            self._scope.cancel(reason="the turn was interrupted before its process started")
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
        """Treat the turn as over although its process may still run; report the zombie's end."""
        if self.is_over:
            self._report_zombie_end()
        elif not self.is_abandoned:
            self.is_abandoned = True
            pid = None if self._identity is None else self._identity.pid
            owner = f"{self._template.name} in {self._context.session_id} (process {pid})"
            self._runtime.add_zombie(self.turn, owner)

    def close(self, *, within_seconds: float) -> None:
        """Terminate the process, and kill it after `within_seconds`; report no end of the turn."""
        self._is_closing = True
        if self._process is not None:
            self._process.terminate()
        self._scope.deadline = trio.current_time() + within_seconds

    def blocked_on(self) -> BlockedOn | None:
        """Return why the turn makes no progress; None if its process runs."""
        if self._process is not None:
            return process_blocked_on(self._process.identity)
        slots = self._runtime.process_slots
        if not slots.available_tokens:
            return BlockedOn("start", f"all {slots.total_tokens} agent processes are in use")
        return BlockedOn("start", "its process is starting")

    # The turn -----------------------------------------------------------------------------

    @enable_ki_protection
    async def run(self) -> None:
        """Run the process and report the end of the turn."""
        end: ProcessExit | None = None
        try:
            with self._scope:
                end = await self._run_process()
        except (LaunchFailed, StoreDegraded, ConfigError) as error:
            self._fail(str(error))
        except Exception as error:
            # A bug of ours, not of the command; it must fail this turn only.
            logger.exception("the driver of %s raised", self._template.name)
            self._fail(describe_error(error))
        finally:
            self._forget_process()
            self._runtime.remove_zombie(self.turn)
            self.is_over = True
            self.finished.set()
        if self.is_abandoned:
            self._report_zombie_end()
        elif not self._is_closing:
            self._report_end(end)

    async def _run_process(self) -> ProcessExit:
        runtime, context, effect = self._runtime, self._context, self._effect
        if not runtime.process_slots.available_tokens:
            runtime.evict_idle_process()
        async with runtime.process_slots, AsyncExitStack() as starting:
            await starting.enter_async_context(runtime.start_slots)
            known = context.agent_session_id
            new = str(uuid.uuid5(_CONVERSATION_NAMESPACE, context.new_id("conversation")))
            launch = self._template.launch(
                context.workspace, prompt=effect.text, session_id=known, new_session_id=new
            )
            if effect.attachments:
                problem = "attachments are ignored: a command takes text only"
                context.write(self.turn, "warning", {"text": problem})
            launch = launch.in_folder(await context.workspace_root())
            async with runtime.processes.open(launch, before_exec=self._record_process) as process:
                self._process = process
                await starting.aclose()
                is_argument = self._template.takes_prompt_as_argument(known)
                end = await self._converse(process, b"" if is_argument else _encode(effect.text))
            if self._can_resume(end):
                self._report_conversation_id(known, new)
            return end

    async def _converse(self, process: AgentProcess, prompt: bytes) -> ProcessExit:
        async with run_and_cancelling(self._send_prompt, process, prompt):
            await self._read_output(process)
            end = await process.wait()
        await process.wait_gone(self._context.ladder.kill_seconds)
        self._set_exit_failure(end, process)
        return end

    async def _send_prompt(self, process: AgentProcess, prompt: bytes) -> None:
        """Send the prompt and close the input; ignore a command that closes its input early."""
        try:
            if prompt:
                await process.send(prompt)
        except InputClosed:
            return
        except InputStuck:
            self._fail("the command has not read its prompt")
            process.kill()
        process.close_input()

    async def _read_output(self, process: AgentProcess) -> None:
        """Write the whole output to the session; kill the process if it is too large."""
        try:
            while chunk := await process.receive():
                self._write_texts(self._output.feed(chunk))
                await self._context.wait_writable()
            self._write_texts(self._output.finish())
            warning = self._output.skipped_lines_warning()
            if warning is not None:
                self._context.write(self.turn, "warning", {"text": warning})
        except OutputTooLarge as error:
            self._fail(describe_error(error))
            process.kill()

    def _write_texts(self, texts: list[str]) -> None:
        for text in texts:
            self._context.write_text(
                self.turn,
                "agent_text",
                text,
                continues=self._has_output and self._output.is_stream,
            )
            self._has_output = True

    # The end ------------------------------------------------------------------------------

    def _fail(self, problem: str) -> None:
        self._problem = self._problem or problem[:MAX_ERROR_CHARS]

    def _set_exit_failure(self, end: ProcessExit, process: AgentProcess) -> None:
        """Fail the turn if the process failed, with its last output, which usually says why."""
        if end.is_clean:
            return
        tail = process.stderr_tail().strip() or self._output.unparsed_tail().strip()
        reason = _describe_exit(end)
        room = MAX_ERROR_CHARS - len(reason) - 2
        self._fail(f"{reason}: {tail[-room:]}" if tail else reason)

    def _can_resume(self, end: ProcessExit) -> bool:
        """Return True if the next turn can continue the conversation of this one."""
        if self.is_abandoned or self._is_closing:
            return False
        if self._is_interrupted:
            return self._has_output or self._output.session_id is not None
        return end.is_clean and self._problem is None

    def _report_conversation_id(self, known: str | None, new: str) -> None:
        """Report the conversation id if it is new.

        `new` counts only if it was passed to the command.
        """
        session_id = self._output.session_id or known
        if session_id is None and has_placeholder(self._template.command, SESSION_ID):
            session_id = new
        if session_id is not None and session_id != known:
            self._context.report_eventually(
                agent_events.AgentSessionNamed(session_id=session_id, **self._context.stamp())
            )

    def _report_end(self, end: ProcessExit | None) -> None:
        stamp = self._context.stamp()
        if self._is_interrupted:
            ended = agent_events.TurnEnded(
                turn=self.turn, outcome="interrupted", stop_reason="cancelled", **stamp
            )
        elif self._problem is not None or end is None:
            ended = agent_events.TurnEnded(
                turn=self.turn, outcome="failed", error=self._problem, **stamp
            )
        else:
            ended = agent_events.TurnEnded(
                turn=self.turn, outcome="completed", stop_reason="end_turn", **stamp
            )
        self._context.report_eventually(ended)

    def _report_zombie_end(self) -> None:
        self._context.report_eventually(
            agent_events.ZombieEnded(turn=self.turn, **self._context.stamp())
        )

    async def _record_process(self, identity: ProcessIdentity) -> None:
        self._identity = identity
        await self._context.record_process(identity)

    def _forget_process(self) -> None:
        """Remove the record of the process if it is dead; otherwise fail the turn as unkillable."""
        identity = self._identity
        if identity is None:
            return
        if not is_alive(identity):
            self._context.forget_process(identity)
            return
        self._fail(f"unkillable: process {identity.pid} is still alive after SIGKILL")
        logger.error("process %d of %s cannot be killed", identity.pid, self._template.name)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _describe_exit(end: ProcessExit) -> str:
    if end.signal is not None:
        try:
            return f"the command was ended by {signal.Signals(end.signal).name}"
        except ValueError:
            return f"the command was ended by signal {end.signal}"
    if not end.guarded:
        return "the guardian of the command was killed"
    return f"the command exited with code {end.code}"
