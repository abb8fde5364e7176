"""Inputs that wait, and how the text of an input came to its turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from supervisor.cli.text_format import format_duration
from supervisor.core.records import Record

from .brief_text import brief

# An input that started its turn at once is settled in the same step.
_AT_ONCE_SECONDS: Final = 0.05
_MAX_ARRIVED: Final = 100


@attrs.frozen
class WaitingInput:
    """An accepted input that has not ended."""

    id: str
    text: str
    when_busy: str
    at: float
    is_staged: bool = False


class PendingInputs:
    """The inputs of one session, from its records."""

    def __init__(self) -> None:
        self._waiting: dict[str, WaitingInput] = {}
        # Inputs that have been delivered, until their text is recorded.
        self._arrived: dict[str, tuple[WaitingInput, float]] = {}

    def __iter__(self) -> Iterator[WaitingInput]:
        return iter(self._waiting.values())

    def __len__(self) -> int:
        return len(self._waiting)

    def text_of(self, input_id: object) -> str:
        """Return the start of an input that has just ended; empty if it is unknown."""
        known = self._arrived.get(str(input_id))
        return "" if known is None else known[0].text

    def apply(self, record: Record) -> None:
        """Add, change or end the inputs of the record."""
        if record.kind == "input_accepted":
            self._add(record)
        elif record.kind == "input_changed":
            self._change(record)
        elif record.kind == "input_settled":
            found = self._waiting.pop(str(record.body.get("input_id")), None)
            if found is not None:
                self._arrived[found.id] = found, record.at
                if len(self._arrived) > _MAX_ARRIVED:
                    del self._arrived[next(iter(self._arrived))]

    def arrival(self, record: Record) -> str | None:
        """Return how the text of a `user_text` record came: None if it started its turn at once."""
        known = self._arrived.pop(str(record.body.get("part")), None)
        if record.body.get("steered"):
            return "steered"
        if record.body.get("part") is None:
            return "appended"
        if known is None:
            return None
        waiting, ended_at = known
        if waiting.when_busy == "interrupt":
            return "interrupted the turn before"
        waited = ended_at - waiting.at
        return f"queued {format_duration(waited)}" if waited > _AT_ONCE_SECONDS else None

    def _add(self, record: Record) -> None:
        body = record.body
        input_id = str(body.get("input_id"))
        self._waiting[input_id] = WaitingInput(
            input_id, brief(body.get("text")), brief(body.get("when_busy")), record.at
        )

    def _change(self, record: Record) -> None:
        changes = record.body.get("inputs")
        for input_id, fields in changes.items() if isinstance(changes, Mapping) else ():
            known = self._waiting.get(input_id)
            if known is None or not isinstance(fields, Mapping):
                continue
            text, status = fields.get("text"), fields.get("status")
            self._waiting[input_id] = attrs.evolve(
                known,
                text=known.text if text is None else brief(text),
                is_staged=known.is_staged if status is None else status == "staged",
            )
