"""Text that somebody else wrote, made harmless for a terminal; also while it is still coming.

What is harmless is said in `core.printable`. Here is what terminals need beside.

Rule 1: an escape sequence may be cut in two on its way. What may be the first half of one waits for
        the rest, so that how a text was cut changes nothing.
Rule 2: a sequence that never ends hides nothing: at the end of the line, or after more than any
        honest one has, it is shown without what a terminal would obey.
"""

from __future__ import annotations

import re
from typing import Final

from supervisor.core.printable import printable

# No honest sequence is longer, but for pictures.
LONGEST: Final = 4096

_BEGINNING: Final = re.compile("[\x1b\x90\x98\x9b\x9d-\x9f\r]")
# At the end of a text: what becomes a sequence, or does not, by what comes next.
_UNDECIDED: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}+[ -/]{0,16}+\Z"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*+\x1b?\Z"
    r"|\x1b[ -/]{0,4}+\Z"
    r"|\r\Z"
)
_JUMPS: Final = re.compile("[\n\t]")
_OBEYED: Final = re.compile(
    "[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)

safe: Final = printable


def flat(text: str) -> str:
    """The same as one line, with every blank where it was."""
    return _JUMPS.sub(" ", printable(text))


def escaped_json(text: str) -> str:
    """A JSON text in which what is not harmless is written as an escape.

    Inside of JSON such characters stand in strings only, so it says the same.
    """
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class SafeStream:
    """`safe` for a text that comes in pieces.

    The pieces that `feed` gives, and the last from `finish`, are what `safe` makes of the whole, if
    no sequence in it is longer than LONGEST.
    """

    def __init__(self) -> None:
        # Invariant: what may be the first half of a sequence, and no longer than LONGEST.
        self._held = ""

    def feed(self, piece: str) -> str:
        """What can be shown of it now."""
        text = self._held + piece
        place = _undecided_from(text)
        self._held = text[place:]
        return printable(text[:place])

    def finish(self) -> str:
        """What was held back for a rest that did not come."""
        held, self._held = self._held, ""
        return printable(held)


def _undecided_from(text: str) -> int:
    """Where the first half of a sequence begins, with which the text ends; else its length."""
    # Whatever began before the end of a line is decided, and so is what is too long.
    start = max(text.rfind("\n") + 1, len(text) - LONGEST)
    for found in _BEGINNING.finditer(text, start):
        if _UNDECIDED.match(text, found.start()):
            return found.start()
    return len(text)
