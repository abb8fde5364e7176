"""`understudy tree`: who is below whom, and how they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from supervisor.cli.ground.finding import find_session
from supervisor.cli.ground.options import json_option, state_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.columns import Cell, badge
from supervisor.cli.terminal.screen import Screen

if TYPE_CHECKING:
    from supervisor.core.info import Node


@click.command()
@click.argument("session", metavar="[ID]", required=False)
@state_option
@json_option
def tree(*, session: str | None, state: str | None, as_json: bool) -> int:
    """Show every tree in which somebody lives, or what is below one session."""
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_tree, screen, state, session))


async def _tree(screen: Screen, state: str | None, session: str | None) -> None:
    async with open_target(screen, state=state, access="read") as sup:
        root = None if session is None else (await find_session(sup, session)).id
        roots = await sup.tree(root)
    if screen.as_json:
        screen.data(roots)
        return
    if not roots:
        screen.note("No session lives. `understudy ps --all` lists those that are stopped.")
        return
    for line in branches(roots, drawn=screen.has_box_characters):
        screen.line(*screen.fit(line))


def branches(roots: Sequence[Node], *, drawn: bool) -> Iterator[list[Cell]]:
    """One line for each session, those below another behind a line that leads to it."""
    for root in roots:
        yield from _below(root, "", "", drawn=drawn)


def _below(node: Node, first: str, rest: str, *, drawn: bool) -> Iterator[list[Cell]]:
    yield [Cell(first, "dim"), *_named(node)]
    children = node.children
    for number, child in enumerate(children, 1):
        is_last = number == len(children)
        corner, line = ("└─ " if is_last else "├─ ", "   " if is_last else "│  ")
        if not drawn:
            corner, line = ("`- " if is_last else "|- ", "   " if is_last else "|  ")
        yield from _below(child, rest + corner, rest + line, drawn=drawn)


def _named(node: Node) -> list[Cell]:
    said = node.name or node.title
    cells = [Cell(node.id, "bold"), Cell("  "), badge(node.badge), Cell(f"  {node.agent}")]
    if said:
        cells.append(Cell(f"  {said}", "dim"))
    if node.waiting_for:
        cells.append(Cell(f"  waits for {node.waiting_for}", "yellow"))
    return cells
