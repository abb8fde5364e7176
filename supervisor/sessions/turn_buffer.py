"""Output of a running turn, and the sizes of its records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from supervisor.core.ids import TurnId
from supervisor.core.records import Record, RecordKind, StreamedKind
from supervisor.core.text import MAX_RESULT_BYTES, TextHead, TurnOutput

# Maximum size of a text record.
PART_BYTES: Final = 4096
# A record of these kinds ends a message: text after it does not continue the text before it. An
# input that is accepted during a message does not end it.
_BREAK_KINDS: Final[frozenset[RecordKind]] = frozenset(
    {"user_text", "agent_text", "thought", "tool_call", "tool_ended", "plan"}
)
# Estimated size of a record without its body.
RECORD_BYTES: Final = 200
# Maximum size of a character in UTF-8.
_MAX_CHARACTER_BYTES: Final = 4


def utf8_size(text: str) -> int:
    """Return the size of the text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def split_text(text: str) -> Iterator[str]:
    """Yield the text in pieces of whole characters, each small enough for one record."""
    width = PART_BYTES if text.isascii() else PART_BYTES // _MAX_CHARACTER_BYTES
    for start in range(0, len(text), width):
        yield text[start : start + width]


def json_size(body: object) -> int:
    """Return the approximate size of the value as JSON, in bytes."""
    if isinstance(body, Mapping):
        return sum(json_size(key) + json_size(value) for key, value in body.items())
    if isinstance(body, (list, tuple)):
        return sum(map(json_size, body))
    return len(body) if isinstance(body, str) else 8


def record_size(body: object) -> int:
    """Return the approximate size of a record with this body, in bytes."""
    return json_size(body) + RECORD_BYTES


def with_records(before: list[Record] | None, records: Sequence[Record]) -> list[Record] | None:
    """Return the list with the records added; None without any."""
    if before is None:
        return list(records) or None
    before.extend(records)
    return before


class OpenPart:
    """Streamed text that is merged until it becomes a record."""

    __slots__ = ("at", "continues", "kind", "part_name", "pieces", "size", "turn", "width")

    def __init__(self, kind: StreamedKind, name: str, turn: TurnId, *, continues: bool) -> None:
        self.kind = kind
        self.part_name = name
        self.turn = turn
        self.continues = continues
        self.pieces: list[str] = []
        self.size = 0  # in bytes
        self.width = 0  # in characters
        self.at = 0.0  # time of the last piece

    def fits(self, kind: StreamedKind, size: int) -> bool:
        """Return True if more text of this kind fits into the part."""
        return kind == self.kind and self.size + size <= PART_BYTES


class ReceivedText:
    """The text that the agent of a turn has sent: its start, and a digest of the rest.

    A turn may have 64 MiB of text, so only as much as a result can show is kept in memory.
    """

    __slots__ = ("_head", "_rest")

    def __init__(self) -> None:
        self._head = TextHead(MAX_RESULT_BYTES)
        self._rest: hashlib.blake2b | None = None

    @property
    def head(self) -> str:
        """The start of the text."""
        return self._head.text

    def append(self, text: str) -> None:
        """Add a piece."""
        rest = self._head.append(text)
        if rest:
            if self._rest is None:
                self._rest = hashlib.blake2b()
            self._rest.update(rest.encode())

    def equals(self, text: str) -> bool:
        """Return True if the whole text is this one."""
        if self._rest is None:
            return text == self.head
        head = self.head
        rest = hashlib.blake2b(text[len(head) :].encode())
        return text.startswith(head) and rest.digest() == self._rest.digest()


class TurnBuffer:
    """The output of the running turn, with its size and the time of its last progress."""

    __slots__ = (
        "bytes",
        "is_reported_silent",
        "last_kind",
        "max_bytes",
        "merged_text",
        "message_count",
        "part_count",
        "progress_at",
        "received_text",
        "turn",
    )

    def __init__(self, turn: TurnId, max_bytes: int, now: float) -> None:
        self.turn = turn
        self.max_bytes = max_bytes
        self.bytes = 0
        self.part_count = 0
        self.message_count = 0
        # The agent's text, held text included.
        self.received_text = ReceivedText()
        # The text that is in the log; held text is dropped if the turn ends first.
        self.merged_text = TextHead(MAX_RESULT_BYTES)
        # Kind of the last text, if no other record followed: more text of it continues the message.
        self.last_kind: StreamedKind | None = None
        # Time of the last progress, by the active clock, and whether silence was reported since.
        self.progress_at = now
        self.is_reported_silent = False

    def break_message(self, kind: RecordKind) -> None:
        """End the current message if a record of this kind does."""
        if kind in _BREAK_KINDS:
            self.last_kind = None

    @property
    def merged(self) -> TurnOutput:
        """The output that is in the log."""
        text = self.merged_text
        return TurnOutput(text.text, self.message_count, text.is_cut)
