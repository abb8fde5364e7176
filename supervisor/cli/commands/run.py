"""`understudy run`: send one text to an agent and print its answer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click
from trio_util import run_and_cancelling

from supervisor.cli.async_runner import run_async
from supervisor.cli.columns import Cell
from supervisor.cli.failures import OK, REFUSED
from supervisor.cli.options import input_text, json_option
from supervisor.cli.output import Screen
from supervisor.cli.result_output import show_outcome, turn_exit_code
from supervisor.core.records import Record

from .agent_output import OutputPrinter
from .ctrl_c import run_interruptible
from .prompt_user import AskUser, PermissionPrompt, open_user_terminal, read_line
from .run_options import RunOptions, add_run_options, open_session, parse_run_options

if TYPE_CHECKING:
    from supervisor.core.receipts import TurnResult
    from supervisor.handles.session import Session


@click.command()
@click.argument("words", metavar="[TEXT]...", nargs=-1)
@add_run_options
@json_option
def run(*, words: tuple[str, ...], as_json: bool, **options: Any) -> int:  # noqa: ANN401 - click's options
    """Send one text to an agent, print its output as it comes, and exit.

    Without TEXT, or with -, the text is read from standard input. Permission requests are shown to
    you, and rejected if there is no terminal. Ctrl-C interrupts the turn, a second Ctrl-C exits.
    The session is kept only if --state names a file. With --json, every record is printed as a
    line, and the result as the last line.
    """
    screen = Screen(as_json=as_json)
    command = _RunCommand(screen, parse_run_options(**options), input_text(words))
    return run_async(
        screen, partial(run_interruptible, screen, command.run, interrupt=command.interrupt)
    )


class _RunCommand:
    """One text, from sending it to the end of its turn."""

    def __init__(self, screen: Screen, options: RunOptions, text: str) -> None:
        self._screen = screen
        self._options = options
        self._text = text
        self._printer = OutputPrinter(screen, with_asides=screen.is_ansi_stderr)
        self._session: Session | None = None

    async def interrupt(self) -> bool:
        """Interrupt the turn; return True if one was running."""
        self._printer.start_below_ctrl_c()
        self._screen.note("Interrupting; press Ctrl-C again to exit.")
        if self._session is None:
            return False
        report = await self._session.interrupt("turn", reason="Ctrl-C")
        return report.matched > 0

    async def run(self) -> int:
        """Open a session, send the text, print the output, and return the exit code."""
        async with open_session(self._options) as (sup, session):
            ask = self._user_prompt()
            prompt = PermissionPrompt(self._screen, sup, ask, start_line=self._printer.end_line)
            async with run_and_cancelling(prompt.run):
                result = await self._run_turn(session)
            return await self._report(session, result)

    async def _run_turn(self, session: Session) -> TurnResult:
        async with session.watch() as feed:
            self._session = session
            receipt = await session.send(self._text)
            async for item in feed:
                if not self._screen.as_json:
                    self._printer.print_item(item)
                elif isinstance(item, Record):
                    self._screen.data(item)
                if isinstance(item, Record) and _is_end(item, receipt.input_id):
                    break
        self._printer.end_line()
        return await session.result(receipt.input_id)

    async def _report(self, session: Session, result: TurnResult) -> int:
        screen = self._screen
        info = await session.info()
        if screen.as_json:
            screen.data({"result": result, "session_id": session.id})
        else:
            show_outcome(screen, result)
        if self._options.state is not None and screen.is_ansi_stderr:
            screen.note(Cell(f"session {session.id}", "dim"))
        is_spent = info.stop_reason in ("budget_exceeded", "max_turns")
        return REFUSED if is_spent and turn_exit_code(result) != OK else turn_exit_code(result)

    def _user_prompt(self) -> AskUser | None:
        stream = None if self._screen.as_json else open_user_terminal()
        if stream is None:
            return None

        async def ask(question: str) -> str | None:
            self._screen.prompt(question)
            return await read_line(stream)

        return ask


def _is_end(record: Record, input_id: str) -> bool:
    """Return True if the input is settled: it never ran, or its turn has ended."""
    match record.kind:
        case "turn_ended" | "session_stopped":
            return True
        case "input_settled":
            is_ours = bool(record.body["input_id"] == input_id)
            return is_ours and record.body["outcome"] != "delivered"
        case _:
            return False
