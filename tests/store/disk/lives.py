"""What is done to a store before its disk fails, and all that can be seen of it afterwards.

The same life is led by a store in memory, which has no disk: what it shows after each deed is what
any other store may show.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeAlias, assert_never

import attrs

from supervisor.core.errors import SupervisorError
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.core.session import Session
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Kept, Process, Store, Stored, Write
from tests.store.cast import ONE, THREE, TWO, birth, receipt, row, rows_of

SESSIONS = (ONE, TWO, THREE)
KEYS = ("a", "b", "c")


@attrs.frozen
class Commit:
    writes: tuple[Write, ...]


@attrs.frozen
class Claim:
    session_id: SessionId


@attrs.frozen
class Delete:
    session_id: SessionId


@attrs.frozen
class NoteProcess:
    process: Process


Deed: TypeAlias = Commit | Claim | Delete | NoteProcess


async def do(store: Store, deed: Deed) -> None:
    """Do it, and see that it was not refused."""
    match deed:
        case Commit(writes):
            answers: list[SupervisorError | None] = await store.commit(writes)
            assert answers == [None] * len(writes)
        case Claim(session_id):
            assert await store.claim([session_id]) != [None]
        case Delete(session_id):
            await store.delete(session_id)
        case NoteProcess(process):
            await store.note_process(process)
        case _:
            assert_never(deed)


@attrs.frozen
class Sight:
    """All that a reader can see of a store."""

    rows: list[Stored]
    records: list[tuple[int, Record]]
    kept: list[Kept | None]
    snapshots: list[tuple[int, Session] | None]
    positions_of_a_word: list[int]
    processes: list[Process]


async def seen_of(store: Store) -> Sight:
    return Sight(
        rows=await rows_of(store),
        records=await store.all_records(),
        kept=[await store.kept(scope, key) for scope in SESSIONS for key in KEYS],
        snapshots=[await store.snapshot(one, at=1_000_000) for one in SESSIONS],
        positions_of_a_word=[hit.position for hit in await store.search("word", limit=1_000)],
        processes=sorted(await store.processes(), key=lambda process: process.pid),
    )


async def sights_of(life: Sequence[Deed], *, snapshot_every: int) -> list[Sight]:
    """What is to be seen before the first deed, and after each."""
    store = MemoryStore(snapshot_every=snapshot_every)
    sights = [await seen_of(store)]
    for deed in life:
        await do(store, deed)
        sights.append(await seen_of(store))
    return sights


async def last_sight_of(life: Sequence[Deed], *, snapshot_every: int) -> Sight:
    """What is to be seen after all of it."""
    store = MemoryStore(snapshot_every=snapshot_every)
    for deed in life:
        await do(store, deed)
    return await seen_of(store)


def life_of(seed: int, length: int) -> list[Deed]:
    """So many deeds of three sessions, none of which a healthy store refuses."""
    author = _Author(seed)
    return [author.next_deed(number) for number in range(length)]


class _Author:
    """Knows what was written so far, so that what comes next follows."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        # The epoch and the last number of each session that is there.
        self._there: dict[SessionId, tuple[int, int]] = {}

    def next_deed(self, number: int) -> Deed:
        missing = [one for one in SESSIONS if one not in self._there]
        if missing:
            self._there |= dict.fromkeys(missing, (0, 1))
            return Commit(tuple(birth(one) for one in missing))
        choice = self._chance.random()
        someone = self._chance.choice(SESSIONS)
        epoch, last = self._there[someone]
        if choice < 0.1:
            self._there[someone] = (epoch + 1, last)
            return Claim(someone)
        if choice < 0.15:
            del self._there[someone]
            return Delete(someone)
        if choice < 0.2:
            return NoteProcess(Process(someone, number, 1, "boot"))
        return Commit(self._writes())

    def _writes(self) -> tuple[Write, ...]:
        """Of some sessions, and one of them together with another's: both or neither."""
        one, two, three = self._chance.sample(SESSIONS, 3)
        pair = attrs.evolve(self._write(one), also=self._write(two))
        return (pair, self._write(three)) if self._chance.random() < 0.5 else (pair,)

    def _write(self, session_id: SessionId) -> Write:
        epoch, last = self._there[session_id]
        count = self._chance.randint(1, 3)
        self._there[session_id] = (epoch, last + count)
        records = tuple(self._record(session_id, last + 1 + n) for n in range(count))
        kept = receipt(session_id, self._chance.choice(KEYS), self._chance.random())
        return Write(
            session_id,
            epoch,
            records,
            row(session_id, title=f"after {last + count}"),
            kept if self._chance.random() < 0.3 else None,
        )

    def _record(self, session_id: SessionId, seq: int) -> Record:
        # Words that can be looked for, or something longer than a page.
        if self._chance.random() < 0.7:
            return Record(session_id, seq, 2.0, None, "agent_text", {"text": "word", "part": 0})
        return Record(session_id, seq, 2.0, None, "thought", {"text": "x" * 9_000, "part": 0})
