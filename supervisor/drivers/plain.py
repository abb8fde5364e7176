"""What comes from agents, made fit to be stored: bounded, finite, and with whole characters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

MAX_DEPTH: Final = 32
MAX_ITEMS: Final = 10_000
_LARGEST: Final = 2**63
_CUT: Final = "..."


def plain_text(text: str) -> str:
    """The text, and no other kind of text, with a mark where half of a character was."""
    if type(text) is not str:
        text = str.__str__(text)
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def plain(value: object) -> object:
    """Plain data as JSON has it; what is not is shown as text, and what is too much is cut."""
    return _Copy().of(value)


class _Copy:
    """One copy in the making: it stops after so many items, however they hang together."""

    def __init__(self) -> None:
        self._left = MAX_ITEMS

    def of(self, value: object, depth: int = 0) -> object:
        try:
            return self._of(value, depth)
        except Exception:  # noqa: BLE001 - whatever an agent's object does when it is looked at
            return f"<{type(value).__name__} that cannot be shown>"

    def _of(self, value: object, depth: int) -> object:
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
        return self._of_many(value, depth)

    def _of_many(self, value: object, depth: int) -> object:
        if depth >= MAX_DEPTH:
            return _CUT
        if isinstance(value, Mapping):
            pairs = itertools.islice(value.items(), max(0, self._left))
            return {plain_text(str(key)): self._count(item, depth) for key, item in pairs}
        if isinstance(value, Sequence | AbstractSet):
            items = itertools.islice(value, max(0, self._left))
            return [self._count(item, depth) for item in items]
        return plain_text(repr(value))

    def _count(self, item: object, depth: int) -> object:
        self._left -= 1
        return self.of(item, depth + 1) if self._left >= 0 else _CUT


def _plain_int(number: int) -> int | str:
    if -_LARGEST <= number < _LARGEST:
        return int(number)
    try:
        return str(number)
    except ValueError:  # so large that Python will not write it in decimals
        return hex(number)
