"""Text of users, agents and tools in log lines, hidden unless the reader of the log asks for it.

Rule: a log call passes such text as `Content`, never as str. A handler that does not know the class
writes what `str()` returns: a size or a kind.
"""

from __future__ import annotations

from .errors import StoreDegraded


class Content:
    """An argument or a field of a log line; `shown` is written instead of the text."""

    __slots__ = ("shown", "text")

    def __init__(self, text: object, *, shown: str | None = None) -> None:
        self.text = str(text)
        self.shown = f"({len(self.text)} characters)" if shown is None else shown

    def __str__(self) -> str:
        return self.shown

    def __repr__(self) -> str:
        return self.shown


def error_content(error: BaseException) -> Content:
    """Return an error for a log line, shown by its class or the text of system or store."""
    shown = type(error).__name__
    if isinstance(error, StoreDegraded):
        shown = str(error)
    elif isinstance(error, OSError) and error.strerror:
        shown = f"{shown}: {error.strerror}"
    return Content(error, shown=shown)


def revealed_arguments(arguments: object) -> object:
    """Return the arguments of a log record with the text of each `Content`."""
    return tuple(map(reveal, arguments)) if isinstance(arguments, tuple) else arguments


def reveal(value: object) -> object:
    """Return the text of a `Content`; any other value as it is."""
    return value.text if isinstance(value, Content) else value
