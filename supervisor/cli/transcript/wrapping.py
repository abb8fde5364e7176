"""Lines of text cut into lines that fit a width, in columns of a terminal."""

from __future__ import annotations

from typing import Final

from supervisor.cli.text_format import cell_width

_TAB: Final = 4


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


def _fitting(line: str, width: int) -> int:
    """Return the number of characters that fit, at least 1."""
    used = 0
    for count, character in enumerate(line):
        used += cell_width(character)
        if used > width:
            return max(1, count)
    return len(line)
