"""Bytes in, lines out.

Rule 1: how the bytes were cut into pieces makes no difference to what comes out.
Rule 2: what is held is never more than one line of the length that is allowed. A longer one is
        dropped as it comes, up to the next newline, and said once, in its place.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

# An image in a message is some MiB; a whole turn may put out 64.
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
# How much of a line that is too long is kept to be shown.
KEPT_BYTES: Final = 4096


@attrs.frozen
class TooLong:
    """Stands where a line was longer than allowed: its beginning is all that is left of it."""

    beginning: bytes = attrs.field(repr=False)


Line: TypeAlias = bytes | TooLong


class Lines:
    """Cuts what it is fed at the newlines; lines with nothing in them are left out.

    White space around a line (a carriage return at its end) means nothing in JSON and is cut off;
    it counts towards the length, which is that of the line as it came, without its newline.
    """

    __slots__ = ("_held", "_is_dropping", "_max_line_bytes")

    def __init__(self, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        # The line that has begun, as far as it has come; never longer than is allowed.
        self._held = bytearray()
        # It was too long: nothing of it is held, and the rest goes the same way.
        self._is_dropping = False

    def feed(self, data: bytes) -> list[Line]:
        """The lines that are complete with this piece, in order."""
        found: list[Line] = []
        *complete, begun = data.split(b"\n")
        if complete and (self._held or self._is_dropping):
            self._hold(complete.pop(0), found)
            self._end(found)
        for line in complete:
            self._add(line, found)
        self._hold(begun, found)
        return found

    def finish(self) -> list[Line]:
        """What has come since the last newline, when it is known that nothing more will."""
        found: list[Line] = []
        self._end(found)
        return found

    def _hold(self, piece: bytes, found: list[Line]) -> None:
        """Take in a piece of the line that has begun."""
        if self._is_dropping:
            return
        if len(self._held) + len(piece) > self._max_line_bytes:
            self._drop(bytes(self._held[:KEPT_BYTES]) + piece[:KEPT_BYTES], found)
            self._held = bytearray()
            self._is_dropping = True
        else:
            self._held += piece

    def _end(self, found: list[Line]) -> None:
        """The line that has begun is complete."""
        if self._held:
            if line := bytes(self._held).strip():
                found.append(line)
            self._held = bytearray()
        self._is_dropping = False

    def _add(self, line: bytes, found: list[Line]) -> None:
        """Take in a line that came in one piece."""
        if len(line) > self._max_line_bytes:
            self._drop(line, found)
        elif line := line.strip():
            found.append(line)

    def _drop(self, beginning: bytes, found: list[Line]) -> None:
        found.append(TooLong(beginning[: min(KEPT_BYTES, self._max_line_bytes)]))
