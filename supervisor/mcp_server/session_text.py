"""The records of a session as text for a model, in portions.

Rule 1: a position is the number of a record, and how many characters of its text were read; so a
        text of any length is read in portions of any size, and nothing twice.
Rule 2: a read looks at a bounded number of records, then returns how far it came.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs
import orjson

from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.records import Record

from .session_tool import clip

MAX_READ_RECORDS: Final = 20_000
PAGE_RECORDS: Final = 500
_MAX_INPUT_CHARS: Final = 1_000
_MAX_RESULT_CHARS: Final = 4_000
_POSITION: Final = re.compile(r"(\d{1,18})(?::(\d{1,18}))?", re.ASCII)


@attrs.frozen
class TextPosition:
    """How far a text was read: records up to `seq`, and so many characters of the next one."""

    seq: int = 0
    chars: int = 0

    def __str__(self) -> str:
        return f"{self.seq}:{self.chars}" if self.chars else str(self.seq)


def parse_position(text: str | None) -> TextPosition:
    """Return the position with this text form, the start for None; raise ConfigError."""
    if text is None:
        return TextPosition()
    found = _POSITION.fullmatch(text)
    if found is None:
        raise ConfigError(
            f"after is {short_repr(text)}, which is not a position",
            hint="give the next or the position of an earlier answer, or leave it out",
        )
    return TextPosition(int(found[1]), int(found[2] or 0))


# Returns the text of a record; None for a record that is not shown.
ShowRecord: TypeAlias = Callable[[Record], str | None]


class TextPortion:
    """A portion of text under construction, with its end."""

    def __init__(self, start: TextPosition, *, limit: int, max_chars: int) -> None:
        self.end = start
        self.is_full = False
        self._room = max_chars
        self._entries_left = limit
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    def add(self, records: Sequence[Record], show: ShowRecord) -> None:
        """Add records behind the end, until the portion is full."""
        for record in records:
            said = show(record)
            if said is None:
                self.end = TextPosition(record.seq)
                continue
            if not self._entries_left or not self._room:
                self.is_full = True
                return
            self._add_text(record.seq, said)
            if self.is_full:
                return

    def _add_text(self, seq: int, said: str) -> None:
        rest = said[self.end.chars :]
        taken = rest[: self._room]
        self._pieces.append(taken)
        self._room -= len(taken)
        if len(taken) < len(rest):
            self.end = TextPosition(seq - 1, self.end.chars + len(taken))
            self.is_full = True
        else:
            self.end = TextPosition(seq)
            self._entries_left -= 1


def show_message(record: Record) -> str | None:
    """Return a message of the transcript with its author."""
    body = record.body
    if record.kind == "session_cleared":
        return "\n[the conversation was cleared]\n"
    if record.kind not in ("user_text", "agent_text"):
        return None
    text = str(body.get("text", ""))
    if record.kind == "user_text":
        return f"\n[{record.seq}] user: {text}\n"
    return text if body.get("continues") else f"\n[{record.seq}] agent: {text}"


def show_call(record: Record) -> str | None:
    """Return the start or the end of a tool call."""
    body = record.body
    if record.kind == "tool_call":
        given = _brief_json(body.get("input"), _MAX_INPUT_CHARS)
        return f"[{record.seq}] {body.get('name')} ({body.get('call_id')}) began: {given}\n"
    if record.kind == "tool_ended":
        result = _brief_json(body.get("result"), _MAX_RESULT_CHARS)
        how = f"{body.get('outcome')}: {result}"
        return f"[{record.seq}] {body.get('name')} ({body.get('call_id')}) {how}\n"
    return None


def show_plan(entries: object) -> str:
    """Return the entries of a plan, one on each line."""
    if not isinstance(entries, list):
        return _brief_json(entries, _MAX_RESULT_CHARS)
    return "\n".join(f"- {_plan_entry(one)}" for one in entries)


def _plan_entry(entry: object) -> str:
    if isinstance(entry, Mapping) and isinstance(entry.get("content"), str):
        status = entry.get("status")
        return f"{entry['content']}" + (f" ({status})" if status else "")
    return _brief_json(entry, _MAX_INPUT_CHARS)


def _brief_json(value: Any, most: int) -> str:  # noqa: ANN401 - JSON data
    if value is None or isinstance(value, str):
        return clip(value or "", most)
    return clip(orjson.dumps(value, default=str).decode(), most)
