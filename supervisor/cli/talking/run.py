"""`understudy run`: one text for an agent, and what it says."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click
import trio

from supervisor.cli.acting.answers import code_of, tell_end
from supervisor.cli.ground.failures import OK, REFUSED
from supervisor.cli.ground.options import json_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.texts import text_given
from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.screen import Screen
from supervisor.core.records import Record

from .asking import Ask, Asker
from .keyboard import read_line, terminal_to_ask
from .signals import until_interrupted
from .speech import Speech
from .wish import Wish, open_session, wish_of, wish_options

if TYPE_CHECKING:
    from supervisor.sessions.shell.results import TurnResult
    from supervisor.sessions.surface.handle import Session


@click.command()
@click.argument("words", metavar="[TEXT]...", nargs=-1)
@wish_options
@json_option
def run(*, words: tuple[str, ...], as_json: bool, **options: Any) -> int:  # noqa: ANN401 - click's options
    """Give an agent one text, print what it says as it comes, and leave.

    Without TEXT, or with -, it is read from standard input. What the agent asks is asked of you,
    and rejected if nobody is at the terminal. Ctrl-C interrupts the turn, a second one leaves.
    Nothing is kept, unless --state names a file. With --json every record is printed as a line,
    and the result as the last one.
    """
    screen = Screen(as_json=as_json)
    wish = wish_of(**options)
    errand = _Errand(screen, wish, text_given(words))
    return run_async(
        screen, partial(until_interrupted, screen, errand.run, interrupt=errand.interrupt)
    )


class _Errand:
    """One text, from its sending to the end of its turn."""

    def __init__(self, screen: Screen, wish: Wish, text: str) -> None:
        self._screen = screen
        self._wish = wish
        self._text = text
        self._speech = Speech(screen, with_asides=screen.is_lively_beside)
        self._session: Session | None = None

    async def interrupt(self) -> bool:
        """Interrupt the turn; gives whether there was one."""
        self._speech.make_way()
        self._screen.note("Interrupting; press Ctrl-C again to leave.")
        if self._session is None:
            return False
        report = await self._session.interrupt("turn", reason="Ctrl-C")
        return report.matched > 0

    async def run(self) -> int:
        """Open, ask, and print; gives the code to exit with."""
        async with open_session(self._wish) as (sup, session):
            ask = self._ask_person()
            asker = Asker(self._screen, sup, ask, make_room=self._speech.end_line)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(asker.run)
                result = await self._talk(session)
                nursery.cancel_scope.cancel(reason="the turn is over")
            return await self._end(session, result)

    async def _talk(self, session: Session) -> TurnResult:
        async with session.watch() as feed:
            self._session = session
            receipt = await session.send(self._text)
            async for item in feed:
                if not self._screen.as_json:
                    self._speech.take(item)
                elif isinstance(item, Record):
                    self._screen.data(item)
                if isinstance(item, Record) and _is_end(item, receipt.input_id):
                    break
        self._speech.end_line()
        return await session.result(receipt.input_id)

    async def _end(self, session: Session, result: TurnResult) -> int:
        screen = self._screen
        info = await session.info()
        if screen.as_json:
            screen.data({"result": result, "session_id": session.id})
        else:
            tell_end(screen, result)
        if self._wish.state is not None and screen.is_lively_beside:
            screen.note(Cell(f"session {session.id}", "dim"))
        is_spent = info.stop_reason in ("budget_exceeded", "max_turns")
        return REFUSED if is_spent and code_of(result) != OK else code_of(result)

    def _ask_person(self) -> Ask | None:
        stream = None if self._screen.as_json else terminal_to_ask()
        if stream is None:
            return None

        async def ask(question: str) -> str | None:
            self._screen.prompt(question)
            return await read_line(stream)

        return ask


def _is_end(record: Record, input_id: str) -> bool:
    """Whether nothing more will be said to the input: it never ran, or its turn is over."""
    match record.kind:
        case "turn_ended" | "session_stopped":
            return True
        case "input_settled":
            is_ours = bool(record.body["input_id"] == input_id)
            return is_ours and record.body["outcome"] != "delivered"
        case _:
            return False
