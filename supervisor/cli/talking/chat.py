"""`understudy chat`: a conversation with an agent, in this very process."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click
import trio

from supervisor.cli.ground.failures import OK
from supervisor.cli.ground.options import json_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.screen import Screen
from supervisor.core.errors import SupervisorError
from supervisor.core.records import Record

from .asking import Asker
from .keyboard import read_line
from .lines import HELP, follow
from .signals import until_interrupted
from .speech import Speech
from .wish import Wish, open_session, wish_of, wish_options

if TYPE_CHECKING:
    from supervisor.sessions.surface.handle import Session

_ENDS: Final = frozenset({"turn_ended", "input_settled", "session_stopped"})


@click.command()
@wish_options
@json_option
def chat(*, as_json: bool, **options: Any) -> int:  # noqa: ANN401 - click's options
    """Talk with an agent: what you type while it is busy waits in its queue.

    A line that begins with / is for us: /steer TEXT guides the turn that runs, /interrupt [TEXT]
    interrupts it, /inputs lists what waits, /cancel PLACE takes one of these back, /why says what
    it waits for, /show shows the session, /quit leaves. In a pipe every line is an input, and the
    end of the lines is awaited.
    """
    screen = Screen(as_json=as_json)
    chatting = _Chat(screen, wish_of(**options))
    return run_async(
        screen, partial(until_interrupted, screen, chatting.run, interrupt=chatting.interrupt)
    )


class _Chat:
    """Lines in, words out, until somebody leaves."""

    def __init__(self, screen: Screen, wish: Wish) -> None:
        self._screen = screen
        self._wish = wish
        self._speech = Speech(screen, with_asides=screen.is_lively_beside)
        self._session: Session | None = None
        # Where the next line goes if something was asked; a question waits for nobody else's line.
        self._answer: trio.MemorySendChannel[str | None] | None = None
        self._is_typed = sys.stdin.isatty() and not screen.as_json
        self._has_ended = False
        # Whether a prompt stands there, and nothing behind it yet.
        self._is_invited = False
        self._leave = trio.CancelScope()

    async def interrupt(self) -> bool:
        """Ctrl-C: interrupt the turn; gives whether there was one."""
        self._speech.make_way()
        if self._session is None or self._leave.cancel_called:
            return False
        report = await self._session.interrupt("turn", reason="Ctrl-C")
        return report.matched > 0

    async def run(self) -> int:
        """Open a session, and talk."""
        async with open_session(self._wish) as (sup, session):
            self._session = session
            ask = self._ask if self._is_typed else None
            asker = Asker(self._screen, sup, ask, make_room=self._speech.end_line)
            self._greet()
            async with trio.open_nursery() as nursery:
                await nursery.start(self._show, session)
                nursery.start_soon(asker.run)
                with self._leave:
                    await self._listen(session)
                    await trio.sleep_forever()  # what was said last may take its time
                nursery.cancel_scope.cancel(reason="the conversation is over")
            self._speech.end_line()
            await session.interrupt("session", reason="the conversation is over")
        return OK

    # In -------------------------------------------------------------------------------------

    async def _listen(self, session: Session) -> None:
        while True:
            await self._invite_if_idle(session)
            line = await read_line(sys.stdin)
            self._is_invited = False
            if self._answer is not None:
                await self._answer.send(line)
            elif line is None:
                break
            elif line.strip():
                await self._take(session, line)
        self._has_ended = True
        await self._leave_if_at_rest(session)

    async def _take(self, session: Session, line: str) -> None:
        try:
            if not await follow(self._screen, session, line):
                self._leave.cancel(reason="/quit")
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

    async def _show(self, session: Session, *, task_status: trio.TaskStatus[None]) -> None:
        async with session.watch() as feed:
            task_status.started()
            async for item in feed:
                if not self._screen.as_json:
                    self._speech.take(item)
                elif isinstance(item, Record):
                    self._screen.data(item)
                if isinstance(item, Record):
                    await self._after(session, item)

    async def _after(self, session: Session, record: Record) -> None:
        if record.kind == "turn_ended":
            self._speech.end_line()
            if record.body["error"] is not None and not self._screen.as_json:
                self._screen.note(Cell("error: ", "red"), record.body["error"])
            await self._invite_if_idle(session)
        if record.kind in _ENDS and self._has_ended:
            await self._leave_if_at_rest(session)

    async def _leave_if_at_rest(self, session: Session) -> None:
        info = await session.info()
        if info.phase in ("idle", "suspended", "stopped") and not info.queued:
            self._leave.cancel(reason="all that was said is answered")

    def _greet(self) -> None:
        if self._is_typed:
            self._screen.note(Cell(f"This is {self._wish.agent}. {HELP}", "dim"))

    async def _invite_if_idle(self, session: Session) -> None:
        """A prompt, but not while the agent may say something at any moment."""
        if not self._is_typed or self._answer is not None:
            return
        info = await session.info()
        if info.turn_id is None and not info.queued and not self._is_invited:
            self._is_invited = True
            self._screen.prompt("> ")
