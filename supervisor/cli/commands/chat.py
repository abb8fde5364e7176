"""`understudy chat`: a conversation with an agent that runs in this process.

A line is an input, or a command if it begins with `/`.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click
import trio

from supervisor.cli.async_runner import run_async, run_on_asyncio
from supervisor.cli.failures import OK
from supervisor.cli.options import json_option
from supervisor.cli.output import Screen
from supervisor.cli.text_format import Cell
from supervisor.cli.typed_ahead import TypedAhead, hold_typed
from supervisor.core.errors import SupervisorError
from supervisor.core.records import Record

from .conversation import OutputPrinter, PermissionPrompt, read_line, run_interruptible
from .run import RunOptions, add_run_options, open_session, parse_run_options
from .slash import HELP_HINT, handle_line, run_slash_command

if TYPE_CHECKING:
    from supervisor.handles.session import Session


_FINAL_KINDS: Final = frozenset({"turn_ended", "input_settled", "session_stopped"})


@click.command()
@add_run_options
@json_option
def chat(*, as_json: bool, **options: Any) -> int:  # noqa: ANN401 - click's options
    """Chat with an agent. Lines typed while it is busy are queued.

    On a terminal this is the screen of `understudy attach`, and F1 shows its keys. Lines that begin
    with / are commands: /steer TEXT steers the running turn, /interrupt [TEXT] interrupts it,
    /inputs lists the queued inputs, /cancel PLACE cancels one of them, /why explains what the
    session waits for, /show shows the session, /quit exits. If standard input is not a terminal,
    every line is an input, and the command exits when all of them are answered.
    """
    screen = Screen(as_json=as_json)
    parsed = parse_run_options(**options)
    if sys.stdin.isatty() and screen.is_ansi_terminal and not as_json:
        with hold_typed() as typed:
            return run_on_asyncio(screen, partial(_chat_on_screen, parsed, typed))
    chatting = _Chat(screen, parsed)
    return run_async(
        screen, partial(run_interruptible, screen, chatting.run, interrupt=chatting.interrupt)
    )


async def _chat_on_screen(options: RunOptions, typed: TypedAhead) -> int:
    """Run the conversation on the screen of `attach`, in a supervisor of this process."""
    from supervisor.cli.private_server import serve_in_thread  # noqa: PLC0415 - slow to import
    from supervisor.cli.screens.attach_app import AttachApp  # noqa: PLC0415 - slow to import
    from supervisor.client import connect  # noqa: PLC0415 - not for the lines of a pipe

    greeting = f"Chatting with {options.agent}. {HELP_HINT}"
    async with (
        serve_in_thread(open_session(options)) as address,
        connect(address.socket) as sup,
    ):
        session = sup.session(address.session_id)
        app = AttachApp(
            sup,
            session,
            slash_commands=run_slash_command,
            greeting=greeting,
            after_leaving="ends",
            typed=typed.take(),
        )
        await app.run_async()
    return OK


class _Chat:
    """A conversation in lines: reads lines and prints output until the user exits."""

    def __init__(self, screen: Screen, options: RunOptions) -> None:
        self._screen = screen
        self._options = options
        self._printer = OutputPrinter(screen, with_asides=screen.is_ansi_stderr)
        self._session: Session | None = None
        # Receives the next line if the user was asked something; only one question at a time.
        self._answer: trio.MemorySendChannel[str | None] | None = None
        self._is_interactive = sys.stdin.isatty() and not screen.as_json
        self._input_has_ended = False
        # True if a prompt is shown and nothing is printed after it.
        self._has_prompt = False
        self._exit_scope = trio.CancelScope()

    async def interrupt(self) -> bool:
        """Interrupt the turn on Ctrl-C; return True if one was running."""
        self._printer.start_below_ctrl_c()
        if self._session is None or self._exit_scope.cancel_called:
            return False
        report = await self._session.interrupt("turn", reason="Ctrl-C")
        return report.matched > 0

    async def run(self) -> int:
        """Open a session and run the conversation."""
        async with open_session(self._options) as (sup, session):
            self._session = session
            ask = self._ask if self._is_interactive else None
            prompt = PermissionPrompt(self._screen, sup, ask, start_line=self._printer.end_line)
            self._greet()
            async with trio.open_nursery() as nursery:
                await nursery.start(self._print_feed, session)
                nursery.start_soon(prompt.run)
                with self._exit_scope:
                    await self._read_lines(session)
                    await trio.sleep_forever()  # until the last input is answered
                nursery.cancel_scope.cancel(reason="the conversation is over")
            self._printer.end_line()
            await session.interrupt("session", reason="the conversation is over")
        return OK

    # In -------------------------------------------------------------------------------------

    async def _read_lines(self, session: Session) -> None:
        while True:
            await self._prompt_if_idle(session)
            line = await read_line(sys.stdin)
            self._has_prompt = False
            if self._answer is not None:
                await self._answer.send(line)
            elif line is None:
                break
            elif line.strip():
                await self._handle_line(session, line)
        self._input_has_ended = True
        await self._exit_if_idle(session)

    async def _handle_line(self, session: Session, line: str) -> None:
        try:
            if not await handle_line(self._screen, session, line):
                self._exit_scope.cancel(reason="/quit")
                await trio.lowlevel.checkpoint()
        except SupervisorError as error:
            self._screen.note(Cell("error: ", "red"), str(error.args[0]))
            self._screen.note(Cell("hint: ", "cyan"), error.hint)

    async def _ask(self, question: str) -> str | None:
        tell, heard = trio.open_memory_channel[str | None](0)
        self._answer = tell
        self._screen.prompt(question)
        try:
            return await heard.receive()
        finally:
            self._answer = None

    # Out ------------------------------------------------------------------------------------

    async def _print_feed(self, session: Session, *, task_status: trio.TaskStatus[None]) -> None:
        async with session.watch() as feed:
            task_status.started()
            async for item in feed:
                if not self._screen.as_json:
                    self._printer.print_item(item)
                elif isinstance(item, Record):
                    self._screen.data(item)
                if isinstance(item, Record):
                    await self._after_record(session, item)

    async def _after_record(self, session: Session, record: Record) -> None:
        if record.kind == "turn_ended":
            self._printer.end_line()
            if record.body["error"] is not None and not self._screen.as_json:
                self._screen.note(Cell("error: ", "red"), record.body["error"])
            await self._prompt_if_idle(session)
        if record.kind in _FINAL_KINDS and self._input_has_ended:
            await self._exit_if_idle(session)

    async def _exit_if_idle(self, session: Session) -> None:
        info = await session.info()
        if info.phase in ("idle", "suspended", "stopped") and not info.queued:
            self._exit_scope.cancel(reason="every input is answered")

    def _greet(self) -> None:
        if self._is_interactive:
            self._screen.note(Cell(f"Chatting with {self._options.agent}. {HELP_HINT}", "dim"))

    async def _prompt_if_idle(self, session: Session) -> None:
        """Print a prompt if the agent is idle; otherwise its output would follow the prompt."""
        if not self._is_interactive or self._answer is not None:
            return
        info = await session.info()
        if info.turn_id is None and not info.queued and not self._has_prompt:
            self._has_prompt = True
            self._screen.prompt("> ")
