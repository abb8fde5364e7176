"""The transcript joins streamed text and is read without copying all of it each time."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, SupportsIndex, overload

import pytest

import supervisor
from supervisor import Message, Record, Turn, runtime
from supervisor.core.ids import SessionId, TurnId
from supervisor.sessions import services
from supervisor.sessions.transcript import Transcript, _Entry, _MessagesView
from supervisor.store.memory import MemoryStore

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


# Reading from the store --------------------------------------------------------------------------

PAGE = 10
PAGES = 6


class CountingStore(MemoryStore):
    """Counts the records that were read and are in memory, at each read."""

    def __init__(self) -> None:
        super().__init__()
        self._read: list[weakref.ref[Record]] = []
        self.counts: list[int] = []

    async def records(self, session_id: SessionId, **options: Any) -> list[Record]:  # noqa: ANN401
        found = await super().records(session_id, **options)
        self._read += map(weakref.ref, found)
        self.counts.append(sum(one() is not None for one in self._read))
        return found


@supervisor.agent("reciter")
async def reciter(turn: Turn) -> str:
    return " ".join(message.text for message in turn.history)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> CountingStore:
    store = CountingStore()
    monkeypatch.setattr(runtime, "MemoryStore", lambda: store)
    monkeypatch.setattr(services, "_PAGE_RECORDS", PAGE)
    return store


async def said_to(session: supervisor.Session) -> Sequence[str]:
    return [message.text for message in await session.transcript()]


async def test_a_transcript_is_read_with_one_page_of_records_in_memory(
    store: CountingStore,
) -> None:
    texts = [f"text {number}" for number in range(PAGE * PAGES)]
    async with supervisor.open(agents=[reciter]) as sup:
        session = await sup.create("reciter")
        for text in texts:
            await session.append("user", text)
        store.counts.clear()
        assert await said_to(session) == texts
        assert (await session.prompt("go")).text == " ".join(texts)

    assert len(store.counts) >= 2 * PAGES
    assert max(store.counts) <= 2 * PAGE  # and the next one
