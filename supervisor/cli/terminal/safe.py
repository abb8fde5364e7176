"""Text that somebody else wrote, made harmless for a terminal.

Rule 1: of the control characters only newline and tab get through: no C0, no DEL, no C1, nothing
        that turns the direction of writing, and no half of a character.
Rule 2: an escape sequence goes as a whole, so that nobody reads its remains. One that never ends,
        or is longer than any honest one, hides nothing: only its first character goes.
Rule 3: how a text was cut into pieces on its way changes nothing.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

_UNSAFE_CLASS: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # who write from the other side
    "\ud800-\udfff"  # halves of characters, which cannot be written at all
)
_UNSAFE: Final = re.compile(f"[{_UNSAFE_CLASS}]")
_HALF: Final = re.compile("[\ud800-\udfff]")
_BREAKS: Final = re.compile("[\n\t\u2028\u2029]+")

# No honest sequence is longer, but for pictures.
LONGEST: Final = 4096

_ESCAPE: Final = "\x1b"
# What begins a sequence, alone or behind an escape; all but the first are strings with an end.
_BEGINNINGS: Final = {
    "\x9b": "parameters",
    "\x9d": "string",
    "\x90": "string",
    "\x98": "string",
    "\x9e": "string",
    "\x9f": "string",
}
_BEHIND_ESCAPE: Final = {
    "[": "parameters",
    "]": "string",
    "P": "string",
    "X": "string",
    "^": "string",
    "_": "string",
}
_ENDS_OF_STRINGS: Final = frozenset("\x07\x9c")

_State: TypeAlias = Literal["text", "escape", "parameters", "string", "string_escape"]


def safe(text: str) -> str:
    """The text, with nothing in it that a terminal would obey."""
    if _UNSAFE.search(text) is None:
        return text
    stream = SafeStream()
    return stream.feed(text) + stream.finish()


def safe_line(text: str) -> str:
    """The same as one line, without blanks around it."""
    return one_line(text).strip()


def one_line(text: str) -> str:
    """The same as one line: what would begin another, or jump, is a blank."""
    return _BREAKS.sub(" ", safe(text))


def escaped_json(text: str) -> str:
    """A JSON text in which everything that `safe` would take away is written as an escape.

    Inside of JSON such characters stand in strings only, so it says the same.
    """
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class SafeStream:
    """The same for a text that comes in pieces; what may be half of a sequence waits for more.

    The pieces that `feed` gives, and the last from `finish`, are what `safe` makes of the whole.
    """

    def __init__(self) -> None:
        self._state: _State = "text"
        # Invariant: empty exactly when the state is "text"; else the sequence so far, with the
        # character that began it, and never more than LONGEST of them.
        self._held = ""

    def feed(self, piece: str) -> str:
        """What can be shown of it now."""
        shown: list[str] = []
        at = 0
        while at < len(piece):
            if self._state == "text":  # then nothing matters until the next one that is unsafe
                found = _UNSAFE.search(piece, at)
                end = len(piece) if found is None else found.start()
                shown.append(piece[at:end])
                at = end
            if at < len(piece):
                shown.append(self._take(piece[at]))
                at += 1
        return "".join(shown)

    def finish(self) -> str:
        """What was held back for an end that did not come."""
        return self._give_up() + self._give_up()

    def _take(self, letter: str) -> str:
        if self._state == "text":
            return self._begin(letter)
        goes_on = self._next_state(letter)
        if goes_on is None:
            # No sequence after all: what was held is text, and this is looked at anew.
            return self._give_up() + self._take(letter)
        self._state = goes_on
        self._held = "" if goes_on == "text" else self._held + letter
        return self._give_up() if len(self._held) > LONGEST else ""

    def _begin(self, letter: str) -> str:
        if letter == _ESCAPE:
            self._state = "escape"
        elif letter in _BEGINNINGS:
            self._state = _state(_BEGINNINGS[letter])
        else:
            return _shown(letter)
        self._held = letter
        return ""

    def _next_state(self, letter: str) -> _State | None:
        """Where the sequence is after this letter: "text" if it is over, None if it is none."""
        match self._state:
            case "escape":
                return _after_escape(letter, is_first=len(self._held) == 1)
            case "parameters":
                return _in_parameters(letter)
            case "string_escape":
                return "text" if letter == "\\" else None
            case _:
                return _in_string(letter)

    def _give_up(self) -> str:
        held, self._held, self._state = self._held, "", "text"
        if not held.endswith(_ESCAPE) or len(held) == 1:
            return "".join(map(_shown, held[1:]))
        # The escape inside of a string was not the beginning of its end: it may begin another.
        text = "".join(map(_shown, held[1:-1]))
        self._held, self._state = _ESCAPE, "escape"
        return text


def _after_escape(letter: str, *, is_first: bool) -> _State | None:
    if is_first and letter in _BEHIND_ESCAPE:
        return _state(_BEHIND_ESCAPE[letter])
    if " " <= letter <= "/":
        return "escape"
    return "text" if "0" <= letter <= "~" else None


def _in_parameters(letter: str) -> _State | None:
    if "@" <= letter <= "~":
        return "text"
    return "parameters" if " " <= letter <= "?" else None


def _in_string(letter: str) -> _State | None:
    if letter in _ENDS_OF_STRINGS:
        return "text"
    if letter == "\n":
        return None
    return "string_escape" if letter == _ESCAPE else "string"


def _state(name: str) -> _State:
    return "parameters" if name == "parameters" else "string"


def _shown(letter: str) -> str:
    if _HALF.match(letter):
        return "\ufffd"
    return "" if _UNSAFE.match(letter) else letter
