"""Text for people: columns, times and sizes.

A column is as wide as its contents, and a line at most as wide as the terminal.

In a pipe nothing is cut, and a text that is very long does not widen its column for all lines.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from supervisor.core.text import one_line

if TYPE_CHECKING:
    from supervisor.core.session_values import ContextUse

_GAP: Final = 2
_MIN_WIDTH: Final = 8
# In a pipe, where a longer text goes on beyond its column.
_MAX_PIPED_WIDTH: Final = 60
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
    """A text and its style; the text is escaped when it is printed."""

    text: str
    style: str | None = None


def badge_cell(word: str) -> Cell:
    """Return the badge in its colour."""
    return Cell(word, BADGE_STYLES.get(word))


def counted(number: int, noun: str) -> str:
    """Return the number with the noun, which gets a plural s unless there is one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def cut_note(which: str, number: int, noun: str) -> str:
    """Return the note that a list is incomplete: `Only the first 10 rows are shown ...`."""
    shown = f"{noun} is" if number == 1 else f"{number} {noun}s are"
    return f"Only the {which} {shown} shown; --limit shows more."


def cell_width(text: str) -> int:
    """Return the number of terminal columns that the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - only for text that is not ASCII

    return cell_len(text)


def truncate(text: str, width: int) -> str:
    """Return the text cut to `width` columns; a mark at its end shows the cut."""
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
    least: Mapping[int, int] | None = None,
) -> list[list[Cell]]:
    """Return the rows with every cell padded to its column, except the last.

    `least` has the least widths of columns. If `width` is too small, the columns `shrinkable`
    shrink, the widest first.
    """
    table = [[_one_line_cell(cell) for cell in row] for row in rows]
    if not table:
        return []
    widths = [
        max(cell_width(row[place].text) for row in table if place < len(row))
        for place in range(max(map(len, table)))
    ]
    for place, columns in (least or {}).items():
        widths[place] = max(widths[place], columns)
    if width is None:
        widths = [min(one, _MAX_PIPED_WIDTH) for one in widths]
    elif shrinkable:
        _shrink(widths, shrinkable, by=sum(widths) + _GAP * (len(widths) - 1) - width)
        table = [
            [attrs.evolve(cell, text=truncate(cell.text, widths[n])) for n, cell in enumerate(row)]
            for row in table
        ]
    return [
        [cell if n == len(row) - 1 else _padded(cell, widths[n]) for n, cell in enumerate(row)]
        for row in table
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


def _padded(cell: Cell, width: int) -> Cell:
    space = max(0, width - cell_width(cell.text)) + _GAP
    return attrs.evolve(cell, text=cell.text + " " * space)


_MINUTE: Final = 60.0
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_UNITS: Final = {"s": 1.0, "m": _MINUTE, "min": _MINUTE, "h": _HOUR, "d": _DAY, "w": 7 * _DAY}
_SIZES: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.ASCII)
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.ASCII)
# About 30 years; timestamps in the store stay exact.
_MAX_SECONDS: Final = 1e9
_MAX_BYTES: Final = 2**53


def format_duration(seconds: float) -> str:
    """Format a duration in two or three digits: `340 ms`, `2.3 s`, `4 min 10 s`, `3 h`."""
    seconds = max(0.0, seconds)
    if seconds < 0.9995:  # noqa: PLR2004 - more would be rounded to 1000 ms
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:  # noqa: PLR2004 - as above
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, name, next_unit, next_name in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1.0, "s"),
    ):
        if whole >= unit:
            count, rest = divmod(whole, int(unit))
            more = rest // int(next_unit)
            return f"{count} {name} {more} {next_name}" if more else f"{count} {name}"
    return f"{whole} s"


def format_age(seconds: float) -> str:
    """Format an age in one unit: `now`, `12 s`, `5 min`, `3 h`, `12 d`."""
    if seconds < 1.0:
        return "now"
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit:
            return f"{seconds // unit:.0f} {name}"
    return f"{seconds:.0f} s" if seconds < _MINUTE - 0.5 else "1 min"


def format_ago(seconds: float) -> str:
    """Format how long ago something was: `just now`, `12 s ago`."""
    return "just now" if seconds < 1.0 else f"{format_age(seconds)} ago"


def format_timestamp(at: float) -> str:
    """Format a time in the local time zone: `2026-07-25 14:03:11`."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return "at no time"  # a file may contain any number


def format_time(at: float) -> str:
    """Format the time of day with milliseconds: `14:03:11.204`."""
    try:
        return f"{time.strftime('%H:%M:%S', time.localtime(at))}.{int(at % 1 * 1000):03d}"
    except (OverflowError, ValueError, OSError):
        return "--:--:--.---"


def format_size(count: float) -> str:
    """Format a number of bytes: `312 B`, `4.2 KiB`, `1.0 GiB`."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:  # noqa: PLR2004 - what the units are made of
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def parse_duration(text: str) -> float | None:
    """Parse `90`, `45s`, `10m`, `12h`, `30d` or `2w` into seconds; return None for other text."""
    found = _DURATION.fullmatch(text.strip().lower())
    unit = None if found is None else _UNITS.get(found[2] or "s")
    if found is None or unit is None:
        return None
    seconds = float(found[1]) * unit
    return seconds if seconds <= _MAX_SECONDS else None


def parse_size(text: str) -> int | None:
    """Parse `4096`, `500k`, `20MB` or `1.5GiB` into bytes; return None for other text."""
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None:
        return None
    amount = float(found[1]) * _SIZES[found[2]]
    return int(amount) if amount <= _MAX_BYTES else None


def format_context(context: ContextUse) -> str:
    """Format the use of a context: `9000 of 200000 tokens (4 %)`."""
    if context.size is None:
        return counted(context.used, "token")
    return f"{context.used} of {counted(context.size, 'token')}{_share(context)}"


def _share(context: ContextUse) -> str:
    return f" ({100 * context.used // context.size} %)" if context.size else ""
