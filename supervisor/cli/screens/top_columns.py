"""The columns of `top`, chosen by the width of the list, and the cells of a line.

Rule 1: every text of a session passes `one_line` and is cut by the columns that it takes.
Rule 2: colour is never alone: the word says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

from supervisor.cli import session_cells
from supervisor.cli.text_format import Cell, cell_width, format_age, truncate
from supervisor.cli.wait_words import wait_words
from supervisor.core.info import Need
from supervisor.core.text import one_line

from .top_layout import GroupLine, Line, SessionLine
from .top_order import Entry, Grouping, display_name, group_title

if TYPE_CHECKING:
    from supervisor.handles.session_rows import SessionRow
    from supervisor.sessions.inbox import PermissionRequest

ColumnName: TypeAlias = Literal[
    "name", "state", "for", "said", "agent", "queue", "tokens", "cost", "budget", "folder",
    "tags", "id",
]  # fmt: skip


@attrs.frozen
class Column:
    """A column with its least width; a flexible one takes a share of the rest."""

    name: ColumnName
    title: str
    width: int
    is_right_aligned: bool = False


# In the order of the screen.
COLUMNS: Final = (
    Column("name", "NAME", 16),
    Column("state", "STATE", 12),
    Column("for", "FOR", 6, is_right_aligned=True),
    Column("agent", "AGENT", 9),
    Column("queue", "Q", 2, is_right_aligned=True),
    Column("tokens", "TOKENS", 6, is_right_aligned=True),
    Column("cost", "COST", 6, is_right_aligned=True),
    Column("budget", "BUDGET", 6, is_right_aligned=True),
    Column("folder", "FOLDER", 12),
    Column("tags", "TAGS", 10),
    Column("id", "ID", 10),
    Column("said", "SAYS", 14),
)
_BY_NAME: Final[Mapping[ColumnName, Column]] = {column.name: column for column in COLUMNS}
# A narrow list has the first of these; those that follow `folder` only if the user asks for them.
_PRIORITY: Final[tuple[ColumnName, ...]] = (
    "name", "state", "for", "said", "agent", "queue", "tokens", "cost", "budget", "folder",
)  # fmt: skip
OPTIONAL: Final[tuple[ColumnName, ...]] = tuple(
    column.name for column in COLUMNS if column.name != "name"
)
# The first of these columns come before a longer name and text, the others after.
_BASIC: Final = 6
_ROOM_TO_SPEAK: Final = 14
_GAP: Final = 1
# The mark of the selected line.
_MARK_WIDTH: Final = 2
_MAX_NAME_WIDTH: Final = 34

NEED_STYLES: Final[Mapping[Need, str]] = {
    "waiting": "magenta",
    "hung": "red",
    "failed": "red",
    "finished": "green",
    "running": "blue",
    "idle": "cyan",
    "resting": "dim",
}


def choose_columns(
    width: int,
    *,
    hidden: AbstractSet[ColumnName] = frozenset(),
    added: AbstractSet[ColumnName] = frozenset(),
) -> dict[ColumnName, int]:
    """Return the widths of the columns that fit, in the order of the screen.

    What the user has added comes before the columns that the width allows.
    """
    wanted: list[ColumnName] = ["name", *(name for name in OPTIONAL if name in added)]
    wanted += [name for name in _PRIORITY if name not in hidden and name not in wanted]
    left = width - _MARK_WIDTH
    chosen: dict[ColumnName, int] = {}
    for name in wanted:
        needed = _BY_NAME[name].width + _GAP
        kept = 0 if name in added or name in _PRIORITY[:_BASIC] else _ROOM_TO_SPEAK
        if needed + kept <= left or name == "name":
            chosen[name] = _BY_NAME[name].width
            left -= needed
    more_for_name = left if "said" not in chosen else left // 2
    chosen["name"] += max(0, min(more_for_name, _MAX_NAME_WIDTH - chosen["name"]))
    left -= chosen["name"] - _BY_NAME["name"].width
    if "said" in chosen:
        chosen["said"] += left
    return {column.name: chosen[column.name] for column in COLUMNS if column.name in chosen}


def heading_cells(widths: Mapping[ColumnName, int]) -> list[Cell]:
    """Return the line of titles."""
    cells = [Cell(" " * _MARK_WIDTH)]
    for name, width in widths.items():
        column = _BY_NAME[name]
        cells.append(Cell(_padded(column.title, width, right=column.is_right_aligned), "dim"))
    return cells


def line_cells(
    line: Line,
    entry: Entry | None,
    widths: Mapping[ColumnName, int],
    *,
    grouping: Grouping,
    is_selected: bool,
    now: float,
    request: PermissionRequest | None = None,
) -> list[Cell]:
    """Return the cells of one line; `entry` and `request` are those of its session."""
    mark = Cell("> " if is_selected else "  ", "bold")
    if isinstance(line, GroupLine):
        return [mark, *_group_cells(line, grouping)]
    if entry is None:
        return [mark, Cell(f"{line.key}  gone", "dim")]
    cells = [mark]
    for name, width in widths.items():
        if name == "said":
            cell = said_cell(entry, line, request)
        elif name == "name":
            cell = _name_cell(line, entry)
        else:
            cell = _CELLS[name](entry, now)
        is_dim = line.is_context or entry.is_leaving or not entry.matches
        right = _BY_NAME[name].is_right_aligned
        # The name is one line already, and begins with the place in the tree.
        text = cell.text if name == "name" else one_line(cell.text)
        cells.append(Cell(_padded(text, width, right=right), "dim" if is_dim else cell.style))
    return cells


def _padded(text: str, width: int, *, right: bool) -> str:
    text = truncate(text, width)
    space = " " * (width - cell_width(text))
    return (space + text if right else text + space) + " " * _GAP


def _group_cells(line: GroupLine, grouping: Grouping) -> list[Cell]:
    mark = "▸" if line.is_folded else "▾"
    title = one_line(group_title(line.name, grouping))
    style = NEED_STYLES.get(line.name, "bold") if grouping == "need" else "bold"  # type: ignore[call-overload]
    bold = style if style == "bold" else f"bold {style}"
    return [Cell(f"{mark} {title}", bold), Cell(f"  {line.count}", "dim")]


_CELLS: Final[Mapping[ColumnName, Callable[[Entry, float], Cell]]] = {
    "state": lambda entry, _: state_cell(entry),
    "for": lambda entry, now: Cell(format_age(now - entry.since), "dim"),
    "agent": lambda entry, _: Cell(entry.row.agent),
    "queue": lambda entry, _: Cell(str(entry.row.queued or ""), "cyan"),
    "tokens": lambda entry, _: Cell(format_count(entry.row.tokens), "dim"),
    "cost": lambda entry, _: Cell(format_cost(entry.row.cost), "dim"),
    "budget": lambda entry, _: budget_cell(entry.row),
    "folder": lambda entry, _: Cell(PurePath(entry.row.workspace or "").name, "dim"),
    "tags": lambda entry, _: Cell(",".join(entry.row.tags), "dim"),
    "id": lambda entry, _: Cell(entry.row.id, "dim"),
}


def _name_cell(line: SessionLine, entry: Entry) -> Cell:
    """Return the name at its place in the tree; a short id is dim, as in `ps`."""
    marks = {"none": "", "open": "▾ ", "folded": "▸ "}
    # A deep tree leaves room for the name.
    indent = "  " * min(line.depth, 8)
    style = "dim" if entry.row.name is None else None
    text = f"{indent}{marks[line.fold]}{one_line(display_name(entry)) or entry.id}"
    return Cell(text, "bold" if entry.need == "waiting" else style)


def state_cell(entry: Entry) -> Cell:
    """Return what a person should know of the session, in one or two words, as `ps` does."""
    if entry.is_deleted:
        return Cell("gone", "dim")
    shown = session_cells.state_cell(entry.row, entry.need)
    text = session_cells.SHORT_STATES.get(shown.text, shown.text)
    if len(text) > _BY_NAME["state"].width:
        text = text.rpartition(", ")[2]  # `suspended, failed`: the outcome is never cut
    return Cell(text, shown.style or NEED_STYLES[entry.need])


def said_cell(entry: Entry, line: SessionLine, request: PermissionRequest | None = None) -> Cell:
    """Return the most telling text of a row: what is below it, a question, or what it said."""
    row = entry.row
    if line.fold == "folded":
        worst = "" if line.worst is None else f", {line.worst}"
        style = None if line.worst is None else NEED_STYLES[line.worst]
        return Cell(f"+{line.hidden} below{worst}", style)
    if entry.is_deleted:
        return Cell("gone; move to leave this line", "dim")
    if request is not None:
        return Cell(request.title, "yellow")
    if entry.need in ("waiting", "hung", "failed") and row.attention and row.attention[0].detail:
        return Cell(str(row.attention[0].detail), "yellow")
    if row.waiting_for and entry.need in ("waiting", "hung"):
        return Cell(f"waits for {one_line(wait_words(row.waiting_for))}", "yellow")
    said = row.stop_detail or row.stop_reason or row.last_text or ""
    if row.title and row.title != said and (row.name is None or not said):
        said = f"{row.title}: {said}" if said else row.title
    return Cell(said, "dim")


def budget_cell(row: SessionRow) -> Cell:
    """Return the share of the tightest budget; red from 80 %, at which a session is warned."""
    if row.budget is None:
        return Cell("")
    share = row.budget.share
    return Cell(f"{min(share, 9.99) * 100:.0f}%", "red" if share >= 0.8 else None)  # noqa: PLR2004


def format_count(count: int) -> str:
    """Format a number in at most six characters: `950`, `12.3k`, `4.0M`."""
    if not count:
        return ""
    amount = float(count)
    for unit in ("", "k", "M"):
        if amount < 1000:  # noqa: PLR2004 - the next unit
            return f"{amount:.0f}" if not unit else f"{amount:.1f}{unit}"
        amount /= 1000
    return f"{amount:.1f}G"


def format_cost(cost: float) -> str:
    """Format a cost with two digits after the point; nothing for none."""
    return f"{cost:.2f}" if cost else ""


def fitted(cells: Sequence[Cell], width: int) -> list[Cell]:
    """Return the cells cut to the width."""
    kept = []
    for cell in cells:
        text = truncate(cell.text, width)
        kept.append(Cell(text, cell.style))
        width -= cell_width(text)
        if width <= 0:
            break
    return kept
