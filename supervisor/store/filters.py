"""The meaning of list filters, and rows that are shown instead of the stored ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from supervisor.core.ids import SessionId
from supervisor.core.info import badge_of
from supervisor.core.state import SessionState

from .list_filter import NO_FILTER, Filter
from .port import Stored

# Separates the names in a search label. A line break occurs in few names and few queries.
_LABEL_SEPARATOR: Final = "\n"


def matches(row: SessionState, wanted: Filter) -> bool:
    """Return True if a row matches a filter."""
    if wanted is NO_FILTER:
        return True
    key = row.key
    facts = (
        (wanted.agent, row.agent_name),
        (wanted.channel, key.channel if key is not None else None),
        (wanted.peer, key.peer if key is not None else None),
        (wanted.phase, row.phase),
        (wanted.parent, row.lineage.parent),
        (wanted.root, row.lineage.root or row.id),
        (wanted.workspace, row.workspace),
        (wanted.archived, row.archived),
        (wanted.attention, bool(row.attention)),
    )
    return (
        all(asked is None or asked == there for asked, there in facts)
        and (wanted.tag is None or wanted.tag in row.tags)
        and (wanted.badge is None or badge_of(row) == wanted.badge)
        and _has_text(row, wanted.text)
        and _is_between(row.created_at, wanted.created_after, wanted.created_before)
        and _is_between(row.updated_at, wanted.updated_after, wanted.updated_before)
    )


def _has_text(row: SessionState, text: str | None) -> bool:
    return text is None or any(text.casefold() in name for name in _folded_names(row))


def search_label(row: SessionState) -> str:
    """Return name, title and key of a session, case-folded, as one searchable text."""
    return _LABEL_SEPARATOR.join(_folded_names(row))


def _folded_names(row: SessionState) -> list[str]:
    names = (row.name, row.title, None if row.key is None else str(row.key))
    return [name.casefold() for name in names if name is not None]


def _is_between(at: float, after: float | None, before: float | None) -> bool:
    return (after is None or at > after) and (before is None or at < before)


class RecoveredRows:
    """Rows as the next recovery will write them, which readers get instead of the stored ones.

    An overlay in memory: the numbers of epoch and records stay those of the store.
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: Mapping[SessionId, SessionState] | None = None) -> None:
        self._rows = dict(rows or {})

    def __bool__(self) -> bool:
        """Return True if any row is replaced."""
        return bool(self._rows)

    def __iter__(self) -> Iterator[SessionId]:
        """Yield the ids of the sessions whose rows are replaced."""
        return iter(self._rows)

    def shown(self, stored: Stored) -> Stored:
        """Return what a reader gets of a session."""
        row = self._rows.get(stored.row.id)
        return stored if row is None else attrs.evolve(stored, row=row)
