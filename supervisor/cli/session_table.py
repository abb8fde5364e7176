"""Lists and trees of sessions for people, at the width of the terminal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from .output import Screen
from .safe import without_breaks
from .session_cells import (
    about_cell,
    format_cost,
    format_tokens,
    name_cell,
    shorten_ids,
    state_cell,
)
from .text_format import Cell, cell_width, format_age

if TYPE_CHECKING:
    from supervisor.core.info import Info, Node

_NAME: Final = "NAME"
_ABOUT: Final = "ABOUT"
# Left out on a narrow terminal, in this order, until the others fit.
_DROPPED: Final = ("AGENT", "COST", "QUEUED", "TOKENS", _ABOUT)
# Of a list that is repainted: so wide that ordinary contents do not move the columns behind.
_STEADY_WIDTHS: Final = {"STATE": 17, "ACTIVE": 6, "QUEUED": 6, "TOKENS": 6, "COST": 5}
# A column that may be cut is not cut below this width while another column can be left out.
_READABLE_WIDTH: Final = 12
_GAP: Final = 2
# Names behind the lines of a deep tree do not move the columns further than this.
_MAX_TREE_WIDTH: Final = 48
_TREE_COLUMNS: Final = (_NAME, "ID", "STATE", "AGENT", _ABOUT)


def print_sessions(
    screen: Screen,
    found: Sequence[Info],
    *,
    roots: Mapping[str, str] = MappingProxyType({}),
    is_repainted: bool = False,
) -> None:
    """Print one line for each session; on a narrow terminal with fewer columns.

    `roots` has the names of roots that are not in the list themselves. The columns of a list that
    is repainted keep their places.
    """
    if not found:
        return
    columns = _columns(found, roots, time.time())
    least = _STEADY_WIDTHS if is_repainted else {}
    for name in [name for name, cells in columns.items() if not any(cell.text for cell in cells)]:
        if name not in least:
            del columns[name]
    if screen.width is not None:
        _drop_columns(columns, screen.width, least)
    names = list(columns)
    shrinkable = [place for place, name in enumerate(names) if name in (_NAME, _ABOUT)]
    widths = {place: least[name] for place, name in enumerate(names) if name in least}
    rows = zip(*columns.values(), strict=True)
    screen.table(names, rows, shrinkable=shrinkable, least=widths)


def roots_elsewhere(found: Sequence[Info]) -> list[str]:
    """Return the ids of roots whose names `print_sessions` needs, and that are not in the list."""
    listed = {info.id for info in found}
    named = (info for info in found if info.parent is not None and info.name is not None)
    return [one for one in dict.fromkeys(info.root for info in named) if one not in listed]


def _columns(found: Sequence[Info], roots: Mapping[str, str], now: float) -> dict[str, list[Cell]]:
    """Return the cells by column."""
    shorter = shorten_ids(info.id for info in found)
    return {
        _NAME: _name_cells(found, roots, shorter),
        "ID": [Cell(shorter[info.id], "dim") for info in found],
        "STATE": [state_cell(info) for info in found],
        "ACTIVE": [Cell(format_age(now - info.last_active_at)) for info in found],
        "AGENT": [Cell(info.agent) for info in found],
        "QUEUED": [Cell(str(info.queued) if info.queued else "") for info in found],
        "TOKENS": [Cell(format_tokens(_tokens(info))) for info in found],
        "COST": [Cell(format_cost(info.usage.cost)) for info in found],
        _ABOUT: [about_cell(info) for info in found],
    }


def _name_cells(
    found: Sequence[Info], roots: Mapping[str, str], shorter: Mapping[str, str]
) -> list[Cell]:
    """Return for each session a word that names it; a name of several is that of the root alone.

    A child whose root is not in the list is named by its path.
    """
    counts = Counter(info.name for info in found)
    names = {info.id: info.name for info in found}
    cells = [name_cell(info, shorter[info.id]) for info in found]
    for place, info in enumerate(found):
        if info.parent is None or info.name is None:
            continue
        is_shared = counts[info.name] > 1
        root = (names.get(info.root) if is_shared else None) or roots.get(info.root)
        if root is not None:
            cells[place] = Cell(f"{root}/{info.name}", "bold")
        elif is_shared:
            cells[place] = Cell(shorter[info.id], "dim")
    return cells


def _tokens(info: Info) -> int:
    return info.usage.input_tokens + info.usage.output_tokens


def _drop_columns(columns: dict[str, list[Cell]], width: int, least: Mapping[str, int]) -> None:
    """Leave out columns until the others fit, each of those that can be cut readable."""
    for name in _DROPPED:
        if _least_width(columns, least) <= width:
            return
        columns.pop(name, None)


def _least_width(columns: dict[str, list[Cell]], least: Mapping[str, int]) -> int:
    widths = []
    for name, cells in columns.items():
        whole = max(len(name), least.get(name, 0), *(cell_width(cell.text) for cell in cells))
        widths.append(min(whole, _READABLE_WIDTH) if name in (_NAME, _ABOUT) else whole)
    return sum(widths) + _GAP * (len(widths) - 1)


def print_tree(screen: Screen, roots: Sequence[Node]) -> None:
    """Print one line for each session, children connected to their parent."""
    found = list(_walk(roots, with_box_characters=screen.has_box_characters))
    shorter = shorten_ids(node.id for _, node in found)
    head = [Cell(name, "bold") for name in ("", *_TREE_COLUMNS)]
    rows = [head, *(_tree_row(lines, node, shorter[node.id]) for lines, node in found)]
    widths = [max(cell_width(row[place].text) for row in rows) for place in range(len(head))]
    # The lines and the name share a column.
    longest = max(cell_width(row[0].text) + cell_width(row[1].text) for row in rows)
    most = _MAX_TREE_WIDTH if screen.width is None else min(_MAX_TREE_WIDTH, screen.width // 2)
    for row in rows:
        widths[1] = min(longest, most) - cell_width(row[0].text)
        cells = [_padded(cell, width) for cell, width in zip(row, widths, strict=True)]
        screen.line(*screen.fit([row[0], *cells[1:-1], row[-1]]))


def _padded(cell: Cell, width: int) -> Cell:
    return attrs.evolve(cell, text=cell.text + " " * (max(0, width - cell_width(cell.text)) + _GAP))


def _walk(roots: Sequence[Node], *, with_box_characters: bool) -> Iterator[tuple[str, Node]]:
    """Yield the nodes in order, each with the lines before it.

    A tree may be deeper than the stack of Python, so this is not recursive.
    """
    corners = ("├─ ", "└─ ") if with_box_characters else ("|- ", "`- ")
    lines = ("│  ", "   ") if with_box_characters else ("|  ", "   ")
    # The nodes to show, the next one last, with what stands before a node and before its children.
    waiting = [(root, "", "") for root in reversed(roots)]
    while waiting:
        node, first, rest = waiting.pop()
        yield first, node
        for number, child in enumerate(reversed(node.children)):
            is_last = number == 0
            waiting.append((child, rest + corners[is_last], rest + lines[is_last]))


def _tree_row(lines: str, node: Node, short_id: str) -> list[Cell]:
    cells = (
        Cell(lines, "dim"),
        name_cell(node, short_id),
        Cell(short_id, "dim"),
        state_cell(node),
        Cell(node.agent),
        about_cell(node),
    )
    return [attrs.evolve(cell, text=without_breaks(cell.text)) for cell in cells]
