"""`understudy top`."""

from __future__ import annotations

import io
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import click
import trio

from supervisor.cli.ground.options import json_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.looking.tree import branches
from supervisor.cli.terminal.screen import Screen
from supervisor.core.errors import SupervisorError

from .board import Board, Wish

if TYPE_CHECKING:
    from rich.live import Live

    from supervisor.cli.ground.target import Target
    from supervisor.core.receipts import InterruptReport
    from supervisor.sessions.surface.overview import Stats

_REMARK_SECONDS: Final = 4.0


@click.command()
@click.option(
    "--every",
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    type=click.FloatRange(0.1, 60.0),
    help="Look so often.",
)
@json_option
def top(*, every: float, as_json: bool) -> int:
    """Watch all sessions, live. Without a terminal they are shown once.

    The arrow keys choose a session: i interrupts its turn, t all that is below it, s steers it, m
    sends it an input, x stops it, q leaves. What agents ask stands below, with the command that
    answers it.
    """
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_top, screen, every))


async def _top(screen: Screen, every: float) -> None:
    async with open_target(screen) as sup:
        if screen.is_lively and not screen.as_json and sys.stdin.isatty():
            await _live(sup, every)
        else:
            await _once(screen, sup)


async def _once(screen: Screen, sup: Target) -> None:
    stats, roots = await sup.stats(), await sup.tree()
    if screen.as_json:
        screen.data({"stats": stats, "tree": roots})
        return
    screen.line(f"{stats.live} of {stats.sessions} sessions live, {stats.running_turns} turns run.")
    for line in branches(roots, drawn=screen.has_box_characters):
        screen.line(*screen.fit(line))
    if stats.permissions:
        screen.note(f"{stats.permissions} in the inbox; `understudy inbox` lists what is asked.")


async def _live(sup: Target, every: float) -> None:
    from rich.console import Console  # noqa: PLC0415 - late
    from rich.live import Live  # noqa: PLC0415 - late

    from .keys import key_by_key  # noqa: PLC0415 - late

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that does not know a letter gets a question mark, as `Screen` does it.
        sys.stdout.reconfigure(errors="replace")
    console = Console(highlight=False, emoji=False)
    with (
        key_by_key(sys.stdin.fileno()),
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        async with trio.open_nursery() as nursery:
            watching = _Watching(sup, live, nursery)
            nursery.start_soon(watching.look, every)
            await watching.listen()
            nursery.cancel_scope.cancel(reason="q was pressed")


class _Watching:
    """Between the board and the target."""

    def __init__(self, sup: Target, live: Live, nursery: trio.Nursery) -> None:
        self._sup = sup
        self._live = live
        self._nursery = nursery
        self._board = Board()
        self._stats: Stats | None = None
        self._remark = ""
        self._remark_until = 0.0

    async def look(self, every: float) -> None:
        """Look at all sessions, again and again."""
        while True:
            self._stats = await self._sup.stats()
            requests = await self._sup.permissions() if self._stats.permissions else ()
            self._board.put(await self._sup.tree(), requests)
            self._draw()
            await trio.sleep(every)

    async def listen(self) -> None:
        """Do what keys say, until one says to leave."""
        from .keys import keys  # noqa: PLC0415 - late

        async for key in keys(sys.stdin.fileno()):
            wish = self._board.press(key)
            if self._board.is_over:
                return
            if wish is not None:
                self._nursery.start_soon(self._do, wish)
            self._draw()

    async def _do(self, wish: Wish) -> None:
        self._say(f"{wish.deed.replace('_', ' ')} {wish.session_id} ...")
        try:
            self._say(await do(self._sup, wish))
        except SupervisorError as error:
            self._say(f"{error.args[0]}; {error.hint}")

    def _say(self, remark: str) -> None:
        self._remark, self._remark_until = remark, trio.current_time() + _REMARK_SECONDS
        self._draw()

    def _draw(self) -> None:
        from .drawing import draw  # noqa: PLC0415 - late

        if self._stats is None:
            return  # nobody was looked at yet
        remark = self._remark if trio.current_time() < self._remark_until else ""
        width, height = self._live.console.size
        picture = draw(
            self._board, self._stats, remark, width=width, height=height, now=time.time()
        )
        self._live.update(picture, refresh=True)


async def do(sup: Target, wish: Wish) -> str:
    """Do it; gives what came of it, in a few words."""
    session = sup.session(wish.session_id)
    match wish.deed:
        case "interrupt":
            return _came_of(await session.interrupt("turn", reason="understudy top"))
        case "interrupt_tree":
            return _came_of(await session.interrupt("tree", reason="understudy top"))
        case "steer":
            return (await session.steer(wish.text)).status
        case "send":
            return (await session.send(wish.text)).status
        case "stop":
            await session.stop()
            return "stopped"


def _came_of(report: InterruptReport) -> str:
    return f"{report.stopped} interrupted" if report.matched else "nothing was running"
