"""Text that is read, and not obeyed: for terminals, files and pages that people look at.

Rule 1: nothing leaves here that a terminal, an editor or a browser would obey: no control
        characters but newline and tab, no escape sequences, nothing that turns the direction of
        writing, no half characters.
"""

from __future__ import annotations

import re
from typing import Final

# Sequences are taken out whole, so that nothing of them stays behind as text: control sequences,
# and strings (titles, links, clipboards) if they end. Then whatever is left of single controls.
_SEQUENCES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}+[ -/]{0,16}+[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,4}+[0-~]"
)
_LINE_ENDS: Final = re.compile(r"\r\n?|[\u2028\u2029]")
_BIDI: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROLS: Final = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDI}\ufeff]")
_HALVES: Final = re.compile(r"[\ud800-\udfff]")


def printable(text: str) -> str:
    """The text without anything that is obeyed instead of being read."""
    if text.isascii() and text.isprintable():
        return text
    text = _SEQUENCES.sub("", text)
    text = _LINE_ENDS.sub("\n", text)
    text = _CONTROLS.sub("", text)
    return _HALVES.sub("\ufffd", text)


def one_line(text: str) -> str:
    """The same on one line."""
    return " ".join(printable(text).split())
