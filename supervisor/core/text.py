"""Printable text, plain data, redaction of secrets, and the text of a turn.

Rule 1: printable text contains nothing that a terminal, an editor or a browser would obey: no
        control characters but newline and tab, no escape sequences, nothing that changes the
        direction of writing, no lone surrogates.
Rule 2: redaction takes linear time in the text, for any text. A shape begins where a run of
        its letters begins, or looks ahead by a fixed number of them; nothing is read again for
        each beginning.
Rule 3: ordinary prose stays as it is. A word that only looks like a beginning ("sk-learn",
        "bearer of news", "password: none") is not a secret; most secrets contain a digit.
Rule 4: redacting a redacted text changes nothing.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import attrs

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


REDACTED: Final = "[redacted]"

_TOKEN_START: Final = r"(?<![A-Za-z0-9_-])"  # noqa: S105 - the start of a run of letters, not a token

_DIGIT_AHEAD: Final = r"(?=[A-Za-z_-]{0,64}+[0-9])"

_NAMES: Final = r"(?:api[_-]?key|access[_-]?key|secret[_-]?key|token|secret|passw(?:or)?d)"

_ASSIGNS: Final = r"""\\?["']?[ \t]{0,8}[:=][ \t]{0,8}"""

_VALUE: Final = r"A-Za-z_./+=~!@#$%^&*-"  # and digits

_HEADER_VALUE: Final = r"A-Za-z._~+/=-"  # and digits

_KEY: Final = r"((?:[^-]++|-(?!----))*+(?=-----END )|(?:(?:\s|\\[nr])*+[A-Za-z0-9+/=]{16,}+)++)"

_NAME_WORDS: Final = ("key", "token", "secret", "passw")

# The substrings, in lower case, one of which a text must contain for the shape to be searched;
# and the shape. Its one group is redacted, the rest shows the reader what was there.
_SHAPES: Final = tuple(
    (words, re.compile(shape))
    for words, shape in (
        # Keys of the large providers, by their prefixes.
        (("sk-",), rf"{_TOKEN_START}(sk-{_DIGIT_AHEAD}[A-Za-z0-9_-]{{16,}}+)"),
        (("k_live_", "k_test_"), rf"{_TOKEN_START}([sr]k_(?:live|test)_[A-Za-z0-9]{{10,}}+)"),
        (("gh",), rf"{_TOKEN_START}(gh[pousr]_[A-Za-z0-9]{{20,}}+)"),
        (("github_pat_",), rf"{_TOKEN_START}(github_pat_[A-Za-z0-9_]{{20,}}+)"),
        (("glpat-",), rf"{_TOKEN_START}(glpat-[A-Za-z0-9_-]{{16,}}+)"),
        (("xox",), rf"{_TOKEN_START}(xox[abeoprs]-{_DIGIT_AHEAD}[A-Za-z0-9-]{{10,}}+)"),
        (("akia", "asia"), rf"{_TOKEN_START}((?:AKIA|ASIA)[A-Z0-9]{{16}})(?![A-Za-z0-9_-])"),
        (("aiza",), rf"{_TOKEN_START}(AIza[A-Za-z0-9_-]{{30,}}+)"),
        # A JSON web token: three runs, of which the first is an object in base64.
        (("eyj",), rf"{_TOKEN_START}(eyJ[A-Za-z0-9_-]{{8,}}+(?:\.[A-Za-z0-9_-]{{8,}}+){{2}})"),
        # What goes into a header.
        (
            ("bearer",),
            (
                rf"(?i:\bbearer)[ \t]{{1,8}}+(?=[{_HEADER_VALUE}]{{0,64}}+[0-9])"
                rf"([0-9{_HEADER_VALUE}]{{8,}}+)"
            ),
        ),
        (
            ("authorization",),
            (
                rf"(?i:\bauthorization{_ASSIGNS}\\?[\"']?(?:basic|token)) ++"
                rf"([0-9{_HEADER_VALUE}]{{8,}}+)"
            ),
        ),
        # A whole key; or, if its end is missing, as many lines as look like one.
        (("private key",), r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----" + _KEY),
        # scheme://user:password@host
        (("://",), r"://[^\s:/?#@]*+:([^\s/?#@]++)(?=@)"),
        # name = value: in quotes, with a digit in it, or as the environment has it.
        (_NAME_WORDS, rf"""(?i:{_NAMES}){_ASSIGNS}\\?["']([^"'\s\\]{{4,}}+)(?=\\?["'])"""),
        (
            _NAME_WORDS,
            rf"(?i:{_NAMES}){_ASSIGNS}(?=[{_VALUE}]{{0,64}}+[0-9])([0-9{_VALUE}]{{6,}}+)",
        ),
        (_NAME_WORDS, rf"{_NAMES.upper()}=([0-9{_VALUE}]{{4,}}+)"),
    )
)

_WORDS: Final = tuple({word for words, _ in _SHAPES for word in words})

# A mapping key whose text value is always a secret.
_SECRET_NAME: Final = re.compile(rf"(?is:.*{_NAMES}|authorization)")


def redact(text: str) -> str:
    """Return the text with everything redacted that looks like a secret."""
    return redact_pieces([text])[0]


def redact_pieces(pieces: Sequence[str]) -> list[str]:
    """Return the pieces such that together they are the redacted text of all together.

    A secret that lies across a seam is redacted where it begins, and removed from what follows.
    """
    whole = "".join(pieces)
    secrets = _secrets_in(whole)
    if not secrets:
        return list(pieces)
    left, place, number = [], 0, 0
    for piece in pieces:
        end, kept = place + len(piece), list[str]()
        while number < len(secrets) and secrets[number][0] < end:
            first, last = secrets[number]
            kept += (whole[place:first], REDACTED) if first >= place else ()
            place = min(last, end)
            if last > end:
                break  # the rest of it is in the next piece
            number += 1
        left.append("".join([*kept, whole[place:end]]))
        place = end
    return left


def _secrets_in(text: str) -> list[tuple[int, int]]:
    """Return the spans of the secrets, in order, merged where they touch."""
    small = text.lower()
    there = {word for word in _WORDS if word in small}
    if not there:
        return []
    found = sorted(
        match.span(1)
        for words, shape in _SHAPES
        if not there.isdisjoint(words)
        for match in shape.finditer(text)
    )
    merged: list[tuple[int, int]] = []
    for start, end in found:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def redact_value(value: Any) -> Any:  # noqa: ANN401 - any plain data, and the same type back
    """Return plain data with every text redacted; keys and other values stay."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {name: _redact_item(name, item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact_value(item) for item in value]
    return value


def _redact_item(name: object, item: Any) -> Any:  # noqa: ANN401 - as above
    if isinstance(item, str) and isinstance(name, str) and _SECRET_NAME.fullmatch(name[-80:]):
        return REDACTED if item else item
    return redact_value(item)


def turn_output(records: Iterable[Record], turn: TurnId) -> TurnOutput:
    """Return all text of a turn and its number of messages; damaged records are left out."""
    mine = [
        record.body
        for record in records
        if record.turn_id == turn
        and record.kind == "agent_text"
        and isinstance(record.body.get("text"), str)
    ]
    text = "".join(body["text"] for body in mine)
    return TurnOutput(text, sum(not body.get("continues") for body in mine))


@attrs.frozen
class TurnOutput:
    """The text of the open turn, for an end that no driver reports."""

    text: str = ""
    messages: int = 0


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
