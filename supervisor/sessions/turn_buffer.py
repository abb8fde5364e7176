"""Output of a running turn, and the sizes of its records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from supervisor.core.errors import OutputTooLarge
from supervisor.core.facts import AnyRecord
from supervisor.core.ids import TurnId
from supervisor.core.records import RecordKind, StreamedKind
from supervisor.core.text import MAX_RESULT_BYTES, TurnOutput, cut_text

# Maximum size of a text record.
PART_BYTES: Final = 4096
# A record of these kinds ends a message: text after it does not continue the text before it. An
# input that is accepted during a message does not end it.
BREAK_KINDS: Final[frozenset[RecordKind]] = frozenset(
    {"user_text", "agent_text", "thought", "tool_call", "tool_ended", "plan"}
)
# Estimated size of a record without its body.
RECORD_BYTES: Final = 200
# Maximum size of a character in UTF-8.
_MAX_CHARACTER_BYTES: Final = 4
# Values whose size as JSON is estimated, and the estimate.
_SCALARS: Final = frozenset({int, float, bool, type(None)})
_SCALAR_BYTES: Final = 8


def utf8_size(text: str) -> int:
    """Return the size of the text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def split_text(text: str, size: int) -> Iterator[str]:
    """Yield the text of this size in pieces of whole characters, each at most one record."""
    if size <= PART_BYTES:
        yield text
        return
    width = PART_BYTES if text.isascii() else PART_BYTES // _MAX_CHARACTER_BYTES
    for start in range(0, len(text), width):
        yield text[start : start + width]


def json_size(body: object) -> int:
    """Return the approximate size of the value as JSON, in bytes."""
    if isinstance(body, str):
        return len(body)
    # Dicts first: to ask whether a value is any other mapping takes 1,000 instructions.
    if isinstance(body, dict) or (type(body) not in _SCALARS and isinstance(body, Mapping)):
        return sum([json_size(key) + json_size(value) for key, value in body.items()])
    if isinstance(body, (list, tuple)):
        return sum(map(json_size, body))
    return _SCALAR_BYTES


def record_size(body: object) -> int:
    """Return the approximate size of a record with this body, in bytes."""
    return json_size(body) + RECORD_BYTES


class OpenPart:
    """Streamed text that is merged until it becomes a record."""

    __slots__ = ("at", "continues", "kind", "part_name", "pieces", "size", "turn", "width")

    def __init__(
        self,
        turn: TurnId,
        part_name: str,
        kind: StreamedKind,
        first: str,
        size: int,
        *,
        at: float,
        continues: bool,
    ) -> None:
        self.turn = turn
        self.part_name = part_name
        self.kind = kind
        self.pieces = [first]
        self.size = size  # in bytes
        self.width = len(first)  # in characters
        self.at = at  # time of the last piece
        self.continues = continues

    @property
    def charged_bytes(self) -> int:
        """At least the bytes that were counted for the pieces."""
        return self.size + RECORD_BYTES * len(self.pieces)

    def fits(self, kind: StreamedKind, size: int) -> bool:
        """Return True if more text of this kind fits into the part."""
        return kind == self.kind and self.size + size <= PART_BYTES

    def add(self, text: str, size: int, at: float) -> None:
        """Add a piece that fits."""
        self.pieces.append(text)
        self.size += size
        self.width += len(text)
        self.at = at


def text_pieces(facts: Iterable[AnyRecord], part: OpenPart | None) -> list[tuple[str, bool]]:
    """Return the agent's text in records and an open part: pieces, and whether each continues."""
    pieces = [
        (str(one.body["text"]), bool(one.body.get("continues")))
        for one in facts
        if one.kind == "agent_text"
    ]
    if part is not None and part.kind == "agent_text":
        pieces.append(("".join(part.pieces), part.continues))
    return pieces


class ReceivedText:
    """The text that the agent of a turn has sent: its start, and a digest of the rest.

    A turn may have 64 MiB of text, so only as much as a result can show is kept in memory.
    """

    __slots__ = ("_bytes_left", "_pieces", "_rest")

    def __init__(self) -> None:
        # Of the head; 0 once the text is longer.
        self._bytes_left = MAX_RESULT_BYTES
        self._pieces: list[str] = []
        self._rest: hashlib.blake2b | None = None

    @property
    def head(self) -> str:
        """The start of the text, at most `MAX_RESULT_BYTES` in whole characters."""
        return "".join(self._pieces)

    def append(self, text: str, size: int) -> None:
        """Add a piece of this size in bytes."""
        if size <= self._bytes_left:
            self._bytes_left -= size
            self._pieces.append(text)
        else:
            self._append_rest(text)

    def _append_rest(self, text: str) -> None:
        """Add a piece that does not fit into the head as a whole."""
        if self._rest is None:
            self._rest = hashlib.blake2b()
            kept = cut_text(text, self._bytes_left)
            self._bytes_left = 0
            self._pieces.append(kept)
            text = text[len(kept) :]
        self._rest.update(text.encode())

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
        "merged_chars",
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
        # Number of its characters that are in the log; the rest is held, and dropped if the turn
        # ends first.
        self.merged_chars = 0
        # Kind of the last text, if no other record followed: more text of it continues the message.
        self.last_kind: StreamedKind | None = None
        # Time of the last progress, by the active clock, and whether silence was reported since.
        self.progress_at = now
        self.is_reported_silent = False

    def count_bytes(self, size: int) -> None:
        """Count output; raise OutputTooLarge if the turn exceeds its limit."""
        if self.bytes + size > self.max_bytes:
            raise OutputTooLarge(
                f"turn {self.turn} has written {self.bytes} of {self.max_bytes} bytes of output",
                hint="write large results into files, or raise max_turn_bytes",
            )
        self.bytes += size

    def open_part(
        self, kind: StreamedKind, first: str, size: int, at: float, *, continues: bool
    ) -> OpenPart:
        """Return the next part of the output, with its first piece.

        With `continues`, it continues a message if the last text was of the same kind.
        """
        self.part_count += 1
        continues = continues and self.last_kind == kind
        if kind == "agent_text" and not continues:
            self.message_count += 1
        name, turn = f"{self.turn}.{self.part_count}", self.turn
        return OpenPart(turn, name, kind, first, size, at=at, continues=continues)

    @property
    def merged(self) -> TurnOutput:
        """The output that is in the log."""
        head, chars = self.received_text.head, self.merged_chars
        return TurnOutput(head[:chars], self.message_count, chars > len(head))
