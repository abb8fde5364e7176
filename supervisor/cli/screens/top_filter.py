"""The filter of `top`: words that a row must match, all of them.

`agent:`, `tag:` and `state:` compare the beginning, `workspace:` any part; other words are searched
in the id, name, title, agent, role and last text. Case does not count. `state:` takes what the
column STATE shows, with `-` for a blank, and the badge; `badge:` is another word for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from supervisor.cli.session_cells import filter_word, state_words
from supervisor.handles.session_rows import SessionRow


def _has_state(row: SessionRow, word: str) -> bool:
    wanted = filter_word(word)
    return any(one.startswith(wanted) for one in state_words(row))


_FIELDS: Final[dict[str, Callable[[SessionRow, str], bool]]] = {
    "agent": lambda row, word: row.agent.casefold().startswith(word),
    "tag": lambda row, word: any(tag.casefold().startswith(word) for tag in row.tags),
    "state": _has_state,
    "badge": _has_state,
    "workspace": lambda row, word: word in (row.workspace or "").casefold(),
}
_STATE_FIELDS: Final = frozenset({"state", "badge"})


@attrs.frozen
class RowFilter:
    """A parsed filter; the empty one matches every row."""

    text: str = ""
    # (field, word); the field is empty for a word that is searched everywhere.
    words: tuple[tuple[str, str], ...] = ()

    def matches(self, row: SessionRow) -> bool:
        """Return whether the row matches all words."""
        return all(
            _FIELDS[field](row, word) if field else word in _searched_text(row)
            for field, word in self.words
        )

    @property
    def asks_for_stopped(self) -> bool:
        """Whether a word names the badge of stopped sessions, which are not always listed."""
        return any(
            field in _STATE_FIELDS and "stopped".startswith(word) for field, word in self.words
        )


def parse_filter(text: str) -> RowFilter:
    """Parse what the user typed; a field without a value yet matches every row."""
    words = []
    for typed in text.casefold().split():
        field, colon, value = typed.partition(":")
        if colon and field in _FIELDS:
            if value:
                words.append((field, value))
        else:
            words.append(("", typed))
    return RowFilter(text.strip(), tuple(words))


def _searched_text(row: SessionRow) -> str:
    parts = (row.id, row.name, row.title, row.agent, row.role, row.last_text)
    return "\n".join(part for part in parts if part).casefold()
