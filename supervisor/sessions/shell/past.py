"""What was said in a session, as messages: for agents, and for people who read."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, overload

import attrs

from supervisor.core.creation import Message
from supervisor.core.errors import NotStorable
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.records import Record
from supervisor.store.repair import readable

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House

logger = logging.getLogger("supervisor")


def messages_of(records: Iterable[Record]) -> list[Message]:
    """What was said, in order; text that was split for storage is whole again."""
    past = Past()
    for record in records:
        past.take(record)
    return past.messages


async def past_of(house: House, session_id: SessionId) -> Past:
    """What was said in a session, for its agent: as far as it can be read, and goes on from it."""
    past = Past()
    try:
        for record in await house.tree.all_records(session_id):
            past.take(record)
    except NotStorable as damage:
        logger.warning("its agent is not told all: %s", damage)
        past = Past()
        for record in readable(await house.store.raw_records(session_id), session_id):
            past.take(record)
    return past


# The kinds of records in which something is said, or forgotten.
KINDS_OF_PAST: Final = frozenset({"user_text", "agent_text", "session_cleared"})


class Past:
    """The messages of the chapter that is open, kept while its session is in memory."""

    __slots__ = ("_messages", "_rest", "_up_to")

    def __init__(self) -> None:
        self._messages: list[Message] = []
        # More of the last message, which is put together when somebody looks: it may have come in
        # ten thousand pieces.
        self._rest: list[str] = []
        self._up_to = 0

    @property
    def messages(self) -> list[Message]:
        """All of them, whole."""
        if self._rest:
            last = self._messages[-1]
            self._messages[-1] = attrs.evolve(last, text=last.text + "".join(self._rest))
            self._rest = []
        return self._messages

    def take(self, record: Record) -> None:
        """Add what a record says; one that was taken before changes nothing."""
        if record.seq <= self._up_to:
            return
        self._up_to = record.seq
        match record.kind:
            case "user_text":
                steered = record.body.get("steered", False)
                self._add(Message("user", _text(record), record.at, record.turn_id, steered))
            case "agent_text" if record.body.get("continues") and self._messages:
                self._rest.append(_text(record))
            case "agent_text":
                self._add(Message("agent", _text(record), record.at, record.turn_id))
            case "session_cleared":
                self._rest = []
                self._messages = []  # a new list: who looks at the old one goes on doing so

    def before(self, turn: TurnId) -> Sequence[Message]:
        """What was said before that turn, which is the last one."""
        messages = self.messages
        end = len(messages)
        while end and messages[end - 1].turn_id == turn:
            end -= 1
        return _View(messages, end)

    def _add(self, message: Message) -> None:
        self.messages.append(message)


def _text(record: Record) -> str:
    text = record.body.get("text")
    if not isinstance(text, str):
        raise NotStorable(
            f"record {record.seq} of session {record.session_id} has no text",
            hint="repair(dry_run=True) of that session says what else is wrong",
        )
    return text


class _View(Sequence[Message]):
    """The first messages of a list that grows: nothing is copied for who never looks."""

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
