"""What a program wrote for people, as text that nobody obeys."""

from __future__ import annotations

from supervisor.core.printable import printable


def readable(data: bytes) -> str:
    """The bytes as text, without anything that a terminal would obey but newlines and tabs."""
    return printable(data.decode("utf-8", "replace"))
