"""`stop`, `resume`, `fork`, `clear`, `rename`, `archive` and `rm`: change a whole session.

Each prints the resulting state of the session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import attrs
import click

from supervisor.cli.async_runner import run_async, run_requests
from supervisor.cli.bulk import AppliesTo, Bulk, confirmed, read_sessions, sessions_argument
from supervisor.cli.failures import OK
from supervisor.cli.options import NAME, json_option
from supervisor.cli.output import Screen
from supervisor.cli.progress_bar import progress
from supervisor.cli.result_output import show_created
from supervisor.cli.target import find_exact_session, find_id, find_session, open_target
from supervisor.cli.text_format import Cell, badge_cell, counted
from supervisor.cli.wait_words import reason_words
from supervisor.core.errors import NameTaken
from supervisor.core.text import one_line

if TYPE_CHECKING:
    from supervisor.cli.target import Target
    from supervisor.core.info import Info
    from supervisor.handles.session import Session

# Changes a session, and may return what else was changed.
SessionChange: TypeAlias = "Callable[[Target, Session], Awaitable[str | None]]"


@click.command()
@sessions_argument
@click.option("--after-turn", is_flag=True, help="Let the running turn end first.")
@json_option
def stop(*, sessions: tuple[str, ...], tag: str | None, after_turn: bool, as_json: bool) -> int:
    """Stop sessions and their with_parent children, and wait until they have stopped."""

    async def do(sup: Target, found: Session) -> str | None:
        below = 0 if as_json else await _count_dependents(sup, found)
        await found.stop(when="after_turn" if after_turn else "now")
        return f"with {counted(below, 'descendant')}" if below else None

    named = _Named(sessions, tag, _is_live)
    # On trio, because a stop after the turn watches the session.
    return _apply_to_all(named, do, "stopping", as_json=as_json, run=run_async)


@click.command()
@sessions_argument
@json_option
def resume(*, sessions: tuple[str, ...], tag: str | None, as_json: bool) -> int:
    """Start stopped sessions again, with their history and their queued inputs."""

    async def do(_: Target, found: Session) -> None:
        await found.resume()

    named = _Named(sessions, tag, _is_stopped)
    return _apply_to_all(named, do, "resuming", as_json=as_json)


@click.command()
@click.argument("session", metavar="ID")
@json_option
def clear(*, session: str, as_json: bool) -> int:
    """Start a new chapter: an empty conversation; the old records stay readable."""

    async def do(_: Target, found: Session) -> None:
        await found.clear()

    return _apply(session, do, "clearing", as_json=as_json)


@click.command()
@sessions_argument
@click.option("--undo", is_flag=True, help="Make them writable again.")
@json_option
def archive(*, sessions: tuple[str, ...], tag: str | None, undo: bool, as_json: bool) -> int:
    """Make stopped sessions read-only and free their keys and names."""

    async def do(_: Target, found: Session) -> None:
        await (found.unarchive() if undo else found.archive())

    named = _Named(sessions, tag, _is_archived if undo else _is_stopped)
    return _apply_to_all(named, do, "archiving", as_json=as_json)


@click.command()
@click.argument("session", metavar="ID")
@click.option("--at-turn", metavar="TURN", help="Copy the history up to the end of this turn.")
@click.option("--name", metavar="NAME", type=NAME, help="Name of the new session.")
@json_option
def fork(*, session: str, at_turn: str | None, name: str | None, as_json: bool) -> int:
    """Create a session with the same history and print its id.

    Without --name it has the name of the session with a number.
    """
    screen = Screen(as_json=as_json)
    return run_requests(screen, partial(_fork, screen, session, at_turn, name))


async def _fork(screen: Screen, session: str, at_turn: str | None, name: str | None) -> None:
    async with open_target(screen) as sup, progress(screen, "forking"):
        found = await find_session(sup, session)
        if at_turn is not None:
            at_turn = await find_id(sup, "turn", at_turn, session=found)
        made = await found.fork(at_turn=at_turn, name=name)
        show_created(screen, await made.info())


@click.command()
@sessions_argument
@click.option("--yes", "-y", is_flag=True, help="Delete several sessions without asking.")
@json_option
def rm(*, sessions: tuple[str, ...], tag: str | None, yes: bool, as_json: bool) -> int:
    """Stop sessions and delete them permanently. Needs whole ids, names of roots, paths or a tag.

    On a terminal, several sessions are deleted only after a confirmation.
    """
    screen = Screen(as_json=as_json)
    bulk = Bulk(screen, read_sessions(sessions, tag), tag, _is_any)
    confirm = None if yes else partial(confirmed, screen, "Delete")
    return run_requests(screen, partial(_rm, bulk, confirm))


async def _rm(bulk: Bulk, confirm: Callable[[list[str]], bool] | None) -> int:
    screen = bulk.screen
    async with open_target(screen) as sup:

        async def delete(found: Session, _: str) -> int:
            async with progress(screen, "deleting"):
                await sup.delete(found.id)
            if screen.as_json:
                screen.data({"session_id": found.id, "deleted": True})
            else:
                screen.line(f"{found.id}  deleted")
            return OK

        return await bulk.run(sup, delete, find=find_exact_session, confirm=confirm)


@click.command()
@click.argument("session", metavar="ID")
@click.argument("name", metavar="NAME", type=NAME)
@json_option
def rename(*, session: str, name: str, as_json: bool) -> int:
    """Give a session another name, unless another session of its scope holds that.

    The scope of a root is all roots, that of a child its tree. Children of two trees may have the
    same name: a path, builder/tests, finds one of them.
    """

    async def do(_: Target, found: Session) -> None:
        try:
            await found.set(name=name)
        except NameTaken as error:
            raise NameTaken(
                str(error.args[0]),
                hint=f"{error.hint}; only a child of another tree may have the same name, and its"
                " path finds it: builder/tests",
            ) from None

    return _apply(session, do, "renaming", as_json=as_json)


@attrs.frozen
class _Named:
    """The sessions of a bulk command: their names, or a tag and the sessions it applies to."""

    sessions: tuple[str, ...]
    tag: str | None
    applies: AppliesTo


def _is_any(_: Info) -> bool:
    return True


def _is_live(info: Info) -> bool:
    return info.phase != "stopped"


def _is_stopped(info: Info) -> bool:
    return info.phase == "stopped" and not info.archived


def _is_archived(info: Info) -> bool:
    return info.archived


def _apply_to_all(
    named: _Named,
    do: SessionChange,
    doing: str,
    *,
    as_json: bool,
    run: Callable[..., int] = run_requests,
) -> int:
    screen = Screen(as_json=as_json)
    bulk = Bulk(screen, read_sessions(named.sessions, named.tag), named.tag, named.applies)

    async def change(sup: Target, found: Session, _: str) -> int:
        async with progress(screen, doing):
            more = await do(sup, found)
        _show(screen, await found.info(), more)
        return OK

    async def work() -> int:
        async with open_target(screen) as sup:
            return await bulk.run(sup, partial(change, sup))

    return run(screen, work)


def _apply(
    session: str,
    do: SessionChange,
    doing: str,
    *,
    as_json: bool,
) -> int:
    return _apply_to_all(_Named((session,), None, _is_any), do, doing, as_json=as_json)


async def _count_dependents(sup: Target, session: Session) -> int:
    """Return the number of descendants that stop with the session."""
    if not (await session.info()).children:
        return 0
    count, waiting = 0, list(await sup.tree(session.id))
    while waiting:
        below = [
            node
            for node in waiting.pop().children
            if node.lifetime == "with_parent" and node.phase != "stopped"
        ]
        count += len(below)
        waiting += below
    return count


def _show(screen: Screen, info: Info, more: str | None) -> None:
    if screen.as_json:
        screen.data(info)
        return
    reason = f"  {reason_words(info.stop_reason)}" if info.stop_reason else ""
    archived = "  archived" if info.archived else ""
    named = f"  {one_line(info.name)}" if info.name else ""
    what = f"{reason}{archived}{named}{'' if more is None else f', {more}'}"
    screen.line(Cell(info.id, "bold"), "  ", badge_cell(info.badge), what)
