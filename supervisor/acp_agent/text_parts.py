"""Streamed text: what of a record its deltas have told already. Pure.

Rule 1: each character of a part is told once, whether it comes in deltas, in the record, or both.
"""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.core.records import Delta

# Parts whose record has not come; one session streams a few at a time.
_MAX_OPEN_PARTS: Final = 64


@attrs.define(eq=False)
class TextParts:
    """The open parts of one session: how many characters of each were told."""

    _told: dict[str, int] = attrs.field(factory=dict)

    def add_delta(self, delta: Delta) -> str:
        """Return the text of a delta that is new.

        Nothing is new behind a hole: the record has it.
        """
        told = self._told.get(delta.part, 0)
        if delta.offset > told:
            return ""
        piece = delta.text[told - delta.offset :]
        self._told[delta.part] = told + len(piece)
        if len(self._told) > _MAX_OPEN_PARTS:
            del self._told[next(iter(self._told))]
        return piece

    def close(self, part: object, text: str) -> str:
        """Return the rest of a part whose record has come."""
        told = self._told.pop(part, 0) if isinstance(part, str) else 0
        return text[told:]

    def clear(self) -> None:
        """Forget all parts: no record of theirs will come."""
        self._told.clear()
