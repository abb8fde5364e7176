"""`understudy attach`: sit down at a session."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, cast

import click

from supervisor.cli.async_runner import run_async, run_on_asyncio
from supervisor.cli.options import json_option
from supervisor.cli.output import Screen
from supervisor.cli.target import find_session, open_target
from supervisor.cli.typed_ahead import TypedAhead, hold_typed

from .log import watch_session
from .slash import run_slash_command

if TYPE_CHECKING:
    from supervisor.client import RemoteSession, RemoteSupervisor


@click.command()
@click.argument("session", metavar="ID")
@json_option
def attach(*, session: str, as_json: bool) -> int:
    """Sit down at a session: its transcript, live, with a line of input below it.

    Enter sends the text, which starts a turn or waits in the queue. Tab changes the mode: steer the
    running turn, or interrupt it. Esc moves to a permission request, where letters answer it.
    Ctrl-C interrupts the running turn, Ctrl-C twice leaves, and so does Ctrl-D; the session goes
    on. F1 shows all keys. If the daemon stops, the screen waits until it is back. With --json,
    print records as `understudy watch ID` does.
    """
    screen = Screen(as_json=as_json)
    if as_json:
        return run_async(screen, partial(watch_session, screen, session))
    require_full_screen(screen)
    with hold_typed() as typed:
        return run_on_asyncio(screen, partial(_attach, screen, session, typed))


def require_full_screen(screen: Screen) -> None:
    """Raise click's `UsageError` unless a terminal can show a screen."""
    if not (sys.stdin.isatty() and screen.is_ansi_terminal):
        raise click.UsageError(
            "A screen needs a terminal. `understudy watch ID` prints a session in a pipe."
        )


async def _attach(screen: Screen, session: str, typed: TypedAhead) -> None:
    async with open_target(screen, start=True) as sup:
        found = await find_session(sup, session)
        from supervisor.cli.screens.attach_app import AttachApp  # noqa: PLC0415 - slow to import

        app = AttachApp(
            cast("RemoteSupervisor", sup),
            cast("RemoteSession", found),
            slash_commands=run_slash_command,
            typed=typed.take(),
        )
        await app.run_async()
        screen.note(f"Left {session}, which goes on. `understudy attach {session}` comes back.")
