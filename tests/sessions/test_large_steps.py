"""Large turn ends of many sessions reach the store one at a time, and after waiting callers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio

import supervisor
import supervisor.runtime
from supervisor import Session, Supervisor, Turn
from supervisor.core.errors import SupervisorError
from supervisor.core.text import MAX_RESULT_BYTES
from supervisor.sessions.output_budget import LARGE_BYTES
from supervisor.sessions.turn_buffer import record_size
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Write

WRITERS = 16
# All other writes of a commit: output of the flusher, inputs, starts.
SMALL_BYTES = 2 * LARGE_BYTES


class SizeStore(MemoryStore):
    """Keeps the size of each commit; a commit takes a millisecond."""

    def __init__(self) -> None:
        super().__init__()
        self.commit_bytes: list[int] = []

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        records = [record for write in writes for record in write.records]
        self.commit_bytes.append(sum(record_size(record.body) for record in records))
        await trio.sleep(0.001)
        return await super().commit(writes)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> SizeStore:
    store = SizeStore()
    monkeypatch.setattr(supervisor.runtime, "MemoryStore", lambda: store)
    return store


class Writers:
    """Agents that write a long text, and end their turns at the same time."""

    def __init__(self) -> None:
        self._ready = 0
        self._all_ready = trio.Event()
        self.end = trio.Event()
        self.agents = [
            supervisor.PythonAgent("writer", self.write),
            supervisor.PythonAgent("searcher", self.search),
            supervisor.PythonAgent("stubborn", self.ignore_interrupts),
            supervisor.PythonAgent("listener", self.listen),
        ]

    async def write(self, turn: Turn) -> None:
        await turn.say("x" * MAX_RESULT_BYTES)
        await self._wait()

    async def search(self, turn: Turn) -> None:
        async with turn.tool("search") as call:
            await self._wait()
            call.result("x" * MAX_RESULT_BYTES)

    async def ignore_interrupts(self, turn: Turn) -> None:
        await turn.say("x" * MAX_RESULT_BYTES)
        self._count()
        with trio.CancelScope(shield=True):
            await self.end.wait()

    async def listen(self, turn: Turn) -> None:
        await trio.sleep_forever()

    async def _wait(self) -> None:
        self._count()
        await self.end.wait()

    def _count(self) -> None:
        self._ready += 1
        if self._ready == WRITERS:
            self._all_ready.set()

    async def start(self, sup: Supervisor, agent: str) -> list[Session]:
        """Return sessions whose agents have written their text, and wait for `end`."""
        sessions = [await sup.create(agent) for _ in range(WRITERS)]
        for session in sessions:
            await session.send("go")
        await self._all_ready.wait()
        await trio.sleep(1.0)  # all of it is durable
        return sessions


@pytest.mark.parametrize("agent", ["writer", "searcher"])
async def test_sixteen_large_ends_are_committed_one_at_a_time(store: SizeStore, agent: str) -> None:
    writers = Writers()
    async with supervisor.open(agents=writers.agents) as sup:
        sessions = await writers.start(sup, agent)
        store.commit_bytes.clear()
        writers.end.set()
        for session in sessions:
            await session.wait_idle()

    assert sum(store.commit_bytes) > WRITERS * MAX_RESULT_BYTES
    assert max(store.commit_bytes) < MAX_RESULT_BYTES + SMALL_BYTES


async def test_interrupted_turns_with_long_texts_are_committed_one_at_a_time(
    store: SizeStore,
) -> None:
    writers = Writers()
    async with supervisor.open(agents=writers.agents) as sup:
        sessions = await writers.start(sup, "stubborn")
        store.commit_bytes.clear()
        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(session.interrupt, "turn")
        writers.end.set()

    assert sum(store.commit_bytes) > WRITERS * MAX_RESULT_BYTES
    assert max(store.commit_bytes) < MAX_RESULT_BYTES + SMALL_BYTES


async def test_a_send_waits_for_at_most_two_of_sixteen_large_ends(store: SizeStore) -> None:
    writers = Writers()
    async with supervisor.open(agents=writers.agents) as sup:
        busy = await sup.create("listener")
        await busy.send("listen")
        sessions = await writers.start(sup, "writer")
        store.commit_bytes.clear()
        writers.end.set()
        await trio.sleep(0.0005)
        await busy.send("more")
        behind = sum(store.commit_bytes)
        for session in sessions:
            await session.wait_idle()

    assert behind < 2 * MAX_RESULT_BYTES + SMALL_BYTES
