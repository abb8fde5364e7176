"""`stop`, `resume`, `fork`, `clear`, `archive` and `rm`: a session as a whole.

Each says what has become of the session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from supervisor.cli.ground.finding import find_session
from supervisor.cli.ground.options import json_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.columns import Cell, badge
from supervisor.cli.terminal.progress import progress
from supervisor.cli.terminal.screen import Screen
from supervisor.core.errors import SessionNotFound, shown

from .answers import show_made

if TYPE_CHECKING:
    from supervisor.cli.ground.target import Target
    from supervisor.core.info import Info
    from supervisor.sessions.surface.handle import Session


@click.command()
@click.argument("session", metavar="ID")
@click.option("--after-turn", is_flag=True, help="Let the turn that runs end first.")
@json_option
def stop(*, session: str, after_turn: bool, as_json: bool) -> int:
    """Stop a session and all that lives with it, and wait until it has stopped."""

    async def do(found: Session) -> None:
        await found.stop(when="after_turn" if after_turn else "now")

    return _change(session, do, "stopping", as_json=as_json)


@click.command()
@click.argument("session", metavar="ID")
@json_option
def resume(*, session: str, as_json: bool) -> int:
    """Start a stopped session again, with its history and what waited in it."""

    async def do(found: Session) -> None:
        await found.resume()

    return _change(session, do, "resuming", as_json=as_json)


@click.command()
@click.argument("session", metavar="ID")
@json_option
def clear(*, session: str, as_json: bool) -> int:
    """Begin a new chapter: an empty conversation, with the old records still there to read."""

    async def do(found: Session) -> None:
        await found.clear()

    return _change(session, do, "clearing", as_json=as_json)


@click.command()
@click.argument("session", metavar="ID")
@click.option("--undo", is_flag=True, help="Make it writable again.")
@json_option
def archive(*, session: str, undo: bool, as_json: bool) -> int:
    """Make a stopped session read-only, and free its key."""

    async def do(found: Session) -> None:
        await (found.unarchive() if undo else found.archive())

    return _change(session, do, "archiving", as_json=as_json)


@click.command()
@click.argument("session", metavar="ID")
@click.option("--at-turn", metavar="TURN", help="With its past up to the end of this turn.")
@json_option
def fork(*, session: str, at_turn: str | None, as_json: bool) -> int:
    """Make a session with the same past, and print its id."""
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_fork, screen, session, at_turn))


async def _fork(screen: Screen, session: str, at_turn: str | None) -> None:
    async with open_target(screen) as sup, progress(screen, "forking"):
        made = await (await find_session(sup, session)).fork(at_turn=at_turn)
        show_made(screen, await made.info())


@click.command()
@click.argument("sessions", metavar="ID...", nargs=-1, required=True)
@json_option
def rm(*, sessions: tuple[str, ...], as_json: bool) -> int:
    """Stop sessions and delete them, with all that is in them, for good."""
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_rm, screen, sessions))


async def _rm(screen: Screen, sessions: tuple[str, ...]) -> None:
    async with open_target(screen) as sup:
        for session in sessions:
            found = await _exactly(sup, session)
            async with progress(screen, "deleting"):
                await sup.delete(found.id)
            if screen.as_json:
                screen.data({"session_id": found.id, "deleted": True})
            else:
                screen.line(f"{found.id}  deleted")


async def _exactly(sup: Target, session_id: str) -> Session:
    """Nobody's guess is to be deleted."""
    try:
        return await sup.get(session_id)
    except SessionNotFound:
        raise SessionNotFound(
            f"no session has the id {shown(session_id)}",
            hint="write the whole id, as `understudy ps --all` lists it",
        ) from None


def _change(
    session: str,
    do: Callable[[Session], Awaitable[None]],
    doing: str,
    *,
    as_json: bool,
) -> int:
    screen = Screen(as_json=as_json)

    async def work() -> None:
        async with open_target(screen) as sup:
            found = await find_session(sup, session)
            async with progress(screen, doing):
                await do(found)
            _show(screen, await found.info())

    return run_async(screen, work)


def _show(screen: Screen, info: Info) -> None:
    if screen.as_json:
        screen.data(info)
        return
    reason = f"  {info.stop_reason}" if info.stop_reason else ""
    archived = "  archived" if info.archived else ""
    screen.line(Cell(info.id, "bold"), "  ", badge(info.badge), f"{reason}{archived}")
