"""Text in columns as wide as their contents, at most as wide as the terminal.

In a pipe nothing is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from supervisor.core.text import one_line

_GAP: Final = 2
_MIN_WIDTH: Final = 8
_ELLIPSIS: Final = "…"

# Style names to SGR codes; `Screen` decides whether styles are used.
STYLES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
BADGE_STYLES: Final = {
    "failed": "red",
    "waiting-for-auth": "magenta",
    "waiting-for-you": "magenta",
    "hung": "red",
    "unhealthy": "red",
    "restarting": "yellow",
    "running": "green",
    "idle": "cyan",
    "suspended": "dim",
    "stopped": "dim",
}


@attrs.frozen
class Cell:
    """A text, from any source, and its style."""

    text: str
    style: str | None = None


def badge_cell(word: str) -> Cell:
    """Return the badge in its colour."""
    return Cell(word, BADGE_STYLES.get(word))


def cell_width(text: str) -> int:
    """Return the number of terminal columns that the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - only for text that is not ASCII

    return cell_len(text)


def truncate(text: str, width: int) -> str:
    """Return the text cut to that many columns, with a mark if something is missing."""
    if cell_width(text) <= width:
        return text
    if width <= 1:
        return _ELLIPSIS[:width]
    while text and cell_width(text) > width - 1:
        # First an estimate, then letter by letter: some letters are two columns wide.
        text = text[: width - 1] if len(text) > width - 1 else text[:-1]
    return text + _ELLIPSIS


def align_columns(
    rows: Sequence[Sequence[Cell | str]],
    *,
    width: int | None,
    shrinkable: Sequence[int] = (),
) -> list[list[Cell]]:
    """Return the rows with every cell padded to its column, except the last.

    If `width` is too small, the columns `shrinkable` shrink, the widest first.
    """
    table = [[_one_line_cell(cell) for cell in row] for row in rows]
    if not table:
        return []
    widths = [
        max(cell_width(row[place].text) for row in table if place < len(row))
        for place in range(max(map(len, table)))
    ]
    if width is not None and shrinkable:
        _shrink(widths, shrinkable, by=sum(widths) + _GAP * (len(widths) - 1) - width)
    return [
        [_padded(cell, widths[n], n == len(row) - 1) for n, cell in enumerate(row)] for row in table
    ]


def _shrink(widths: list[int], places: Sequence[int], *, by: int) -> None:
    for _ in range(by):
        widest = max(places, key=widths.__getitem__)
        if widths[widest] <= _MIN_WIDTH:
            return
        widths[widest] -= 1


def _one_line_cell(cell: Cell | str) -> Cell:
    cell = Cell(cell) if isinstance(cell, str) else cell
    return attrs.evolve(cell, text=one_line(cell.text))


def _padded(cell: Cell, width: int, is_last: bool) -> Cell:  # noqa: FBT001 - only called above
    text = truncate(cell.text, width)
    if is_last:
        return attrs.evolve(cell, text=text)
    return attrs.evolve(cell, text=text + " " * (width - cell_width(text) + _GAP))
