"""`understudy ps` and `understudy tree`: list sessions, those that need a person first."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

import attrs
import click
import orjson

from supervisor.cli.async_runner import run_reading
from supervisor.cli.options import FILTER, PHASE, STATE, Count, json_option, state_option
from supervisor.cli.output import Screen
from supervisor.cli.session_cells import state_words
from supervisor.cli.session_table import print_sessions, print_tree, roots_elsewhere
from supervisor.cli.target import find_session, open_target
from supervisor.cli.text_format import Cell, counted, cut_note
from supervisor.core.errors import short_repr
from supervisor.core.info import NEEDS, Badge, need_of
from supervisor.core.session_values import Phase

if TYPE_CHECKING:
    from supervisor.cli.target import Target
    from supervisor.core.info import Info


# What the list is sorted by: the need, the time of the last activity (newest first), the id.
ListPlace: TypeAlias = tuple[int, float, str]

_PAGE_SIZE: Final = 500
# Each name is a request.
_MAX_ROOTS_NAMED: Final = 20
# Shown only for sessions that have the badge; failed is also the word for a turn that failed.
_EXACT_BADGES: Final = frozenset(get_args(Badge)) - {"failed"}
_WATCH_SECONDS: Final = 2.0


@click.command()
@state_option
@click.option("-a", "--all", "with_stopped", is_flag=True, help="Include stopped sessions.")
@click.option("-q", "--quiet", "ids_only", is_flag=True, help="Print only ids.")
@click.option("-w", "--watch", "repeats", is_flag=True, help="Repaint the list every 2 seconds.")
@click.option("--agent", metavar="NAME", type=FILTER, help="Only sessions of this agent.")
@click.option("--phase", metavar="PHASE", type=PHASE, help="Only sessions in this phase.")
@click.option(
    "--badge", metavar="STATE", type=STATE, help="Only sessions with this STATE, or this badge."
)
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
@click.option("--cursor", metavar="NEXT", help="Continue a list; --json prints `next`.")
@json_option
def ps(
    *,
    state: str | None,
    as_json: bool,
    with_stopped: bool,
    ids_only: bool,
    repeats: bool,
    limit: int,
    cursor: str | None,
    **filters: Any,  # noqa: ANN401 - click's options
) -> int:
    """List sessions, those that need you first.

    The order is: waiting for you, hung, failed, finished since you looked, running, idle, resting;
    the newest first. A session that failed is listed until you have seen it (`show`) or archived
    it. Other stopped sessions are listed with --all, --phase or --badge.

    STATE is the badge, or for an idle session what you have not seen: a turn that failed or
    finished. Such a session has the badge idle. --badge takes both, with - for a blank:
    turn-failed.
    """
    screen = Screen(as_json=as_json)
    asked = {name: value for name, value in filters.items() if value is not None}
    # A phase or a badge selects stopped sessions too.
    include_stopped = with_stopped or "phase" in asked or "badge" in asked
    state_word = asked.pop("badge", None)
    if state_word in _EXACT_BADGES:
        asked["badge"], state_word = state_word, None
    wanted = WantedSessions(
        asked,
        include_stopped=include_stopped,
        state_word=state_word,
        limit=limit,
        ids_only=ids_only,
        after=None if cursor is None else _decode_place(cursor),
    )
    if repeats and (as_json or ids_only or not screen.is_ansi_terminal):
        screen.note("Not on a terminal, so the list is printed once.")
        repeats = False
    work = partial(_watch if repeats else _ps, screen, state, wanted)
    return run_reading(screen, state, work)


@attrs.frozen
class WantedSessions:
    """The filters of a list, and how much of it is shown."""

    asked: dict[str, Any] = attrs.field(factory=dict)
    include_stopped: bool = attrs.field(default=False, kw_only=True)
    # A word of the column STATE, which the daemon does not compare.
    state_word: str | None = attrs.field(default=None, kw_only=True)
    limit: int = attrs.field(default=100, kw_only=True)
    ids_only: bool = attrs.field(default=False, kw_only=True)
    after: ListPlace | None = attrs.field(default=None, kw_only=True)


async def _ps(screen: Screen, state: str | None, wanted: WantedSessions) -> None:
    async with open_target(screen, state=state, access="read") as sup:
        found, hidden = await list_sessions(sup, wanted)
        # The phase of a damaged session is unknown. Finding them reads all rows.
        damaged = (await sup.stats()).damaged if wanted.include_stopped else ()
        shown = found[: wanted.limit]
        is_table = not (screen.as_json or wanted.ids_only)
        roots = await _root_names(sup, shown) if is_table else {}
    if screen.as_json:
        is_cut = len(shown) < len(found)
        data: dict[str, Any] = {
            "items": shown,
            "next": _encode_place(shown[-1]) if is_cut else None,
        }
        screen.data(data | ({"damaged": damaged} if wanted.include_stopped else {}))
        return
    if wanted.ids_only:
        for info in shown:
            screen.line(info.id)
        return
    print_sessions(screen, shown, roots=roots)
    if len(shown) < len(found):
        screen.note(cut_note("first", len(shown), "session"))
    elif hidden:
        are, them = ("is", "it") if hidden == 1 else ("are", "them")
        screen.note(f"{counted(hidden, 'stopped session')} {are} not shown; --all shows {them}.")
    elif not found and not damaged:
        screen.note("No sessions.")
    for session_id in damaged:
        screen.note(f"{session_id} is damaged; `understudy repair {session_id}` shows why.")


async def _watch(screen: Screen, state: str | None, wanted: WantedSessions) -> None:
    """Repaint the list until Ctrl-C, as much of it as the terminal has lines for."""
    while True:
        # Shown with each list: a note before it would be painted over.
        notes = io.StringIO()
        async with open_target(Screen(err=notes), state=state, access="read") as sup:
            found, _ = await list_sessions(sup, wanted)
            shown = found[: wanted.limit]
            roots = await _root_names(sup, shown)
        said = notes.getvalue().split("\n")[:-1]
        rows = os.get_terminal_size().lines - 3 - len(said)
        screen.write("\x1b[H\x1b[J")
        clock = time.strftime("%H:%M:%S")
        screen.line(Cell(f"{counted(len(found), 'session')}, {clock}", "dim"))
        for note in said:
            screen.line(Cell(note, "red"))
        print_sessions(screen, shown[: max(0, rows)], roots=roots, is_repainted=True)
        await _pause()


async def _root_names(sup: Target, shown: Sequence[Info]) -> dict[str, str]:
    """Return the names of roots of children that a filter has left alone, of the first of them."""
    pages = [await sup.resolve(one, "session") for one in roots_elsewhere(shown)[:_MAX_ROOTS_NAMED]]
    return {match.id: match.name for page in pages for match in page.items if match.name}


async def _pause() -> None:
    from supervisor.client.running_loop import is_in_event_loop  # noqa: PLC0415 - not for one list

    if is_in_event_loop():
        import trio  # noqa: PLC0415 - for a file, or while the daemon does not run

        await trio.sleep(_WATCH_SECONDS)
    else:
        time.sleep(_WATCH_SECONDS)  # noqa: ASYNC251 - runs without trio; Ctrl-C ends it


async def list_sessions(sup: Target, wanted: WantedSessions) -> tuple[list[Info], int]:
    """Return the sessions to show by need, and the number of hidden stopped sessions."""
    found: list[Info] = []
    hidden = 0
    cursor: str | None = None
    while True:
        page = await sup.list(**wanted.asked, limit=_PAGE_SIZE, cursor=cursor)
        for info in page.items:
            if wanted.state_word is not None and wanted.state_word not in state_words(info):
                continue
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
            found.sort(key=_place)
            if wanted.after is not None:
                found = [info for info in found if _place(info) > wanted.after]
            return found, hidden


def _place(info: Info) -> ListPlace:
    return NEEDS.index(need_of(info)), -info.last_active_at, info.id


def _encode_place(info: Info) -> str:
    import base64  # noqa: PLC0415 - only for a list that is cut

    return base64.urlsafe_b64encode(orjson.dumps(_place(info))).decode()


def _decode_place(cursor: str) -> ListPlace:
    """Return the place that a cursor stands for; raise click's `UsageError` if there is none."""
    import base64  # noqa: PLC0415 - only for a list that goes on

    try:
        need, active, session_id = orjson.loads(base64.urlsafe_b64decode(cursor))
        return int(need), float(active), str(session_id)
    except (ValueError, TypeError):
        raise click.UsageError(
            f"{short_repr(cursor)} is no cursor; --cursor wants the `next` of `ps --json`."
        ) from None


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
    print_tree(screen, roots)
