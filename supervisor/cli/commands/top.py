"""`understudy top`: watch and control all sessions on a live screen."""

from __future__ import annotations

import sys
from functools import partial

import click

from supervisor.cli.async_runner import run_async, run_on_asyncio
from supervisor.cli.options import json_option
from supervisor.cli.output import Screen
from supervisor.cli.session_table import print_sessions, print_tree
from supervisor.cli.target import open_target
from supervisor.cli.text_format import counted

from .ps import WantedSessions, list_sessions


@click.command()
@click.option(
    "--every",
    default=0.25,
    show_default=True,
    metavar="SECONDS",
    type=click.FloatRange(0.05, 60.0),
    help="Draw at most this often; more for a slow line.",
)
@json_option
def top(*, every: float, as_json: bool) -> int:
    """Watch all sessions live, and act on them. Without a terminal, print them once.

    Those that need you come first. The arrow keys or the mouse select a session; Enter opens it, i
    answers questions, m and s send and steer, x interrupts, ? shows all keys.
    """
    screen = Screen(as_json=as_json)
    if as_json or not _is_usable(screen):
        return run_async(screen, partial(_print_once, screen))
    return run_on_asyncio(screen, partial(_run_screen, screen, every))


def _is_usable(screen: Screen) -> bool:
    """Return whether the terminal can show a screen, which Textual draws on standard error."""
    has_streams = screen.is_ansi_terminal and screen.is_ansi_stderr and sys.stdin.isatty()
    return has_streams and screen.has_box_characters


async def _run_screen(screen: Screen, every: float) -> None:
    # Started before the screen, which what is printed would disturb. The screen starts none: a
    # daemon that is ended while it is shown stays down.
    async with open_target(screen, start=True):
        pass
    from supervisor.cli.screens.top_app import TopApp  # noqa: PLC0415 - Textual is slow to import

    from .slash import run_slash_command  # noqa: PLC0415 - the same

    app = TopApp(partial(open_target, screen), every=every, slash_commands=run_slash_command)
    error = await app.run_async()
    if error is not None:
        raise error


async def _print_once(screen: Screen) -> None:
    async with open_target(screen, start=True) as sup:
        stats, roots = await sup.stats(), await sup.tree()
        found = () if screen.as_json else (await list_sessions(sup, WantedSessions()))[0]
    if screen.as_json:
        screen.data({"stats": stats, "tree": roots})
        return
    running = counted(stats.running_turns, "running turn")
    screen.line(f"{stats.live} of {stats.sessions} sessions live, {running}.")
    print_sessions(screen, found)
    if roots:
        screen.line()
        print_tree(screen, roots)
    if stats.permissions:
        pending = counted(stats.permissions, "pending request")
        screen.note(f"{pending}; `understudy inbox` lists them.")
