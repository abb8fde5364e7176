"""Transcript of a session: its records as messages, for agents and for readers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias, overload

import attrs

from supervisor.core.creation import Message
from supervisor.core.errors import NotStorable
from supervisor.core.facts import AnyRecord
from supervisor.core.ids import TurnId


def messages_from_records(records: Iterable[AnyRecord]) -> list[Message]:
    """Return the messages of the records, in order; the parts of a split text are joined."""
    past = Transcript()
    for record in records:
        past.apply(record)
    return past.messages


# Kinds of records that add messages, or clear them.
TRANSCRIPT_KINDS: Final = frozenset({"user_text", "agent_text", "session_cleared"})
# A message, or its fields. An agent may never read the history, and to create a `Message` takes
# longer than all of `Transcript.apply` (0.47 and 0.34 us), so it is created when it is first read.
_Entry: TypeAlias = Message | tuple[Literal["user", "agent"], str, float, str | None, bool]


# A longer transcript is read from the store at each turn: a session that writes without end must
# not take memory without end.
MAX_CACHED_CHARS: Final = 2 * 1024 * 1024


class Transcript:
    """Messages of the current chapter, cached while the session is in memory."""

    __slots__ = ("_continuation", "_entries", "_last_seq", "_last_turn", "_turn_start", "size")

    def __init__(self) -> None:
        self.size = 0  # of all messages, in characters
        self._entries: list[_Entry] = []
        # Further text of the last message, joined on access: it may consist of ten thousand pieces.
        self._continuation: list[str] = []
        self._last_seq = 0
        # The turn of the last message, and the index of the first message of it.
        self._last_turn: TurnId | None = None
        self._turn_start = 0

    @property
    def messages(self) -> list[Message]:
        """All messages, with the parts of the last message joined."""
        if self._continuation:
            self._join_continuation()
        return [_message_at(self._entries, index) for index in range(len(self._entries))]

    def apply(self, record: AnyRecord) -> None:
        """Add the message of a record; ignore a record that was applied before."""
        seq, kind, body = record.seq, record.kind, record.body
        if seq <= self._last_seq or kind not in TRANSCRIPT_KINDS:
            return
        self._last_seq = seq
        if kind == "session_cleared":
            self._clear()
            return
        text = body.get("text")
        if not isinstance(text, str):
            raise _no_text(record)
        self.size += len(text)
        if kind == "agent_text" and body.get("continues") and self._entries:
            self._continuation.append(text)
            return
        if self._continuation:
            self._join_continuation()
        turn = record.turn_id
        if turn != self._last_turn:
            self._last_turn, self._turn_start = turn, len(self._entries)
        if kind == "user_text":
            self._entries.append(("user", text, record.at, turn, body.get("steered", False)))
        else:
            self._entries.append(("agent", text, record.at, turn, False))

    def _clear(self) -> None:
        self._continuation = []
        self._entries = []  # a new list: views of the old one stay valid
        self._last_turn, self._turn_start = None, 0
        self.size = 0

    def _join_continuation(self) -> None:
        last = _message_at(self._entries, -1)
        self._entries[-1] = attrs.evolve(last, text=last.text + "".join(self._continuation))
        self._continuation = []

    @property
    def is_cacheable(self) -> bool:
        """Whether the messages are few enough to be kept in memory between turns."""
        return self.size <= MAX_CACHED_CHARS

    def messages_before(self, turn: TurnId) -> Sequence[Message]:
        """Return the messages before the turn, which must be the last one."""
        if self._continuation:
            self._join_continuation()
        entries = self._entries
        end = self._turn_start if self._last_turn == turn else len(entries)
        return _MessagesView(entries, end)


def _message_at(entries: list[_Entry], index: int) -> Message:
    """Return a message of the list, which keeps it for the next read."""
    entry = entries[index]
    if not isinstance(entry, Message):
        entry = entries[index] = Message(*entry)
    return entry


def _no_text(record: AnyRecord) -> NotStorable:
    return NotStorable(
        f"record {record.seq} of session {record.session_id} has no text",
        hint="run repair(dry_run=True) on the session to see all damage",
    )


class _MessagesView(Sequence[Message]):
    """View of the first messages of a growing list; avoids a copy that is often not read."""

    __slots__ = ("_end", "_entries")

    def __init__(self, entries: list[_Entry], end: int) -> None:
        self._entries = entries
        self._end = end

    def __len__(self) -> int:
        return self._end

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        place = range(self._end)[index]
        if isinstance(place, range):
            return [_message_at(self._entries, number) for number in place]
        return _message_at(self._entries, place)

    def __repr__(self) -> str:
        return repr(self[:])
