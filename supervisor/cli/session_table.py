"""Lists and trees of sessions for people, at the width of the terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from .output import Screen
from .session_cells import (
    attention_text,
    format_cost,
    format_tokens,
    shorten_ids,
    state_cell,
)
from .text_format import Cell, cell_width, format_age

if TYPE_CHECKING:
    from supervisor.core.info import Info, Node

_NAME: Final = "NAME"
_ABOUT: Final = "ABOUT"
# Left out on a narrow terminal, in this order, until the others fit.
_DROPPED: Final = ("AGENT", "COST", "TOKENS", _ABOUT)
# A column that may be cut is not cut below this width while another column can be left out.
_READABLE_WIDTH: Final = 12
_GAP: Final = 2


def print_sessions(screen: Screen, found: Sequence[Info]) -> None:
    """Print one line for each session; on a narrow terminal with fewer columns."""
    if not found:
        return
    columns = _columns(found, time.time())
    if screen.width is not None:
        _drop_columns(columns, screen.width)
    names = list(columns)
    shrinkable = [place for place, name in enumerate(names) if name in (_NAME, _ABOUT)]
    screen.table(names, zip(*columns.values(), strict=True), shrinkable=shrinkable)


def _columns(found: Sequence[Info], now: float) -> dict[str, list[Cell]]:
    """Return the cells by column; a column without contents is left out."""
    shorter = shorten_ids(info.id for info in found)
    columns = {
        _NAME: [_name_cell(info) for info in found],
        "ID": [Cell(shorter[info.id], "dim") for info in found],
        "STATE": [state_cell(info) for info in found],
        "ACTIVE": [Cell(format_age(now - info.last_active_at)) for info in found],
        "AGENT": [Cell(info.agent) for info in found],
        "QUEUED": [Cell(str(info.queued) if info.queued else "") for info in found],
        "TOKENS": [Cell(format_tokens(_tokens(info))) for info in found],
        "COST": [Cell(format_cost(info.usage.cost)) for info in found],
        _ABOUT: [_about_cell(info) for info in found],
    }
    return {name: cells for name, cells in columns.items() if any(cell.text for cell in cells)}


def _tokens(info: Info) -> int:
    return info.usage.input_tokens + info.usage.output_tokens


def _name_cell(info: Info) -> Cell:
    if info.name is not None:
        return Cell(info.name, "bold")
    return Cell(info.title or info.key or "-", "dim")


def _about_cell(info: Info) -> Cell:
    problem = attention_text(info)
    if problem is not None:
        return Cell(problem, "yellow")
    return Cell(info.title or "" if info.name is not None else "", "dim")


def _drop_columns(columns: dict[str, list[Cell]], width: int) -> None:
    """Leave out columns until the others fit, each of those that can be cut readable."""
    for name in _DROPPED:
        if _least_width(columns) <= width:
            return
        columns.pop(name, None)


def _least_width(columns: dict[str, list[Cell]]) -> int:
    widths = []
    for name, cells in columns.items():
        whole = max(len(name), *(cell_width(cell.text) for cell in cells))
        widths.append(min(whole, _READABLE_WIDTH) if name in (_NAME, _ABOUT) else whole)
    return sum(widths) + _GAP * (len(widths) - 1)


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
    cells = [Cell(node.id, "bold"), Cell("  "), state_cell(node), Cell(f"  {node.agent}")]
    if said:
        cells.append(Cell(f"  {said}", "dim"))
    problem = attention_text(node)
    if problem:
        cells.append(Cell(f"  {problem}", "yellow"))
    elif node.waiting_for:
        cells.append(Cell(f"  waits for {node.waiting_for}", "yellow"))
    return cells
