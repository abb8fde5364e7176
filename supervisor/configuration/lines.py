"""On which line of a TOML text each of its keys stands.

The parser of the standard library does not say. But a statement that it can read alone is one that
it has read in the whole, so each is given to it again: the fewest lines that make sense together.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any, Final

# A longer statement is read again and again for nothing but its line.
MOST_LINES: Final = 100


def lines_of(text: str) -> dict[tuple[str, ...], int]:
    """The line of each key and table of a text that was read without error.

    After a statement of more than `MOST_LINES` lines, nothing: a missing line is no lie.
    """
    found: dict[tuple[str, ...], int] = {}
    lines = text.replace("\r\n", "\n").split("\n")
    table: tuple[str, ...] = ()
    at = 0
    while at < len(lines):
        count = _statement(lines, at)
        if count is None:
            break
        statement = tomllib.loads("\n".join(lines[at : at + count]))
        if lines[at].lstrip().startswith("["):
            table = _header(statement)
            found.setdefault(table, at + 1)
        else:
            for path in _paths(statement):
                found[table + path] = at + 1
        at += count
    return found


def _statement(lines: list[str], at: int) -> int | None:
    """How many lines the statement has that begins there; None if that is not found out."""
    for count in range(1, MOST_LINES + 1):
        if at + count > len(lines):
            break
        try:
            tomllib.loads("\n".join(lines[at : at + count]))
        except ValueError:
            continue
        return count
    return None


def _header(statement: dict[str, Any]) -> tuple[str, ...]:
    path: tuple[str, ...] = ()
    inside: Any = statement
    while isinstance(inside, dict) and inside:
        ((name, inside),) = inside.items()
        path += (name,)
    return path


def _paths(statement: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, value in statement.items():
        yield (name,)
        if isinstance(value, dict):
            for path in _paths(value):
                yield (name, *path)
