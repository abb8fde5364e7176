"""The budget of output in flight: a bound for all sessions, and equal parts for each."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import trio

import supervisor
import supervisor.runtime
from actors.testing import settle
from supervisor import Settings, Turn
from supervisor.core.errors import SupervisorError
from supervisor.sessions.flusher import MAX_BATCH_BYTES, MAX_SESSION_BYTES
from supervisor.sessions.output_budget import (
    FREE_BYTES,
    MAX_SHARE_BYTES,
    MESSAGE_BYTES,
    PACED_SECONDS,
    QUANTUM_BYTES,
    OutputBudget,
)
from supervisor.sessions.turn_buffer import record_size
from supervisor.store.memory import MemoryStore
from supervisor.store.pending import MAX_YIELD_SECONDS, WriteThrottle
from supervisor.store.port import Write

MAX_BYTES = 1024 * 1024
MESSAGE = 500


@pytest.fixture
def throttle() -> WriteThrottle:
    return WriteThrottle()


@pytest.fixture
def budget(throttle: WriteThrottle) -> OutputBudget:
    return OutputBudget(MAX_BYTES, throttle)


class Writer:
    """An agent that writes whenever it may; records that are not committed stay in flight."""

    def __init__(self, budget: OutputBudget) -> None:
        self.share = budget.share()
        self.written = 0

    async def run(self) -> None:
        while True:
            while not self.share.has_room:
                await self.share.wait()
            self.share.add(MESSAGE)
            self.written += MESSAGE
            self.share.mark(self.written)


async def flood(nursery: trio.Nursery, budget: OutputBudget, count: int) -> list[Writer]:
    writers = [Writer(budget) for _ in range(count)]
    for writer in writers:
        nursery.start_soon(writer.run)
    await settle()
    return writers


# One session -------------------------------------------------------------------------------------


async def test_a_session_with_little_output_has_room(budget: OutputBudget) -> None:
    share = budget.share()
    share.add(FREE_BYTES)
    assert share.has_room

    share.add(1)
    assert not share.has_room


async def test_output_is_released_with_its_record(budget: OutputBudget) -> None:
    share = budget.share()
    for seq in (1, 2):
        share.add(100)
        share.mark(seq)
    share.add(10)

    share.release(1)
    assert (share.bytes, budget.bytes) == (110, 110)

    share.release(None)
    share.release(2)
    assert (share.bytes, budget.bytes) == (0, 0)


async def test_a_record_releases_at_most_its_own_output(budget: OutputBudget) -> None:
    share = budget.share()
    share.add(10_000)
    share.mark(1, 4000)
    share.mark(2, 4000)
    share.mark(3, 4000)

    share.release(1)
    assert (share.bytes, budget.bytes) == (6000, 6000)
    share.release(3)
    assert (share.bytes, budget.bytes) == (0, 0)


async def test_a_paced_session_is_free_again_after_a_pause(budget: OutputBudget) -> None:
    share = budget.share()
    share.add(FREE_BYTES + 1)
    share.grant(QUANTUM_BYTES)

    share.release(None)
    share.add(QUANTUM_BYTES + 1)
    assert not share.has_room

    await trio.sleep(PACED_SECONDS)
    share.release(None)
    share.add(FREE_BYTES)
    assert share.has_room


async def test_a_session_has_at_most_its_share_in_flight(
    nursery: trio.Nursery, budget: OutputBudget
) -> None:
    [writer] = await flood(nursery, budget, 1)
    while budget.grant_next():
        await settle()

    assert MAX_SHARE_BYTES < writer.share.bytes <= MAX_SHARE_BYTES + QUANTUM_BYTES + 2 * MESSAGE
    nursery.cancel_scope.cancel()


# All sessions ------------------------------------------------------------------------------------


async def test_sessions_that_flood_take_turns(nursery: trio.Nursery, budget: OutputBudget) -> None:
    writers = await flood(nursery, budget, 5)
    before = [writer.written for writer in writers]
    for number in range(1, 11):
        assert budget.grant_next()
        await settle()
        quanta = sum(writer.written > had for writer, had in zip(writers, before, strict=True))
        assert quanta == min(number, 5)

    parts = [writer.written for writer in writers]
    assert max(parts) - min(parts) <= MESSAGE
    nursery.cancel_scope.cancel()


async def test_all_sessions_together_stay_within_the_bound(
    nursery: trio.Nursery, throttle: WriteThrottle
) -> None:
    budget = OutputBudget(8 * FREE_BYTES, throttle)
    writers = await flood(nursery, budget, 3)
    chance = random.Random(1)
    for _ in range(500):
        if not budget.grant_next() or chance.random() < 0.2:
            writer = chance.choice(writers)
            writer.share.release(writer.written)
        await settle()
        assert budget.bytes == sum(writer.share.bytes for writer in writers)
        assert budget.bytes <= budget.max_bytes + QUANTUM_BYTES + 3 * (FREE_BYTES + MESSAGE)

    nursery.cancel_scope.cancel()


async def test_a_session_with_little_in_flight_gets_a_quantum_beyond_the_bound(
    nursery: trio.Nursery, throttle: WriteThrottle
) -> None:
    budget = OutputBudget(2 * FREE_BYTES, throttle)
    [large, small] = await flood(nursery, budget, 2)
    small.share.grant(0)
    small.share.release(small.written)
    await settle()
    large.share.add(budget.max_bytes)
    had = large.written

    while budget.grant_next():
        await settle()

    assert large.written == had
    assert FREE_BYTES < small.share.bytes <= FREE_BYTES + QUANTUM_BYTES + 2 * MESSAGE
    nursery.cancel_scope.cancel()


async def test_a_higher_limit_lets_waiting_sessions_write(
    nursery: trio.Nursery, throttle: WriteThrottle
) -> None:
    budget = OutputBudget(FREE_BYTES, throttle)
    [writer] = await flood(nursery, budget, 1)
    nursery.start_soon(budget.run)
    await settle()
    had = writer.written

    budget.set_limit(MAX_BYTES)
    await settle()

    assert writer.written > had
    nursery.cancel_scope.cancel()


async def test_a_cancelled_agent_leaves_the_queue(budget: OutputBudget) -> None:
    async with trio.open_nursery() as nursery:
        await flood(nursery, budget, 2)
        assert budget.waiting == 2
        nursery.cancel_scope.cancel()

    assert budget.waiting == 0
    assert not budget.grant_next()


# Callers -----------------------------------------------------------------------------------------


async def test_messages_without_output_are_paced(
    nursery: trio.Nursery, budget: OutputBudget, throttle: WriteThrottle
) -> None:
    handled, share = 0, budget.share()
    free, quantum = FREE_BYTES // MESSAGE_BYTES, QUANTUM_BYTES // MESSAGE_BYTES

    async def send_messages() -> None:
        nonlocal handled
        for _ in range(2 * free):
            await share.pace(1)
            handled += 1

    nursery.start_soon(send_messages)
    await settle()
    assert (handled, budget.waiting) == (free, 1)

    request = await throttle.acquire(1)
    nursery.start_soon(budget.run)
    await trio.sleep(MAX_YIELD_SECONDS / 2)
    assert handled == free

    await trio.sleep(MAX_YIELD_SECONDS)
    assert free < handled <= free + quantum + 1
    throttle.release(request)
    await settle()
    assert handled == 2 * free
    nursery.cancel_scope.cancel()


async def test_a_few_messages_without_output_are_never_paced(budget: OutputBudget) -> None:
    share = budget.share()
    with trio.fail_after(100 * PACED_SECONDS):
        for _ in range(50):
            await share.pace(FREE_BYTES // MESSAGE_BYTES)
            await trio.sleep(PACED_SECONDS)

    assert budget.bytes == 0


async def test_no_quantum_is_handed_out_while_a_caller_waits(
    nursery: trio.Nursery, budget: OutputBudget, throttle: WriteThrottle
) -> None:
    [writer] = await flood(nursery, budget, 1)
    had = writer.written
    request = await throttle.acquire(1)
    nursery.start_soon(budget.run)
    await trio.sleep(MAX_YIELD_SECONDS / 2)
    assert writer.written == had

    throttle.release(request)
    await settle()
    assert writer.written > had
    nursery.cancel_scope.cancel()


async def test_output_waits_for_callers_only_for_a_bounded_time(
    nursery: trio.Nursery, budget: OutputBudget, throttle: WriteThrottle
) -> None:
    [writer] = await flood(nursery, budget, 1)
    had = writer.written
    await throttle.acquire(1)
    nursery.start_soon(budget.run)

    await trio.sleep(1.5 * MAX_YIELD_SECONDS)

    assert had < writer.written <= had + QUANTUM_BYTES + MESSAGE
    nursery.cancel_scope.cancel()


# In a supervisor ---------------------------------------------------------------------------------

FLOODERS = 16
CHUNK = "x" * 1000
CHUNKS = 300
BOUND = 65536


@supervisor.agent("flooder")
async def flooder(turn: Turn) -> None:
    for _ in range(CHUNKS):
        await turn.say(CHUNK)


@supervisor.agent("listener")
async def listener(turn: Turn) -> None:
    await trio.sleep_forever()


class BatchStore(MemoryStore):
    """Keeps the sizes of the output in each commit, by session; a commit takes a millisecond."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[dict[str, int]] = []

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        output: dict[str, int] = {}
        for write in writes:
            size = sum(record_size(one.body) for one in write.records if one.kind == "agent_text")
            if size and write.row is None:
                output[write.session_id] = output.get(write.session_id, 0) + size
        self.batches.append(output)
        await trio.sleep(0.001)
        return await super().commit(writes)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> BatchStore:
    store = BatchStore()
    monkeypatch.setattr(supervisor.runtime, "MemoryStore", lambda: store)
    return store


async def test_sixteen_floods_stay_within_the_bound_and_take_turns(store: BatchStore) -> None:
    settings = Settings(max_pending_output_bytes=BOUND)
    async with supervisor.open(agents=[flooder], settings=settings) as sup:
        sessions = [await sup.create("flooder") for _ in range(FLOODERS)]
        receipts = [await session.send("go") for session in sessions]
        gauges = sup.introspect()
        most = 0
        while "running" in [(await session.info()).phase for session in sessions]:
            most = max(most, gauges.gauges(sessions=FLOODERS).output_pending_bytes)
            await trio.sleep(0.0005)
        results = [
            await session.result(receipt.input_id)
            for session, receipt in zip(sessions, receipts, strict=True)
        ]

    assert all(result.text == CHUNK * CHUNKS for result in results)
    assert BOUND / 2 < most <= BOUND + FLOODERS * (FREE_BYTES + QUANTUM_BYTES)
    full = [batch for batch in store.batches if batch]
    assert max(sum(batch.values()) for batch in full) < MAX_BATCH_BYTES + 2 * MAX_SESSION_BYTES
    assert max(max(batch.values()) for batch in full) < 2 * MAX_SESSION_BYTES
    # Half way through, no session has written much more than another.
    written: dict[str, int] = dict.fromkeys((session.id for session in sessions), 0)
    for batch in full[: len(full) // 2]:
        for session_id, size in batch.items():
            written[session_id] += size
    assert max(written.values()) - min(written.values()) <= MAX_SHARE_BYTES


async def test_long_texts_stay_within_the_bound(store: BatchStore) -> None:
    text, said, most = "x" * MAX_SHARE_BYTES, 0, 0

    async def say_long_texts(turn: Turn) -> None:
        nonlocal said, most
        for _ in range(10):
            said += len(text)
            await turn.say(text)
            durable = sum(sum(batch.values()) for batch in store.batches)
            most = max(most, said - durable)

    agent = supervisor.PythonAgent("long", say_long_texts)
    settings = Settings(max_pending_output_bytes=BOUND)
    async with supervisor.open(agents=[agent], settings=settings) as sup:
        sessions = [await sup.create("long") for _ in range(FLOODERS)]
        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(session.prompt, "go")

    assert said == FLOODERS * 10 * len(text)
    assert most <= BOUND + FLOODERS * (MAX_SHARE_BYTES + FREE_BYTES)


async def test_a_send_waits_for_at_most_one_batch_of_output(store: BatchStore) -> None:
    async with supervisor.open(agents=[flooder, listener]) as sup:
        busy = await sup.create("listener")
        await busy.send("listen")
        for _ in range(FLOODERS):
            await (await sup.create("flooder")).send("go")
        await settle()
        behind = []
        for _ in range(8):
            await trio.sleep(0.0007)
            begun = len(store.batches)
            await busy.send("more")
            behind.append(sum(bool(batch) for batch in store.batches[begun:]))

    assert max(behind) <= 1
