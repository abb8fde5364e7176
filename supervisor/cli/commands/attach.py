"""`understudy attach`: sit down at a session."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, cast

import click

from supervisor.cli.async_runner import run_async, run_on_asyncio, run_requests
from supervisor.cli.failures import WrongUsage
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
    if not (sys.stdin.isatty() and screen.is_ansi_terminal):
        return run_requests(screen, partial(_refuse_pipe, screen, session))
    with hold_typed() as typed:
        return run_on_asyncio(screen, partial(_attach, screen, session, typed))


async def _refuse_pipe(screen: Screen, session: str) -> None:
    """Raise `WrongUsage`, because nothing can show a screen, or the error for the session."""
    from supervisor.client import NoDaemon  # noqa: PLC0415 - only for who talks to it

    with suppress(NoDaemon):  # no daemon is started only to refuse
        async with open_target(screen) as sup:
            await find_session(sup, session)
    raise WrongUsage(
        "a screen needs a terminal",
        hint=f"`understudy watch {shlex.quote(session)}` prints a session in a pipe",
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
