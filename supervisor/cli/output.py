"""Output of a command: lines for people, JSON for programs, notes on standard error.

Rule 1: the requested output goes to standard output, everything else to standard error.
Rule 2: colours and animations only on terminals that can; NO_COLOR and TERM=dumb are respected.
Rule 3: every text passes `safe` before it is printed.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, Final, TextIO

import attrs
import orjson

from .safe import escaped_json, safe, without_breaks
from .text_format import STYLES, Cell, align_columns, cell_width, truncate


def json_value(value: object) -> Any:  # noqa: ANN401, PLR0911 - any JSON value, one return per kind
    """Return the value as JSON data; a value that JSON cannot express becomes null or text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, Enum):
        return json_value(value.value)
    if isinstance(value, str | orjson.Fragment):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): json_value(inside) for name, inside in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(json_value(inside) for inside in value)
    if isinstance(value, list | tuple):
        return [json_value(inside) for inside in value]
    kind: type[Any] = type(value)
    if attrs.has(kind):
        fields = attrs.fields(kind)
        return {field.name: json_value(getattr(value, field.name)) for field in fields}
    return str(value)


_MIN_WIDTH: Final = 20

_DEFAULT_WIDTH: Final = 80


class Screen:
    """The output streams of one command."""

    def __init__(
        self,
        *,
        as_json: bool = False,
        out: TextIO | None = None,
        err: TextIO | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.as_json = as_json
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self._environ = os.environ if environ is None else environ

    # Properties of the streams -------------------------------------------------------------

    @property
    def is_terminal(self) -> bool:
        """True if standard output is a terminal."""
        return _is_terminal(self.out)

    @property
    def is_ansi_terminal(self) -> bool:
        """True if standard output is a terminal that supports animations."""
        return self.is_terminal and not self._is_dumb

    @property
    def is_ansi_stderr(self) -> bool:
        """True if standard error is a terminal that supports animations."""
        return _is_terminal(self.err) and not self._is_dumb

    @property
    def width(self) -> int | None:
        """The width of the terminal; None if standard output is not a terminal."""
        return _width(self.out) if self.is_terminal else None

    @property
    def has_box_characters(self) -> bool:
        """True if box-drawing characters can be printed."""
        try:
            "├└│─…".encode(self.out.encoding or "ascii")
        except (UnicodeError, LookupError):
            return False
        return True

    @property
    def _is_dumb(self) -> bool:
        return self._environ.get("TERM", "") in ("", "dumb")

    # Requested output ----------------------------------------------------------------------

    def line(self, *cells: Cell | str) -> None:
        """Print one line, or several if the text contains line breaks."""
        self._emit(self.out, "".join(self._styled(cell, self.out) for cell in cells) + "\n")

    def wrapped_line(self, *cells: Cell) -> None:
        """Print a text, broken between words if the terminal is narrower."""
        for line in _wrapped(cells, self.width):
            self.line(*line)

    def table(
        self,
        headers: Sequence[str],
        rows: Iterable[Sequence[Cell | str]],
        *,
        shrinkable: Sequence[int] = (),
        least: Mapping[int, int] | None = None,
    ) -> None:
        """Print rows under headers; the columns `shrinkable` are cut if the terminal is narrow.

        If `shrinkable` is empty, nothing is cut, and lines may be wider than the terminal. The
        columns in `least` have at least that width.
        """
        head = [Cell(name, "bold") for name in headers]
        for row in align_columns(
            [head, *rows], width=self.width, shrinkable=shrinkable, least=least
        ):
            self.line(*(self.fit(row) if shrinkable else row))

    def fields(self, pairs: Iterable[tuple[str, Cell | str]]) -> None:
        """Print names and values, one pair per line."""
        rows = [(Cell(name, "dim"), value) for name, value in pairs]
        for row in align_columns(rows, width=self.width, shrinkable=[1]):
            self.line(*row)

    def data(self, value: object) -> None:
        """Print one value as one line of JSON."""
        self._emit(self.out, json_text(value) + "\n")

    def write(self, text: str) -> None:
        """Write streamed text unchanged; the caller has already escaped it with `safe`."""
        self._emit(self.out, text)

    def fit(self, row: Sequence[Cell]) -> list[Cell]:
        """Return the cells cut to the width of the terminal."""
        left = self.width
        fitted = []
        for cell in row:
            text = without_breaks(cell.text)
            if left is not None:
                text = truncate(text, left)
                left -= cell_width(text)
            fitted.append(Cell(text, cell.style))
            if left is not None and left <= 0:
                break
        return fitted

    # Notes ---------------------------------------------------------------------------------

    def note(self, *cells: Cell | str) -> None:
        """Print a note on standard error, except with --json."""
        if not self.as_json:
            self._emit(self.err, "".join(self._styled(cell, self.err) for cell in cells) + "\n")

    def wrapped_note(self, *cells: Cell) -> None:
        """Print a note, broken between words if the terminal is narrower."""
        for line in _wrapped(cells, _width(self.err) if _is_terminal(self.err) else None):
            self.note(*line)

    def prompt(self, question: str) -> None:
        """Print a question without a line end, so that the user types the answer behind it."""
        self._emit(self.err, safe(question))

    def warn(self, text: str) -> None:
        """Print a warning on standard error, also with --json."""
        if self.as_json:
            self._emit(self.err, json_text({"warning": text}) + "\n")
            return
        label = self._styled(Cell("warning: ", "yellow"), self.err)
        self._emit(self.err, f"{label}{safe(text)}\n")

    # Writing -------------------------------------------------------------------------------

    def _styled(self, cell: Cell | str, stream: TextIO) -> str:
        if isinstance(cell, str):
            return safe(cell)
        code = None if cell.style is None else STYLES[cell.style]
        if code is None or not cell.text or not self.has_color(stream):
            return safe(cell.text)
        return f"\x1b[{code}m{safe(cell.text)}\x1b[0m"

    def has_color(self, stream: TextIO) -> bool:
        """Return True if colours may be used on the stream."""
        if self._environ.get("NO_COLOR") or self._is_dumb:
            return False
        return _is_terminal(stream)

    def _emit(self, stream: TextIO, text: str) -> None:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            known = stream.encoding or "ascii"
            stream.write(text.encode(known, "replace").decode(known))
        stream.flush()


def _wrapped(cells: Sequence[Cell], width: int | None) -> list[list[Cell]]:
    if width is None:
        return [list(cells)]
    from .wrapping import wrap_cells  # noqa: PLC0415 - only for such a text

    return wrap_cells([Cell(without_breaks(cell.text), cell.style) for cell in cells], width)


def json_text(value: object) -> str:
    """Return the value as JSON on one line; control characters are escaped."""
    return escaped_json(_dump_json(json_value(value)))


def _dump_json(value: Any) -> str:  # noqa: ANN401 - plain data
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # a lone surrogate, or a number that is too large for orjson
        import json  # noqa: PLC0415 - rarely needed

        return json.dumps(value, separators=(",", ":"))


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def _width(stream: TextIO) -> int:
    try:
        columns_there = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return _DEFAULT_WIDTH
    return max(columns_there, _MIN_WIDTH) if columns_there else _DEFAULT_WIDTH
