"""`understudy chat`: a conversation with an agent that runs in this process.

A line is an input, or a command if it begins with `/`.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
import trio

from supervisor.cli.async_runner import run_async
from supervisor.cli.failures import OK
from supervisor.cli.options import json_option
from supervisor.cli.output import Screen
from supervisor.cli.text_format import Cell
from supervisor.core.errors import InputRefused, SupervisorError
from supervisor.core.records import Record

from .conversation import OutputPrinter, PermissionPrompt, read_line, run_interruptible
from .run import RunOptions, add_run_options, open_session, parse_run_options
from .send import show_inputs
from .show import show_info

if TYPE_CHECKING:
    from supervisor.core.receipts import Receipt
    from supervisor.handles.session import Session


HELP_HINT: Final = "/help lists the commands, /quit exits."

_COMMAND_HELP: Final = (
    ("/steer TEXT", "steer the running turn"),
    ("/interrupt [TEXT]", "interrupt the running turn, and continue with the text"),
    ("/inputs", "list the queued inputs"),
    ("/cancel PLACE", "cancel the queued input at that place"),
    ("/why", "explain what the session waits for"),
    ("/show", "show the session"),
    ("/quit", "exit"),
    ("//TEXT", "send a text that begins with a slash"),
)

_SlashCommand: TypeAlias = Callable[[Screen, "Session", str], Awaitable[None]]


async def handle_line(screen: Screen, session: Session, line: str) -> bool:
    """Run the line; return False if it asks to exit; raise the error of a command that fails."""
    word, _, rest = line.strip().partition(" ")
    if word in ("/quit", "/exit"):
        return False
    if not word.startswith("/") or word.startswith("//"):
        text = line[1:] if word.startswith("//") else line
        _note_receipt(screen, await session.send(text))
        return True
    known = _SLASH_COMMANDS.get(word)
    if known is None:
        raise InputRefused(f"unknown command {word}", hint="/help lists the commands")
    await known(screen, session, rest.strip())
    return True


def _note_receipt(screen: Screen, receipt: Receipt) -> None:
    if receipt.status == "queued":
        screen.note(Cell(f"  queued, at place {receipt.position}", "dim"))
    elif receipt.status == "staged":
        screen.note(Cell("  steering", "dim"))


async def _help(screen: Screen, _: Session, __: str) -> None:
    for word, what in _COMMAND_HELP:
        screen.note(f"  {word:<19}{what}")


async def _steer(screen: Screen, session: Session, text: str) -> None:
    _note_receipt(screen, await session.steer(text))


async def _interrupt(screen: Screen, session: Session, text: str) -> None:
    report = await session.interrupt("turn", reason="/interrupt", replace_with=text or None)
    if not report.matched and report.input_id is None:
        screen.note(Cell("  nothing was running", "dim"))


async def _inputs(screen: Screen, session: Session, _: str) -> None:
    show_inputs(screen, await session.inputs())


async def _cancel(screen: Screen, session: Session, place: str) -> None:
    for waiting in await session.inputs():
        if place in (str(waiting.position), waiting.id):
            await session.cancel_input(waiting.id)
            screen.note(Cell(f"  cancelled: {waiting.text}", "dim"))
            return
    raise InputRefused(f"no input is queued at {place!r}", hint="/inputs lists the queued inputs")


async def _why(screen: Screen, session: Session, _: str) -> None:
    screen.note(str(await session.why()))


async def _show(screen: Screen, session: Session, _: str) -> None:
    info = await session.info()
    if screen.as_json:
        screen.data(info)
    else:
        show_info(screen, info)


_SLASH_COMMANDS: Final[dict[str, _SlashCommand]] = {
    "/help": _help,
    "/steer": _steer,
    "/interrupt": _interrupt,
    "/inputs": _inputs,
    "/cancel": _cancel,
    "/why": _why,
    "/show": _show,
}

_FINAL_KINDS: Final = frozenset({"turn_ended", "input_settled", "session_stopped"})


@click.command()
@add_run_options
@json_option
def chat(*, as_json: bool, **options: Any) -> int:  # noqa: ANN401 - click's options
    """Chat with an agent. Lines typed while it is busy are queued.

    Lines that begin with / are commands: /steer TEXT steers the running turn, /interrupt [TEXT]
    interrupts it, /inputs lists the queued inputs, /cancel PLACE cancels one of them, /why explains
    what the session waits for, /show shows the session, /quit exits. If standard input is not a
    terminal, every line is an input, and the command exits when all of them are answered.
    """
    screen = Screen(as_json=as_json)
    chatting = _Chat(screen, parse_run_options(**options))
    return run_async(
        screen, partial(run_interruptible, screen, chatting.run, interrupt=chatting.interrupt)
    )


class _Chat:
    """A conversation: reads lines and prints output until the user exits."""

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
