"""Lines from bytes that arrive in chunks.

Rule 1: the result does not depend on how the bytes were cut into chunks.
Rule 2: at most one line of the maximum length is held. A longer line is dropped as it arrives, up
        to the next newline, and replaced by one `OverlongLine`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

# An image in a message is some MiB; the output of a whole turn is at most 64 MiB.
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
# The part of an overlong line that is kept, to be shown.
KEPT_BYTES: Final = 4096


@attrs.frozen
class OverlongLine:
    """Replacement of a line that was longer than allowed; only its beginning is kept."""

    beginning: bytes = attrs.field(repr=False)


Line: TypeAlias = bytes | OverlongLine


class LineSplitter:
    """Splits bytes into lines at newlines; empty lines are left out.

    White space around a line (a carriage return at its end) has no meaning in JSON and is stripped.
    It counts towards the length, which is that of the line as it arrived, without its newline.
    """

    __slots__ = ("_is_dropping", "_max_line_bytes", "_partial")

    def __init__(self, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        # Invariant: the unfinished last line, never longer than `_max_line_bytes`.
        self._partial = bytearray()
        # True while the rest of an overlong line is dropped; `_partial` is empty then.
        self._is_dropping = False

    def feed(self, data: bytes) -> list[Line]:
        """Return the lines that this chunk completes, in order."""
        found: list[Line] = []
        *complete, unfinished = data.split(b"\n")
        if complete and (self._partial or self._is_dropping):
            self._hold(complete.pop(0), found)
            self._end(found)
        for line in complete:
            self._add(line, found)
        self._hold(unfinished, found)
        return found

    @property
    def unfinished_bytes(self) -> int:
        """Size of the unfinished line."""
        return len(self._partial)

    def drop_unfinished(self) -> list[Line]:
        """Drop the unfinished line as if it were too long; return its replacement."""
        found: list[Line] = []
        if self._partial:
            self._drop(bytes(self._partial[:KEPT_BYTES]), found)
            self._partial = bytearray()
            self._is_dropping = True
        return found

    def finish(self) -> list[Line]:
        """Return the rest since the last newline as a line, at the end of the stream."""
        found: list[Line] = []
        self._end(found)
        return found

    def _hold(self, chunk: bytes, found: list[Line]) -> None:
        """Append to the unfinished line."""
        if self._is_dropping:
            return
        if len(self._partial) + len(chunk) > self._max_line_bytes:
            self._drop(bytes(self._partial[:KEPT_BYTES]) + chunk[:KEPT_BYTES], found)
            self._partial = bytearray()
            self._is_dropping = True
        else:
            self._partial += chunk

    def _end(self, found: list[Line]) -> None:
        """Complete the unfinished line."""
        if self._partial:
            if line := bytes(self._partial).strip():
                found.append(line)
            self._partial = bytearray()
        self._is_dropping = False

    def _add(self, line: bytes, found: list[Line]) -> None:
        """Add a line that arrived in one chunk."""
        if len(line) > self._max_line_bytes:
            self._drop(line, found)
        elif line := line.strip():
            found.append(line)

    def _drop(self, beginning: bytes, found: list[Line]) -> None:
        found.append(OverlongLine(beginning[: min(KEPT_BYTES, self._max_line_bytes)]))
