"""Text from agents and their programs, made safe to store and to show."""

from __future__ import annotations

from typing import Final

from supervisor.core.sanitize import plain_text
from supervisor.core.text import printable

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
