"""Text from other programs, made safe for a terminal, also while it is streamed.

`core.text.printable` defines what is safe. This module adds what terminals need.

Rule 1: an escape sequence may be split between chunks. What may be the first part of one is held
        back until the rest arrives, so that the result does not depend on the chunks.
Rule 2: an unterminated sequence hides nothing: at the end of the line, or when it is longer than
        any valid one, it is printed without its control characters.
"""

from __future__ import annotations

import re
from typing import Final

from supervisor.core.text import printable

# No valid sequence is longer, except images.
MAX_SEQUENCE: Final = 4096

_SEQUENCE_START: Final = re.compile("[\x1b\x90\x98\x9b\x9d-\x9f\r]")
# The end of a text that may become a sequence with the next chunk.
_INCOMPLETE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}+[ -/]{0,16}+\Z"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*+\x1b?\Z"
    r"|\x1b[ -/]{0,4}+\Z"
    r"|\r\Z"
)
_BREAKS: Final = re.compile("[\n\t]")
_UNSAFE: Final = re.compile(
    "[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)

safe: Final = printable


def without_breaks(text: str) -> str:
    """Return the safe text as one line, keeping every blank."""
    return _BREAKS.sub(" ", printable(text))


def escaped_json(text: str) -> str:
    """Return a JSON text with unsafe characters written as escapes.

    In JSON such characters occur only in strings, so the value is the same.
    """
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class SafeStream:
    """Escapes a text that arrives in chunks as `safe` does.

    The results of `feed` and of the final `finish` together equal `safe` of the whole text, if no
    sequence is longer than MAX_SEQUENCE.
    """

    def __init__(self) -> None:
        # Invariant: what may be the first part of a sequence, at most MAX_SEQUENCE characters.
        self._incomplete = ""

    def feed(self, piece: str) -> str:
        """Return the escaped text that can be printed now; keep an incomplete escape sequence."""
        text = self._incomplete + piece
        place = _incomplete_from(text)
        self._incomplete = text[place:]
        return printable(text[:place])

    def copy(self) -> SafeStream:
        """Return a stream that continues from the same place."""
        twin = SafeStream()
        twin._incomplete = self._incomplete
        return twin

    def finish(self) -> str:
        """Return the escaped text of an incomplete sequence, because no more chunks follow."""
        held, self._incomplete = self._incomplete, ""
        return printable(held)


def _incomplete_from(text: str) -> int:
    """Return where an incomplete sequence at the end of the text starts; else the text's length."""
    # A sequence does not continue over a line break or beyond MAX_SEQUENCE.
    start = max(text.rfind("\n") + 1, len(text) - MAX_SEQUENCE)
    for found in _SEQUENCE_START.finditer(text, start):
        if _INCOMPLETE.match(text, found.start()):
            return found.start()
    return len(text)
