"""The last line of a text that arrives in pieces, bounded."""

from __future__ import annotations

from typing import Final

from supervisor.core.text import printable
from supervisor.core.validation import replace_controls

MAX_LINE_CHARS: Final = 200


class LastLine:
    """The last line that is not blank: its first `MAX_LINE_CHARS` characters, as printable text."""

    __slots__ = ("_ended", "_open")

    def __init__(self) -> None:
        self._ended = ""  # the last line that is complete and not blank
        self._open = ""  # the start of the line that follows it

    @property
    def text(self) -> str | None:
        """The line; None if all lines are blank."""
        line = printable(self._open.strip()).strip() or printable(self._ended).strip()
        return replace_controls(line) or None

    def add(self, text: str, *, continues: bool = True) -> None:
        """Add a piece; one that does not continue the text before it starts a line."""
        if not continues:
            self._end_line()
        first, line_break, rest = text.partition("\n")
        self._extend(first)
        if line_break:
            self._end_line()
            # Not split into all lines: a message may have megabytes.
            complete, _, last = rest.rpartition("\n")
            complete = complete.rstrip()
            self._extend(complete[complete.rfind("\n") + 1 :])
            self._end_line()
            self._extend(last)

    def copy(self) -> LastLine:
        """Return an independent copy."""
        other = LastLine()
        other._ended, other._open = self._ended, self._open
        return other

    def _extend(self, text: str) -> None:
        if len(self._open) < MAX_LINE_CHARS:
            # Blanks at the start are not shown, so they do not count.
            more = text if self._open else text.lstrip()
            self._open = (self._open + more[:MAX_LINE_CHARS])[:MAX_LINE_CHARS]

    def _end_line(self) -> None:
        self._ended = self._open.rstrip() or self._ended
        self._open = ""
