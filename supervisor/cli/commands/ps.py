"""`understudy ps` and `understudy tree`: list sessions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import orjson

from supervisor.cli.async_runner import run_reading
from supervisor.cli.options import BADGE, PHASE, TEXT, Count, json_option, state_option
from supervisor.cli.output import Screen
from supervisor.cli.target import find_session, open_target
from supervisor.cli.text_format import Cell, badge_cell, counted, cut_note, format_age

if TYPE_CHECKING:
    from supervisor.cli.target import Target
    from supervisor.core.info import Info, Node


HEADERS = ("ID", "AGENT", "BADGE", "TURNS", "QUEUED", "ACTIVE", "NAME: TITLE")


@click.command()
@state_option
@click.option("-a", "--all", "with_stopped", is_flag=True, help="Include stopped sessions.")
@click.option("--agent", metavar="NAME", type=TEXT, help="Only sessions of this agent.")
@click.option("--phase", metavar="PHASE", type=PHASE, help="Only sessions in this phase.")
@click.option("--badge", metavar="BADGE", type=BADGE, help="Only sessions with this badge.")
@click.option("--tag", metavar="TAG", type=TEXT, help="Only sessions with this tag.")
@click.option(
    "--text", metavar="TEXT", type=TEXT, help="Only with this text in name, title or key."
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
def ps(*, state: str | None, as_json: bool, with_stopped: bool, limit: int, **filters: Any) -> int:  # noqa: ANN401 - click's options
    """List sessions, oldest first; stopped ones only with --all, --phase or --badge."""
    screen = Screen(as_json=as_json)
    asked = {name: value for name, value in filters.items() if value is not None}
    # A phase or a badge selects stopped sessions too.
    include_stopped = with_stopped or "phase" in asked or "badge" in asked
    work = partial(_ps, screen, state, asked, include_stopped=include_stopped, limit=limit)
    return run_reading(screen, state, work)


async def _ps(
    screen: Screen, state: str | None, asked: dict[str, Any], *, include_stopped: bool, limit: int
) -> None:
    async with open_target(screen, state=state, access="read") as sup:
        found, hidden, cursor = await _list_sessions(
            sup, asked, include_stopped=include_stopped, limit=limit
        )
        # The phase of a damaged session is unknown. Finding them reads all rows.
        damaged = (await sup.stats()).damaged if include_stopped else ()
    if screen.as_json:
        screen.data(
            {"items": found, "next": cursor} | ({"damaged": damaged} if include_stopped else {})
        )
        return
    if found:
        now = time.time()
        screen.table(HEADERS, [_row(info, now) for info in found], shrinkable=[len(HEADERS) - 1])
    if cursor is not None:
        screen.note(cut_note("first", len(found), "session"))
    elif hidden:
        are, them = ("is", "it") if hidden == 1 else ("are", "them")
        screen.note(f"{counted(hidden, 'stopped session')} {are} not shown; --all shows {them}.")
    elif not found and not damaged:
        screen.note("No sessions.")
    for session_id in damaged:
        screen.note(f"{session_id} is damaged; `understudy repair {session_id}` shows why.")


async def _list_sessions(
    sup: Target, asked: dict[str, Any], *, include_stopped: bool, limit: int
) -> tuple[list[Info], int, str | None]:
    """Return the sessions to show, the number of hidden stopped sessions, and the next cursor."""
    found: list[Info] = []
    hidden = 0
    cursor: str | None = None
    while True:
        page = await sup.list(**asked, limit=limit - len(found), cursor=cursor)
        for info in page.items:
            if include_stopped or info.phase != "stopped":
                found.append(info)
            else:
                hidden += 1
        cursor = page.next
        if cursor is None or len(found) >= limit:
            return found, hidden, cursor


def _row(info: Info, now: float) -> tuple[Cell | str, ...]:
    return (
        info.id,
        info.agent,
        badge_cell(info.badge),
        str(info.turns),
        str(info.queued) if info.queued else "",
        format_age(now - info.last_active_at),
        ": ".join(said for said in (info.name, info.title) if said),
    )


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


def tree_lines(roots: Sequence[Node], *, with_box_characters: bool) -> Iterator[list[Cell]]:
    """Yield one line for each session, children connected to their parent.

    A tree may be deeper than the stack of Python, so this is not recursive.
    """
    corners = ("├─ ", "└─ ") if with_box_characters else ("|- ", "`- ")
    lines = ("│  ", "   ") if with_box_characters else ("|  ", "   ")
    # The nodes to show, the next one last, with what stands before a node and before its children.
    waiting = [(root, "", "") for root in reversed(roots)]
    while waiting:
        node, first, rest = waiting.pop()
        yield [Cell(first, "dim"), *_node_cells(node)]
        for number, child in enumerate(reversed(node.children)):
            is_last = number == 0
            waiting.append((child, rest + corners[is_last], rest + lines[is_last]))


def _node_cells(node: Node) -> list[Cell]:
    said = node.name or node.title
    cells = [Cell(node.id, "bold"), Cell("  "), badge_cell(node.badge), Cell(f"  {node.agent}")]
    if said:
        cells.append(Cell(f"  {said}", "dim"))
    if node.waiting_for:
        cells.append(Cell(f"  waits for {node.waiting_for}", "yellow"))
    return cells
