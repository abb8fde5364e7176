"""`understudy top`: watch and control all sessions on a live screen."""

from __future__ import annotations

import io
import sys
import time
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final

import click
import trio
from trio_util import periodic

from supervisor.cli.async_runner import run_async
from supervisor.cli.options import json_option
from supervisor.cli.output import Screen
from supervisor.cli.session_table import tree_lines
from supervisor.cli.target import open_target
from supervisor.core.errors import SupervisorError

from .top_screen import Board, KeyAction

if TYPE_CHECKING:
    from rich.live import Live

    from supervisor.cli.target import Target
    from supervisor.core.receipts import InterruptReport
    from supervisor.handles.views import Stats

_REMARK_SECONDS: Final = 4.0


@click.command()
@click.option(
    "--every",
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    type=click.FloatRange(0.1, 60.0),
    help="Refresh interval.",
)
@json_option
def top(*, every: float, as_json: bool) -> int:
    """Watch all sessions live. Without a terminal, print them once.

    The arrow keys select a session: i interrupts its turn, t interrupts its tree, s steers it, m
    sends it an input, x stops it, q exits. Pending permission requests are listed below, with the
    command that answers them.
    """
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_top, screen, every))


async def _top(screen: Screen, every: float) -> None:
    async with open_target(screen, start=True) as sup:
        if screen.is_ansi_terminal and not screen.as_json and sys.stdin.isatty():
            await _run_live(sup, every)
        else:
            await _print_once(screen, sup)


async def _print_once(screen: Screen, sup: Target) -> None:
    stats, roots = await sup.stats(), await sup.tree()
    if screen.as_json:
        screen.data({"stats": stats, "tree": roots})
        return
    screen.line(f"{stats.live} of {stats.sessions} sessions live, {stats.running_turns} turns run.")
    for line in tree_lines(roots, with_box_characters=screen.has_box_characters):
        screen.line(*screen.fit(line))
    if stats.permissions:
        screen.note(f"{stats.permissions} pending requests; `understudy inbox` lists them.")


async def _run_live(sup: Target, every: float) -> None:
    from rich.console import Console  # noqa: PLC0415 - late
    from rich.live import Live  # noqa: PLC0415 - late

    from .top_screen import cbreak_mode  # noqa: PLC0415 - late

    if isinstance(sys.stdout, io.TextIOWrapper):
        # As in `Screen`: characters that the terminal cannot show become question marks.
        sys.stdout.reconfigure(errors="replace")
    console = Console(highlight=False, emoji=False)
    with (
        cbreak_mode(sys.stdin.fileno()),
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        async with trio.open_nursery() as nursery:
            watching = _LiveScreen(sup, live, nursery)
            nursery.start_soon(watching.refresh, every)
            await watching.handle_keys()
            nursery.cancel_scope.cancel(reason="q was pressed")


class _LiveScreen:
    """Runs `top`: loads the sessions periodically, draws them, and performs the actions of keys."""

    def __init__(self, sup: Target, live: Live, nursery: trio.Nursery) -> None:
        self._sup = sup
        self._live = live
        self._nursery = nursery
        self._board = Board()
        self._stats: Stats | None = None
        self._remark = ""
        self._remark_until = 0.0

    async def refresh(self, every: float) -> None:
        """Load and draw the sessions periodically."""
        # aclosing: a cancelled request leaves the generator suspended, which trio warns about.
        async with aclosing(periodic(every)) as ticks:
            async for _ in ticks:
                self._stats = await self._sup.stats()
                requests = await self._sup.permissions() if self._stats.permissions else ()
                self._board.update(await self._sup.tree(), requests)
                self._draw()

    async def handle_keys(self) -> None:
        """Handle keys until the user exits."""
        from .top_screen import read_keys  # noqa: PLC0415 - late

        async for key in read_keys(sys.stdin.fileno()):
            key_action = self._board.press(key)
            if self._board.is_finished:
                return
            if key_action is not None:
                self._nursery.start_soon(self._perform, key_action)
            self._draw()

    async def _perform(self, key_action: KeyAction) -> None:
        self._show_remark(f"{key_action.action.replace('_', ' ')} {key_action.session_id} ...")
        try:
            self._show_remark(await perform_action(self._sup, key_action))
        except SupervisorError as error:
            self._show_remark(f"{error.args[0]}; {error.hint}")

    def _show_remark(self, remark: str) -> None:
        self._remark, self._remark_until = remark, trio.current_time() + _REMARK_SECONDS
        self._draw()

    def _draw(self) -> None:
        from .top_screen import draw  # noqa: PLC0415 - late

        if self._stats is None:
            return  # not refreshed yet
        remark = self._remark if trio.current_time() < self._remark_until else ""
        width, height = self._live.console.size
        picture = draw(
            self._board, self._stats, remark, width=width, height=height, now=time.time()
        )
        self._live.update(picture, refresh=True)


async def perform_action(sup: Target, key_action: KeyAction) -> str:
    """Perform the action and return a short result for the screen."""
    session = sup.session(key_action.session_id)
    match key_action.action:
        case "interrupt":
            return _interrupt_summary(await session.interrupt("turn", reason="understudy top"))
        case "interrupt_tree":
            return _interrupt_summary(await session.interrupt("tree", reason="understudy top"))
        case "steer":
            return (await session.steer(key_action.text)).status
        case "send":
            return (await session.send(key_action.text)).status
        case "stop":
            await session.stop()
            return "stopped"


def _interrupt_summary(report: InterruptReport) -> str:
    return f"{report.stopped} interrupted" if report.matched else "nothing was running"
