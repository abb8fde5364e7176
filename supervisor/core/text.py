"""Printable text, plain data, and the text of a turn.

Printable text contains nothing that a terminal, an editor or a browser would obey: no control
characters but newline and tab, no escape sequences, nothing that changes the direction of writing,
no lone surrogates. Plain data is a bounded copy that JSON can hold. `redaction` removes secrets.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from .ids import TurnId
from .records import Record

# Sequences are removed whole, so that nothing of them remains as text: control sequences, and
# strings (titles, links, clipboards) if they end. Then all remaining single controls.
_SEQUENCES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}+[ -/]{0,16}+[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,4}+[0-~]"
)

_LINE_ENDS: Final = re.compile(r"\r\n?|[\u2028\u2029]")

_BIDI: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"

_CONTROLS: Final = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDI}\ufeff]")

_SURROGATES: Final = re.compile(r"[\ud800-\udfff]")


def printable(text: str) -> str:
    """Return the text without anything that a terminal would obey."""
    if text.isascii() and text.isprintable():
        return text
    text = _SEQUENCES.sub("", text)
    text = _LINE_ENDS.sub("\n", text)
    text = _CONTROLS.sub("", text)
    return _SURROGATES.sub("\ufffd", text)


def one_line(text: str) -> str:
    """Return the printable text on one line."""
    return " ".join(printable(text).split())


def turn_output(records: Iterable[Record], turn: TurnId) -> TurnOutput:
    """Return the text of a turn and its number of messages; damaged records are left out."""
    reader = TurnOutputReader(turn)
    reader.add(records)
    return reader.output


# The longest text of a turn's result. The records of the turn have its whole text; a result that
# repeated all of it would be one record of up to `max_turn_bytes`.
MAX_RESULT_BYTES: Final = 1024 * 1024


class TurnOutput(NamedTuple):
    """The text of a turn, at most `MAX_RESULT_BYTES` from its start, and its message count."""

    text: str = ""
    messages: int = 0
    truncated: bool = False


class TextHead:
    """The first bytes of a text that arrives in pieces."""

    __slots__ = ("_bytes_left", "_pieces", "is_cut")

    def __init__(self, max_bytes: int) -> None:
        self._bytes_left = max_bytes
        self._pieces: list[str] = []
        # Whether the text is longer than its head.
        self.is_cut = False

    @property
    def text(self) -> str:
        """The head, in whole characters."""
        return "".join(self._pieces)

    def append(self, text: str) -> str:
        """Add a piece; return the part of it that does not fit."""
        if self.is_cut:
            return text
        size = len(text) if text.isascii() else len(text.encode())
        if size <= self._bytes_left:
            self._bytes_left -= size
            self._pieces.append(text)
            return ""
        self.is_cut = True
        kept = cut_text(text, self._bytes_left)
        self._pieces.append(kept)
        return text[len(kept) :]


class TurnOutputReader:
    """The output of a turn, from records that are read in pages."""

    def __init__(self, turn: TurnId) -> None:
        self._turn = turn
        self._text = TextHead(MAX_RESULT_BYTES)
        self._messages = 0

    @property
    def output(self) -> TurnOutput:
        """The output in the records so far."""
        return TurnOutput(self._text.text, self._messages, self._text.is_cut)

    def add(self, records: Iterable[Record]) -> None:
        """Add the next records; those of other turns and damaged ones are left out."""
        for record in records:
            if record.turn_id != self._turn or record.kind != "agent_text":
                continue
            text = record.body.get("text")
            if isinstance(text, str):
                self._text.append(text)
                self._messages += not record.body.get("continues")


def cut_text(text: str, max_bytes: int) -> str:
    """Return the longest start of the text with at most this many bytes in UTF-8."""
    if len(text) * 4 <= max_bytes:
        return text
    if text.isascii():
        return text[:max_bytes]
    return text[:max_bytes].encode()[:max_bytes].decode(errors="ignore")


MAX_DEPTH: Final = 32

MAX_ITEMS: Final = 10_000

_MAX_INT: Final = 2**63

_ELLIPSIS: Final = "..."


def plain_text(text: str) -> str:
    """Return the text as a plain str, with a replacement mark for each lone surrogate."""
    if type(text) is not str:
        text = str.__str__(text)
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def plain_data(value: object) -> object:
    """Return a JSON copy; other values become text, and too much is cut."""
    return _BoundedCopy().copy(value)


class _BoundedCopy:
    """A copy under construction; it stops after MAX_ITEMS items, however nested."""

    def __init__(self) -> None:
        self._items_left = MAX_ITEMS

    def copy(self, value: object, depth: int = 0) -> object:
        try:
            return self._copy_value(value, depth)
        except Exception:  # noqa: BLE001 - reading an agent's object may raise anything
            return f"<{type(value).__name__} that cannot be shown>"

    def _copy_value(self, value: object, depth: int) -> object:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return plain_text(value)
        if isinstance(value, int):
            return _plain_int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return f"<{type(value).__name__} of {len(value)}>"
        return self._copy_collection(value, depth)

    def _copy_collection(self, value: object, depth: int) -> object:
        if depth >= MAX_DEPTH:
            return _ELLIPSIS
        if isinstance(value, Mapping):
            pairs = itertools.islice(value.items(), max(0, self._items_left))
            return {plain_text(str(key)): self._copy_item(item, depth) for key, item in pairs}
        if isinstance(value, Sequence | AbstractSet):
            items = itertools.islice(value, max(0, self._items_left))
            return [self._copy_item(item, depth) for item in items]
        return plain_text(repr(value))

    def _copy_item(self, item: object, depth: int) -> object:
        self._items_left -= 1
        return self.copy(item, depth + 1) if self._items_left >= 0 else _ELLIPSIS


def _plain_int(number: int) -> int | str:
    if -_MAX_INT <= number < _MAX_INT:
        return int(number)
    try:
        return str(number)
    except ValueError:  # so large that Python refuses decimals
        return hex(number)


MAX_ERROR_CHARS: Final = 2000


def describe_error(error: BaseException) -> str:
    """Return the type and the first line of an exception, as one bounded line."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - an agent's exception may raise anything in __str__
        text = "which cannot be shown"
    name = type(error).__name__
    first_line = text.strip().partition("\n")[0]
    return plain_text(f"{name}: {first_line}" if first_line else name)[:MAX_ERROR_CHARS]


def decode_printable(data: bytes) -> str:
    """Return the bytes as text, without control characters other than newlines and tabs."""
    return printable(data.decode("utf-8", "replace"))
