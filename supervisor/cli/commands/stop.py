"""`stop`, `resume`, `fork`, `clear`, `rename`, `archive` and `rm`: change a whole session.

Each prints the resulting state of the session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from supervisor.cli.async_runner import run_async
from supervisor.cli.options import json_option
from supervisor.cli.output import Screen
from supervisor.cli.progress_bar import progress
from supervisor.cli.result_output import show_created
from supervisor.cli.target import find_exact_session, find_id, find_session, open_target
from supervisor.cli.text_format import Cell, badge_cell
from supervisor.core.text import one_line

if TYPE_CHECKING:
    from supervisor.core.info import Info
    from supervisor.handles.session import Session


@click.command()
@click.argument("session", metavar="ID")
@click.option("--after-turn", is_flag=True, help="Let the running turn end first.")
@json_option
def stop(*, session: str, after_turn: bool, as_json: bool) -> int:
    """Stop a session and its with_parent children, and wait until it has stopped."""

    async def do(found: Session) -> None:
        await found.stop(when="after_turn" if after_turn else "now")

    return _apply(session, do, "stopping", as_json=as_json)


@click.command()
@click.argument("session", metavar="ID")
@json_option
def resume(*, session: str, as_json: bool) -> int:
    """Start a stopped session again, with its history and its queued inputs."""

    async def do(found: Session) -> None:
        await found.resume()

    return _apply(session, do, "resuming", as_json=as_json)


@click.command()
@click.argument("session", metavar="ID")
@json_option
def clear(*, session: str, as_json: bool) -> int:
    """Start a new chapter: an empty conversation; the old records stay readable."""

    async def do(found: Session) -> None:
        await found.clear()

    return _apply(session, do, "clearing", as_json=as_json)


@click.command()
@click.argument("session", metavar="ID")
@click.option("--undo", is_flag=True, help="Make it writable again.")
@json_option
def archive(*, session: str, undo: bool, as_json: bool) -> int:
    """Make a stopped session read-only and free its key and its name."""

    async def do(found: Session) -> None:
        await (found.unarchive() if undo else found.archive())

    return _apply(session, do, "archiving", as_json=as_json)


@click.command()
@click.argument("session", metavar="ID")
@click.option("--at-turn", metavar="TURN", help="Copy the history up to the end of this turn.")
@json_option
def fork(*, session: str, at_turn: str | None, as_json: bool) -> int:
    """Create a session with the same history and print its id."""
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_fork, screen, session, at_turn))


async def _fork(screen: Screen, session: str, at_turn: str | None) -> None:
    async with open_target(screen) as sup, progress(screen, "forking"):
        found = await find_session(sup, session)
        if at_turn is not None:
            at_turn = await find_id(sup, "turn", at_turn, session=found)
        made = await found.fork(at_turn=at_turn)
        show_created(screen, await made.info())


@click.command()
@click.argument("sessions", metavar="ID...", nargs=-1, required=True)
@json_option
def rm(*, sessions: tuple[str, ...], as_json: bool) -> int:
    """Stop sessions and delete them permanently."""
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_rm, screen, sessions))


async def _rm(screen: Screen, sessions: tuple[str, ...]) -> None:
    async with open_target(screen) as sup:
        for session in sessions:
            found = await find_exact_session(sup, session)
            async with progress(screen, "deleting"):
                await sup.delete(found.id)
            if screen.as_json:
                screen.data({"session_id": found.id, "deleted": True})
            else:
                screen.line(f"{found.id}  deleted")


@click.command()
@click.argument("session", metavar="ID")
@click.argument("name", metavar="NAME")
@json_option
def rename(*, session: str, name: str, as_json: bool) -> int:
    """Give a session another name, unless another session of its scope holds that."""

    async def do(found: Session) -> None:
        await found.set(name=name)

    return _apply(session, do, "renaming", as_json=as_json)


def _apply(
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
    named = f"  {one_line(info.name)}" if info.name else ""
    screen.line(Cell(info.id, "bold"), "  ", badge_cell(info.badge), f"{reason}{archived}{named}")
