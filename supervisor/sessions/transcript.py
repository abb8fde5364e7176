"""Transcript of a session: its records as messages, for agents and for readers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, overload

import attrs

from supervisor.core.creation import Message
from supervisor.core.errors import NotStorable
from supervisor.core.ids import TurnId
from supervisor.core.records import Record


def messages_from_records(records: Iterable[Record]) -> list[Message]:
    """Return the messages of the records, in order; the parts of a split text are joined."""
    past = Transcript()
    for record in records:
        past.apply(record)
    return past.messages


# Kinds of records that add messages, or clear them.
TRANSCRIPT_KINDS: Final = frozenset({"user_text", "agent_text", "session_cleared"})


# A longer transcript is read from the store at each turn: a session that writes without end must
# not take memory without end.
MAX_CACHED_CHARS: Final = 2 * 1024 * 1024


class Transcript:
    """Messages of the current chapter, cached while the session is in memory."""

    __slots__ = ("_continuation", "_last_seq", "_messages", "size")

    def __init__(self) -> None:
        self.size = 0  # of all messages, in characters
        self._messages: list[Message] = []
        # Further text of the last message, joined on access: it may consist of ten thousand pieces.
        self._continuation: list[str] = []
        self._last_seq = 0

    @property
    def messages(self) -> list[Message]:
        """All messages, with the parts of the last message joined."""
        if self._continuation:
            last = self._messages[-1]
            self._messages[-1] = attrs.evolve(last, text=last.text + "".join(self._continuation))
            self._continuation = []
        return self._messages

    def apply(self, record: Record) -> None:
        """Add the message of a record; ignore a record that was applied before."""
        if record.seq <= self._last_seq:
            return
        self._last_seq = record.seq
        match record.kind:
            case "user_text":
                steered = record.body.get("steered", False)
                self._add(Message("user", _text(record), record.at, record.turn_id, steered))
            case "agent_text" if record.body.get("continues") and self._messages:
                self._continuation.append(_text(record))
                self.size += len(self._continuation[-1])
            case "agent_text":
                self._add(Message("agent", _text(record), record.at, record.turn_id))
            case "session_cleared":
                self._continuation = []
                self._messages = []  # a new list: views of the old one stay valid
                self.size = 0

    @property
    def is_cacheable(self) -> bool:
        """Whether the messages are few enough to be kept in memory between turns."""
        return self.size <= MAX_CACHED_CHARS

    def messages_before(self, turn: TurnId) -> Sequence[Message]:
        """Return the messages before the turn, which must be the last one."""
        messages = self.messages
        end = len(messages)
        while end and messages[end - 1].turn_id == turn:
            end -= 1
        return _MessagesView(messages, end)

    def _add(self, message: Message) -> None:
        self.messages.append(message)
        self.size += len(message.text)


def _text(record: Record) -> str:
    text = record.body.get("text")
    if not isinstance(text, str):
        raise NotStorable(
            f"record {record.seq} of session {record.session_id} has no text",
            hint="run repair(dry_run=True) on the session to see all damage",
        )
    return text


class _MessagesView(Sequence[Message]):
    """View of the first messages of a growing list; avoids a copy that is often not read."""

    __slots__ = ("_end", "_messages")

    def __init__(self, messages: list[Message], end: int) -> None:
        self._messages = messages
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
            return [self._messages[number] for number in place]
        return self._messages[place]

    def __repr__(self) -> str:
        return repr(self._messages[: self._end])
