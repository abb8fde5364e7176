"""Cells as Textual and rich take them. No text is ever read as markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from supervisor.cli.text_format import Cell


@lru_cache(maxsize=64)
def rich_style(name: str | None) -> Style:
    """Return the style of that name, such as `bold red`."""
    return Style.null() if name is None else Style.parse(name)


def cells_text(cells: Iterable[Cell | str]) -> Text:
    """Return the cells as one line that is cut where the widget ends."""
    text = Text(no_wrap=True, overflow="ellipsis", end="")
    for cell in cells:
        if isinstance(cell, str):
            text.append(cell)
        else:
            text.append(cell.text, rich_style(cell.style))
    return text


def lines_text(lines: Sequence[Sequence[Cell | str]], *, is_wrapped: bool = False) -> Text:
    """Return lines of cells; with `is_wrapped` a long line continues on the next."""
    text = Text("\n", end="").join(cells_text(line) for line in lines)
    text.no_wrap = not is_wrapped
    text.overflow = "fold" if is_wrapped else "ellipsis"
    return text


def cells_segments(cells: Iterable[Cell], base: Style) -> list[Segment]:
    """Return the cells as segments over a base style."""
    return [Segment(cell.text, base + rich_style(cell.style)) for cell in cells if cell.text]
