"""Where a command's words go: lines for people, JSON for programs, remarks for who looks on.

Rule 1: what was asked for goes to standard output, everything else to standard error.
Rule 2: colours and what moves are for terminals that can; NO_COLOR and TERM=dumb are respected.
Rule 3: every text passes `safe` on its way, whoever wrote it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TextIO

import orjson

from .columns import STYLES, Cell, columns, cut, width_of
from .plain import plain
from .safe import escaped_json, flat, safe

_NARROWEST: Final = 20
_USUAL: Final = 80


class Screen:
    """What one command writes to."""

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

    # What kind of a place it is ------------------------------------------------------------

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads what was asked for."""
        return _is_terminal(self.out)

    @property
    def is_lively(self) -> bool:
        """Whether what moves may be shown there."""
        return self.is_terminal and not self._is_dumb

    @property
    def is_lively_beside(self) -> bool:
        """Whether what moves may be shown on standard error."""
        return _is_terminal(self.err) and not self._is_dumb

    @property
    def width(self) -> int | None:
        """How wide it is; None if it has no edge."""
        return _width(self.out) if self.is_terminal else None

    @property
    def has_box_characters(self) -> bool:
        """Whether lines can be drawn there."""
        try:
            "├└│─…".encode(self.out.encoding or "ascii")
        except (UnicodeError, LookupError):
            return False
        return True

    @property
    def _is_dumb(self) -> bool:
        return self._environ.get("TERM", "") in ("", "dumb")

    # For whoever asked ---------------------------------------------------------------------

    def line(self, *cells: Cell | str) -> None:
        """One line, or several if the text has them; on a terminal."""
        self._put(self.out, "".join(self._styled(cell, self.out) for cell in cells) + "\n")

    def table(
        self,
        headers: Sequence[str],
        rows: Iterable[Sequence[Cell | str]],
        *,
        stretch: Sequence[int] = (),
    ) -> None:
        """Rows under their headers; the columns `stretch` are cut if there is no room.

        Without any, nothing is cut: the last column is for what somebody has to read to its end.
        """
        head = [Cell(name, "bold") for name in headers]
        for row in columns([head, *rows], width=self.width, stretch=stretch):
            self.line(*(self.fit(row) if stretch else row))

    def fields(self, pairs: Iterable[tuple[str, Cell | str]]) -> None:
        """Names and values, one a line."""
        rows = [(Cell(name, "dim"), value) for name, value in pairs]
        for row in columns(rows, width=self.width, stretch=[1]):
            self.line(*row)

    def data(self, value: object) -> None:
        """One value as one line of JSON."""
        self._put(self.out, json_text(value) + "\n")

    def write(self, text: str) -> None:
        """Text that is safe already, as it is; for what streams."""
        self._put(self.out, text)

    def fit(self, row: Sequence[Cell]) -> list[Cell]:
        """The cells as one line, without what would stand beyond the edge."""
        left = self.width
        fitted = []
        for cell in row:
            text = flat(cell.text)
            if left is not None:
                text = cut(text, left)
                left -= width_of(text)
            fitted.append(Cell(text, cell.style))
            if left is not None and left <= 0:
                break
        return fitted

    # For who looks on ----------------------------------------------------------------------

    def note(self, *cells: Cell | str) -> None:
        """A remark beside what was asked for; programs are not bothered with it."""
        if not self.as_json:
            self._put(self.err, "".join(self._styled(cell, self.err) for cell in cells) + "\n")

    def prompt(self, question: str) -> None:
        """A question to whoever sits there; the answer is typed behind it."""
        self._put(self.err, safe(question))

    def warn(self, text: str) -> None:
        """Something that whoever asked should know, programs included."""
        if self.as_json:
            self._put(self.err, json_text({"warning": text}) + "\n")
            return
        label = self._styled(Cell("warning: ", "yellow"), self.err)
        self._put(self.err, f"{label}{safe(text)}\n")

    # Inside --------------------------------------------------------------------------------

    def _styled(self, cell: Cell | str, stream: TextIO) -> str:
        if isinstance(cell, str):
            return safe(cell)
        code = None if cell.style is None else STYLES[cell.style]
        if code is None or not cell.text or not self.has_color(stream):
            return safe(cell.text)
        return f"\x1b[{code}m{safe(cell.text)}\x1b[0m"

    def has_color(self, stream: TextIO) -> bool:
        """Whether colours may be used there."""
        if self._environ.get("NO_COLOR") or self._is_dumb:
            return False
        return _is_terminal(stream)

    def _put(self, stream: TextIO, text: str) -> None:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            known = stream.encoding or "ascii"
            stream.write(text.encode(known, "replace").decode(known))
        stream.flush()


def json_text(value: object) -> str:
    """A value as JSON on one line, with nothing in it that a terminal would obey."""
    return escaped_json(_dumped(plain(value)))


def _dumped(value: Any) -> str:  # noqa: ANN401 - plain data
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # half of a character, or a number that is too large
        import json  # noqa: PLC0415 - hardly ever

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
        return _USUAL
    return max(columns_there, _NARROWEST) if columns_there else _USUAL
