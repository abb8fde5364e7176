"""How much room output takes, and how much of it fits into one record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

# A record of text has at most so many bytes, and a character at most so many of them.
PART_BYTES: Final = 4096
_WIDEST_BYTES: Final = 4


def bytes_of(text: str) -> int:
    """How many bytes it takes."""
    return len(text) if text.isascii() else len(text.encode())


def pieces_of(text: str) -> Iterator[str]:
    """The text in pieces that fit into a record each, whole characters only."""
    width = PART_BYTES if text.isascii() else PART_BYTES // _WIDEST_BYTES
    for start in range(0, len(text), width):
        yield text[start : start + width]


def size_of(body: object) -> int:
    """About how many bytes it takes as JSON."""
    if isinstance(body, Mapping):
        return sum(size_of(key) + size_of(value) for key, value in body.items())
    if isinstance(body, (list, tuple)):
        return sum(map(size_of, body))
    return len(body) if isinstance(body, str) else 8
