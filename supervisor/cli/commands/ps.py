"""`understudy ps` and `understudy tree`: list sessions, those that need a person first."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs
import click
import orjson

from supervisor.cli.async_runner import run_reading
from supervisor.cli.options import BADGE, FILTER, PHASE, Count, json_option, state_option
from supervisor.cli.output import Screen
from supervisor.cli.session_table import print_sessions, tree_lines
from supervisor.cli.target import find_session, open_target
from supervisor.cli.text_format import Cell, counted, cut_note
from supervisor.core.info import NEEDS, need_of
from supervisor.core.session_values import Phase

if TYPE_CHECKING:
    from supervisor.cli.target import Target
    from supervisor.core.info import Info


_PAGE_SIZE: Final = 500
_WATCH_SECONDS: Final = 2.0


@click.command()
@state_option
@click.option("-a", "--all", "with_stopped", is_flag=True, help="Include stopped sessions.")
@click.option("-q", "--quiet", "ids_only", is_flag=True, help="Print only ids.")
@click.option("-w", "--watch", "repeats", is_flag=True, help="Repaint the list every 2 seconds.")
@click.option("--agent", metavar="NAME", type=FILTER, help="Only sessions of this agent.")
@click.option("--phase", metavar="PHASE", type=PHASE, help="Only sessions in this phase.")
@click.option("--badge", metavar="BADGE", type=BADGE, help="Only sessions with this badge.")
@click.option("--tag", metavar="TAG", type=FILTER, help="Only sessions with this tag.")
@click.option(
    "--workspace", metavar="PATH", type=FILTER, help="Only sessions that work in this folder."
)
@click.option(
    "--text", metavar="TEXT", type=FILTER, help="Only with this text in name, title or key."
)
@click.option(
    "--limit",
    default=100,
    show_default=True,
    metavar="COUNT",
    type=Count(1),
    help="Maximum number of sessions.",
)
@json_option
def ps(
    *,
    state: str | None,
    as_json: bool,
    with_stopped: bool,
    ids_only: bool,
    repeats: bool,
    limit: int,
    **filters: Any,  # noqa: ANN401 - click's options
) -> int:
    """List sessions, those that need you first.

    The order is: waiting for you, hung, failed, finished since you looked, running, idle, resting;
    the newest first. A session that failed is listed until you have seen it (`show`) or archived
    it. Other stopped sessions are listed with --all, --phase or --badge.
    """
    screen = Screen(as_json=as_json)
    asked = {name: value for name, value in filters.items() if value is not None}
    # A phase or a badge selects stopped sessions too.
    include_stopped = with_stopped or "phase" in asked or "badge" in asked
    wanted = _Wanted(asked, include_stopped=include_stopped, limit=limit, ids_only=ids_only)
    if repeats and (as_json or ids_only or not screen.is_ansi_terminal):
        screen.note("Not on a terminal, so the list is printed once.")
        repeats = False
    work = partial(_watch if repeats else _ps, screen, state, wanted)
    return run_reading(screen, state, work)


@attrs.frozen
class _Wanted:
    """The filters of a list, and how much of it is shown."""

    asked: dict[str, Any]
    include_stopped: bool = attrs.field(kw_only=True)
    limit: int = attrs.field(kw_only=True)
    ids_only: bool = attrs.field(kw_only=True)


async def _ps(screen: Screen, state: str | None, wanted: _Wanted) -> None:
    async with open_target(screen, state=state, access="read") as sup:
        found, hidden = await _list_sessions(sup, wanted)
        # The phase of a damaged session is unknown. Finding them reads all rows.
        damaged = (await sup.stats()).damaged if wanted.include_stopped else ()
    shown = found[: wanted.limit]
    if screen.as_json:
        data: dict[str, Any] = {"items": shown, "next": None}
        screen.data(data | ({"damaged": damaged} if wanted.include_stopped else {}))
        return
    if wanted.ids_only:
        for info in shown:
            screen.line(info.id)
        return
    print_sessions(screen, shown)
    if len(shown) < len(found):
        screen.note(cut_note("first", len(shown), "session"))
    elif hidden:
        are, them = ("is", "it") if hidden == 1 else ("are", "them")
        screen.note(f"{counted(hidden, 'stopped session')} {are} not shown; --all shows {them}.")
    elif not found and not damaged:
        screen.note("No sessions.")
    for session_id in damaged:
        screen.note(f"{session_id} is damaged; `understudy repair {session_id}` shows why.")


async def _watch(screen: Screen, state: str | None, wanted: _Wanted) -> None:
    """Repaint the list until Ctrl-C, as much of it as the terminal has lines for."""
    while True:
        async with open_target(screen, state=state, access="read") as sup:
            found, _ = await _list_sessions(sup, wanted)
        rows = os.get_terminal_size().lines - 3
        screen.write("\x1b[H\x1b[J")
        clock = time.strftime("%H:%M:%S")
        screen.line(Cell(f"{counted(len(found), 'session')}, {clock}", "dim"))
        print_sessions(screen, found[: min(rows, wanted.limit)])
        if state is None:
            time.sleep(_WATCH_SECONDS)  # noqa: ASYNC251 - runs without trio; Ctrl-C ends it
        else:
            import trio  # noqa: PLC0415 - only for a file

            await trio.sleep(_WATCH_SECONDS)


async def _list_sessions(sup: Target, wanted: _Wanted) -> tuple[list[Info], int]:
    """Return the sessions to show by need, and the number of hidden stopped sessions."""
    found: list[Info] = []
    hidden = 0
    cursor: str | None = None
    while True:
        page = await sup.list(**wanted.asked, limit=_PAGE_SIZE, cursor=cursor)
        for info in page.items:
            if (
                wanted.include_stopped
                or info.phase is not Phase.STOPPED
                or need_of(info) != "resting"
            ):
                found.append(info)
            else:
                hidden += 1
        cursor = page.next
        if cursor is None:
            found.sort(key=lambda info: (NEEDS.index(need_of(info)), -info.last_active_at))
            return found, hidden


@click.command()
@click.argument("session", metavar="[ID]", required=False)
@state_option
@json_option
def tree(*, session: str | None, state: str | None, as_json: bool) -> int:
    """Show every tree with a live session, or the tree below one session."""
    screen = Screen(as_json=as_json)
    return run_reading(screen, state, partial(_tree, screen, state, session))


async def _tree(screen: Screen, state: str | None, session: str | None) -> None:
    async with open_target(screen, state=state, access="read") as sup:
        root = None if session is None else (await find_session(sup, session)).id
        roots = await sup.tree(root)
    if screen.as_json:
        from supervisor.api.encode import encode  # noqa: PLC0415 - only for this output

        # Encoded apart: a tree may be deeper than the limits of the JSON encoders.
        items = [orjson.Fragment(encode(root)) for root in roots]
        screen.data({"items": items, "next": None})
        return
    if not roots:
        screen.note("No live sessions. `understudy ps --all` lists stopped ones.")
        return
    for line in tree_lines(roots, with_box_characters=screen.has_box_characters):
        screen.line(*screen.fit(line))
