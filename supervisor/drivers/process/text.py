"""What a program wrote for people, as text that nobody obeys."""

from __future__ import annotations

import re
from typing import Final

# Sequences go whole, so that nothing of them stays behind as text: those that end in a letter, and
# those that hold a title, a link or a clipboard, if they end. Then whatever controls are left.
_SEQUENCES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}+[ -/]{0,16}+[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,4}+[0-~]"
)
_LINE_ENDS: Final = re.compile(r"\r\n?|[\u2028\u2029]")
_CONTROLS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]"
)


def readable(data: bytes) -> str:
    """The bytes as text, without anything that a terminal would obey but newlines and tabs."""
    text = data.decode("utf-8", "replace")
    text = _SEQUENCES.sub("", text)
    text = _LINE_ENDS.sub("\n", text)
    return _CONTROLS.sub("", text)
