"""Items of a feed besides records: provisional text and gaps."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from .ids import SessionId, TurnId
from .records import Record, StreamedKind


@attrs.frozen
class Delta:
    """Streamed text, provisional until the record with the same `part` arrives.

    `offset` is its start in the text of that part, in characters.
    """

    session_id: SessionId
    turn_id: TurnId
    kind: StreamedKind
    part: str
    offset: int
    text: str


@attrs.frozen
class Gap:
    """Numbers of the records, `first` to `last` inclusive, that a slow watcher has missed."""

    first: int
    last: int


Item: TypeAlias = Record | Delta | Gap
