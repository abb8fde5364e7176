"""The table of what real agents did, as in docs/how-to/agents-in-processes.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

COLUMNS: Final = (
    *("agent", "version", "stdio", "http", "calls our tools", "name of a tool"),
    *("asks before a tool", "asks before its shell"),
)
NOT_RUN: Final = "-"


@attrs.define
class AgentTable:
    """Cells by agent and column; a cell that was not measured is `-`."""

    _rows: dict[str, dict[str, str]] = attrs.field(factory=dict)

    def set(self, agent: str, column: str, value: str) -> None:
        """Set one cell."""
        assert column in COLUMNS
        self._rows.setdefault(agent, {"agent": agent})[column] = value

    def add(self, agent: str, column: str, value: str) -> None:
        """Add to the values of one cell; stdio comes before http."""
        assert column in COLUMNS
        row = self._rows.setdefault(agent, {"agent": agent})
        known = {*row.get(column, value).split(", "), value}
        row[column] = ", ".join(sorted(known, reverse=True))

    def lines(self) -> list[str]:
        """Return the table in Markdown; nothing if no cell was set."""
        return list(self._lines()) if self._rows else []

    def _lines(self) -> Iterator[str]:
        yield _line(COLUMNS)
        yield _line(["---"] * len(COLUMNS))
        for row in self._rows.values():
            yield _line([row.get(column, NOT_RUN) for column in COLUMNS])


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"
