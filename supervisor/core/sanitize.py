"""Convert values from agents and callers to plain data and plain text."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

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
