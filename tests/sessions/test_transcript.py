"""The transcript joins streamed text and is read without copying all of it each time."""

from __future__ import annotations

from typing import SupportsIndex, overload

import pytest

from supervisor import Message, Record
from supervisor.core.ids import SessionId, TurnId
from supervisor.sessions.transcript import Transcript, _Entry, _MessagesView

PIECES = 1_000
TURN = TurnId("turn_1")


class CountingText(str):
    """Text that counts additions, each of which copies it."""

    __slots__ = ()
    joined = 0

    def __add__(self, more: str) -> CountingText:
        CountingText.joined += 1
        return CountingText(str(self) + more)


class CountingList(list[_Entry]):
    """A list that counts copied slices."""

    copies = 0

    @overload
    def __getitem__(self, index: SupportsIndex) -> _Entry: ...
    @overload
    def __getitem__(self, index: slice) -> list[_Entry]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> _Entry | list[_Entry]:
        if isinstance(index, slice):
            self.copies += 1
        return super().__getitem__(index)


def said(seq: int, text: str, *, continues: bool = True) -> Record:
    body = {"text": text, "part": f"{TURN}.{seq}", "continues": continues}
    return Record(SessionId("s_1"), seq, 0.0, TURN, "agent_text", body)


def test_a_message_in_many_chunks_is_joined_once() -> None:
    CountingText.joined = 0
    past = Transcript()

    past.apply(said(1, CountingText("begin "), continues=False))
    for seq in range(2, PIECES + 2):
        past.apply(said(seq, "more "))

    assert [message.text for message in past.messages] == ["begin " + "more " * PIECES]
    assert CountingText.joined == 1


def test_a_message_is_complete_at_every_read() -> None:
    past = Transcript()
    past.apply(said(1, "one ", continues=False))
    past.apply(said(2, "two "))
    first = past.messages[-1].text
    past.apply(said(3, "three"))
    past.apply(said(3, "three"))
    past.apply(said(4, "another", continues=False))

    assert first == "one two "
    assert [message.text for message in past.messages] == ["one two three", "another"]


@pytest.fixture
def messages() -> CountingList:
    return CountingList(Message("user", str(number), 0.0, TURN) for number in range(10))


def test_a_single_history_message_is_read_without_copying_the_rest(
    messages: CountingList,
) -> None:
    view = _MessagesView(messages, 7)

    assert [view[0].text, view[6].text, view[-1].text, view[-7].text] == ["0", "6", "6", "0"]
    assert [message.text for message in view] == list("0123456")
    assert messages.copies == 0


def test_the_history_ends_where_its_turn_began(messages: CountingList) -> None:
    view = _MessagesView(messages, 7)

    for outside in (7, -8):
        with pytest.raises(IndexError):
            view[outside]
    assert [message.text for message in view[-2:]] == ["5", "6"]
    assert [message.text for message in view[5:100]] == ["5", "6"]
    assert [message.text for message in view[::-3]] == ["6", "3", "0"]
    assert (len(view), messages.copies) == (7, 0)
