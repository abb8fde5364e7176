"""Text in columns, as wide as what is in them, and no wider than the terminal.

In a pipe nothing is cut off: whoever reads there has no edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from supervisor.core.printable import one_line

_GAP: Final = 2
_NARROWEST: Final = 8
_CUT: Final = "…"

# By the words that we use for them; `Screen` decides whether any are used at all.
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
    """Some text, whoever wrote it, and how it is to look."""

    text: str
    style: str | None = None


def badge(word: str) -> Cell:
    """How a session is, in its colour."""
    return Cell(word, BADGE_STYLES.get(word))


def width_of(text: str) -> int:
    """How many places it takes on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - only for who needs it

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """The text in at most that many places, with a sign that something is missing."""
    if width_of(text) <= width:
        return text
    if width <= 1:
        return _CUT[:width]
    while text and width_of(text) > width - 1:
        # Close to what fits at first, and then letter by letter: some are two places wide.
        text = text[: width - 1] if len(text) > width - 1 else text[:-1]
    return text + _CUT


def columns(
    rows: Sequence[Sequence[Cell | str]],
    *,
    width: int | None,
    stretch: Sequence[int] = (),
) -> list[list[Cell]]:
    """The rows with every cell as wide as its column, all but the last.

    If `width` is too little, the columns of `stretch` give way, the widest of them first.
    """
    table = [[_line(cell) for cell in row] for row in rows]
    if not table:
        return []
    widths = [
        max(width_of(row[place].text) for row in table if place < len(row))
        for place in range(max(map(len, table)))
    ]
    if width is not None and stretch:
        _squeeze(widths, stretch, by=sum(widths) + _GAP * (len(widths) - 1) - width)
    return [
        [_fitted(cell, widths[n], n == len(row) - 1) for n, cell in enumerate(row)] for row in table
    ]


def _squeeze(widths: list[int], places: Sequence[int], *, by: int) -> None:
    for _ in range(by):
        widest = max(places, key=widths.__getitem__)
        if widths[widest] <= _NARROWEST:
            return
        widths[widest] -= 1


def _line(cell: Cell | str) -> Cell:
    cell = Cell(cell) if isinstance(cell, str) else cell
    return attrs.evolve(cell, text=one_line(cell.text))


def _fitted(cell: Cell, width: int, is_last: bool) -> Cell:  # noqa: FBT001 - only called above
    text = cut(cell.text, width)
    if is_last:
        return attrs.evolve(cell, text=text)
    return attrs.evolve(cell, text=text + " " * (width - width_of(text) + _GAP))
