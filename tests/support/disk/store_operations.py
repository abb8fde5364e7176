"""Operations on a store before its disk fails, and everything visible in it afterwards.

A store in memory, which has no disk, runs the same operations: its content after each is what any
other store may show.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeAlias, assert_never

import attrs

from supervisor.core.errors import SupervisorError
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.core.state import SessionState
from supervisor.store.memory import MemoryStore
from supervisor.store.port import ProcessEntry, Store, Stored, StoredReply, Write
from tests.support.store_samples import ONE, THREE, TWO, creation_write, receipt, row, rows_of

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
    process: ProcessEntry


Operation: TypeAlias = Commit | Claim | Delete | NoteProcess


async def do(store: Store, operation: Operation) -> None:
    """Run the operation and check that it was not refused; run a checkpoint if one is due."""
    match operation:
        case Commit(writes):
            answers: list[SupervisorError | None] = await store.commit(writes)
            assert answers == [None] * len(writes)
        case Claim(session_id):
            assert await store.claim([session_id]) != [None]
        case Delete(session_id):
            await store.delete(session_id)
        case NoteProcess(process):
            await store.record_process(process)
        case _:
            assert_never(operation)
    if store.needs_checkpoint:
        await store.run_checkpoint()


@attrs.frozen
class StoreView:
    """Everything that a reader can see of a store."""

    rows: list[Stored]
    records: list[tuple[int, Record]]
    kept: list[StoredReply | None]
    snapshots: list[tuple[int, SessionState] | None]
    positions_of_a_word: list[int]
    processes: list[ProcessEntry]


async def view_of(store: Store) -> StoreView:
    return StoreView(
        rows=await rows_of(store),
        records=await store.all_records(),
        kept=[await store.stored_reply(scope, key) for scope in SESSIONS for key in KEYS],
        snapshots=[await store.snapshot(one, at=1_000_000) for one in SESSIONS],
        positions_of_a_word=[hit.position for hit in await store.search("word", limit=1_000)],
        processes=sorted(await store.processes(), key=lambda process: process.pid),
    )


async def views_of(operations: Sequence[Operation], *, snapshot_every: int) -> list[StoreView]:
    """Return the visible content before the first operation, and after each."""
    store = MemoryStore(snapshot_every=snapshot_every)
    views = [await view_of(store)]
    for operation in operations:
        await do(store, operation)
        views.append(await view_of(store))
    return views


async def last_view_of(operations: Sequence[Operation], *, snapshot_every: int) -> StoreView:
    """Return the visible content after all operations."""
    store = MemoryStore(snapshot_every=snapshot_every)
    for operation in operations:
        await do(store, operation)
    return await view_of(store)


def random_operations(seed: int, length: int) -> list[Operation]:
    """Return `length` operations on three sessions that a healthy store accepts."""
    generator = _OperationGenerator(seed)
    return [generator.next_operation(number) for number in range(length)]


class _OperationGenerator:
    """A generator of operations that tracks what was written, so that the next one follows."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        # The epoch and the last number of each existing session.
        self._existing: dict[SessionId, tuple[int, int]] = {}

    def next_operation(self, number: int) -> Operation:
        missing = [one for one in SESSIONS if one not in self._existing]
        if missing:
            self._existing |= dict.fromkeys(missing, (0, 1))
            return Commit(tuple(creation_write(one) for one in missing))
        choice = self._chance.random()
        someone = self._chance.choice(SESSIONS)
        epoch, last = self._existing[someone]
        if choice < 0.1:
            self._existing[someone] = (epoch + 1, last)
            return Claim(someone)
        if choice < 0.15:
            del self._existing[someone]
            return Delete(someone)
        if choice < 0.2:
            return NoteProcess(ProcessEntry(someone, number, 1, "boot"))
        return Commit(self._writes())

    def _writes(self) -> tuple[Write, ...]:
        """Return writes of some sessions, one of them linked with another's."""
        one, two, three = self._chance.sample(SESSIONS, 3)
        pair = self._write(one).changed(linked_write=self._write(two))
        return (pair, self._write(three)) if self._chance.random() < 0.5 else (pair,)

    def _write(self, session_id: SessionId) -> Write:
        epoch, last = self._existing[session_id]
        count = self._chance.randint(1, 3)
        self._existing[session_id] = (epoch, last + count)
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
        # Words for the search, or a text longer than a page.
        if self._chance.random() < 0.7:
            return Record(session_id, seq, 2.0, None, "agent_text", {"text": "word", "part": 0})
        return Record(session_id, seq, 2.0, None, "thought", {"text": "x" * 9_000, "part": 0})
