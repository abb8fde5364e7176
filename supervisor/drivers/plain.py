"""What comes from agents, made fit to be stored: bounded, finite, and with whole characters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

MAX_DEPTH: Final = 32
MAX_ITEMS: Final = 10_000
_LARGEST: Final = 2**63


def plain_text(text: str) -> str:
    """The text, with a mark where half of a character was."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def plain(value: object, *, depth: int = 0) -> object:  # noqa: PLR0911 - a table, in order
    """Plain data as JSON has it; what is not is shown as text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return plain_text(str(value))
    if isinstance(value, int):
        return int(value) if -_LARGEST <= value < _LARGEST else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if depth >= MAX_DEPTH:
        return "..."
    if isinstance(value, Mapping):
        items = list(value.items())[:MAX_ITEMS]
        return {plain_text(str(key)): plain(item, depth=depth + 1) for key, item in items}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return [plain(item, depth=depth + 1) for item in list(value)[:MAX_ITEMS]]
    return plain_text(_shown(value))


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - whatever an agent's object does when it is shown
        return f"<{type(value).__name__} that cannot be shown>"
