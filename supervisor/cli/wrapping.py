"""Lines of text cut into lines that fit a width, in columns of a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from .text_format import Cell, cell_width

_TAB: Final = 4
_INDENT: Final = "  "


def wrap_text(text: str, width: int) -> list[str]:
    """Return the lines of the text, each at most `width` columns wide; a final break adds none."""
    lines = text.expandtabs(_TAB).removesuffix("\n").split("\n")
    return [piece for line in lines for piece in wrap_line(line, width)]


def wrap_line(line: str, width: int) -> list[str]:
    """Return the line in pieces of at most `width` columns, cut at blanks if possible."""
    width = max(2, width)  # a wide character must fit
    pieces = []
    while len(line) > width or cell_width(line) > width:
        fits = width if line.isascii() else _fitting(line, width)
        if fits >= len(line):
            break
        blank = line.rfind(" ", 0, fits + 1)
        is_word_break = blank > 0 and not line[:blank].isspace()
        pieces.append(line[:blank] if is_word_break else line[:fits])
        line = line[blank + 1 :] if is_word_break else line[fits:]
    return [*pieces, line]


def wrap_cells(cells: Sequence[Cell], width: int) -> list[list[Cell]]:
    """Return the text of the cells in lines of at most `width` columns; what follows is indented.

    A text that fits is one line as it is.
    """
    text = "".join(cell.text for cell in cells)
    if cell_width(text) <= width:
        return [list(cells)]
    lines: list[list[Cell]] = []
    start = 0
    for piece in wrap_line(text, width - len(_INDENT)):
        start = text.index(piece, start)
        indent = [Cell(_INDENT)] if lines else []
        lines.append([*indent, *_cut(cells, start, start + len(piece))])
        start += len(piece)
    return lines


def _cut(cells: Sequence[Cell], start: int, end: int) -> Iterator[Cell]:
    """Yield the part of the cells between two places of their text."""
    place = 0
    for cell in cells:
        inside = cell.text[max(0, start - place) : max(0, end - place)]
        if inside:
            yield Cell(inside, cell.style)
        place += len(cell.text)


def _fitting(line: str, width: int) -> int:
    """Return the number of characters that fit, at least 1."""
    used = 0
    for count, character in enumerate(line):
        used += cell_width(character)
        if used > width:
            return max(1, count)
    return len(line)
