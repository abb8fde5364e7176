"""The writer of a degraded store: every write is answered, none is lost or doubled."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import pytest
import trio

from actors import Ask, Group, Ref, open_actors
from actors.testing import explore, settle
from supervisor.core.errors import Fenced, NotStorable, StoreDegraded, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.store.memory import MemoryStore
from supervisor.store.pending import PendingWrite, StoreHealth, StoreState
from supervisor.store.port import ProcessEntry, Stored, Write
from supervisor.store.writer import (
    MAX_BATCH,
    MAX_RETRY_SECONDS,
    Claim,
    ClaimAll,
    Commit,
    CommitAll,
    Delete,
    ForgetProcess,
    NoteProcess,
    Retry,
    Writer,
    retry_until_healthy,
)
from tests.support.store_samples import ONE, THREE, TWO, birth, more, numbers_of

Mode: TypeAlias = Literal["healthy", "failing", "broken", "broken late"]
PROCESS = ProcessEntry(ONE, 4711, 12, "boot")


class FaultyStore(MemoryStore):
    """A store that fails on request and records the time of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.mode: Mode = "healthy"
        # Number of crashes before it is healthy again.
        self.breaks_left = 0
        self.looks: list[tuple[float, str]] = []
        self.may_answer = trio.Event()
        self.may_answer.set()

    async def _record_call(self, what: str) -> None:
        self.looks.append((trio.current_time(), what))
        await self.may_answer.wait()
        if self.mode == "failing":
            raise StoreDegraded("the disk is full", hint="free some space")
        if self.mode == "broken":
            self._break()

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        await self._record_call("commit")
        answers = await super().commit(writes)
        if self.mode == "broken late":
            self._break()
        return answers

    def _break(self) -> None:
        self.breaks_left -= 1
        if not self.breaks_left:
            self.mode = "healthy"
        raise OSError("the disk is gone")

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        await self._record_call("claim")
        return await super().claim(session_ids)

    async def delete(self, session_id: SessionId) -> None:
        await self._record_call("delete")
        await super().delete(session_id)

    async def record_process(self, process: ProcessEntry) -> None:
        await self._record_call("note")
        await super().record_process(process)

    async def forget_process(self, process: ProcessEntry) -> None:
        await self._record_call("forget")
        await super().forget_process(process)

    async def probe(self) -> None:
        await self._record_call("probe")


class WriterClient:
    """A client of the writer that retries a degraded store as the supervisor does."""

    def __init__(self, writer: Ref, health: StoreHealth, nursery: trio.Nursery) -> None:
        self.writer = writer
        self.health = health
        self.nursery = nursery
        self.told: list[StoreState] = []
        health.set_on_change(self._changed)

    def _changed(self, state: StoreState) -> None:
        self.told.append(state)
        if state.degraded:
            self.nursery.start_soon(retry_until_healthy, self.writer, self.health)

    async def ask(self, question: Ask[Any]) -> Any:  # noqa: ANN401 - the type of the request
        return await self.writer.ask(question, timeout_seconds=math.inf)

    async def commit(self, write: Write) -> Any:  # noqa: ANN401 - any result
        return await self.ask(Commit(write))

    async def hold(self, *writes: Write) -> list[PendingWrite]:
        """Request these writes at once and in order from a failing store; return them pending."""
        pending = [await self.commit(write) for write in writes]
        assert all(isinstance(one, PendingWrite) for one in pending)
        return pending


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore()


@pytest.fixture
def health() -> StoreHealth:
    return StoreHealth()


@pytest.fixture
async def system() -> AsyncIterator[Group]:
    async with open_actors() as root:
        yield root


@pytest.fixture
async def writer(system: Group, store: FaultyStore, health: StoreHealth) -> Ref:
    return await system.start(lambda: Writer(store, health), name="writer", restart="permanent")


@pytest.fixture
def client(writer: Ref, health: StoreHealth, nursery: trio.Nursery) -> WriterClient:
    return WriterClient(writer, health, nursery)


@pytest.fixture
def _quiet() -> Iterator[None]:
    """Silence the log of intended crashes."""
    logger = logging.getLogger("actors")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


async def recover(store: FaultyStore) -> None:
    store.mode = "healthy"
    await trio.sleep(MAX_RETRY_SECONDS)
    await settle()


# Pending writes -------------------------------------------------------------------------------


async def test_a_waiter_gets_the_result_of_a_pending_write(
    nursery: trio.Nursery,
) -> None:
    pending, heard = PendingWrite(), list[object]()

    async def wait() -> None:
        heard.append(await pending.wait())

    nursery.start_soon(wait)
    await settle()
    assert heard == []
    pending.settle(None)
    await settle()

    assert heard == [None]


async def test_a_late_waiter_gets_the_result_at_once() -> None:
    pending, heard = PendingWrite(), list[object]()
    fenced = Fenced("gone", hint="look again")
    pending.settle(fenced)

    pending.on_settled(heard.append)

    assert heard == [fenced]
    assert await pending.wait() is fenced


def test_callbacks_are_called_in_order_and_once() -> None:
    pending, heard = PendingWrite(), list[int]()
    for number in range(3):
        pending.on_settled(lambda _, number=number: heard.append(number))  # type: ignore[misc]

    pending.settle(None)

    assert heard == [0, 1, 2]


# Writing --------------------------------------------------------------------------------------


async def test_every_write_of_the_failed_batch_is_answered_at_once(
    client: WriterClient, store: FaultyStore, nursery: trio.Nursery
) -> None:
    answers: list[object] = []

    async def ask(question: Ask[Any]) -> None:
        answer = await client.ask(question)
        answers.extend(answer if isinstance(answer, list) else [answer])

    store.mode = "failing"
    nursery.start_soon(ask, Commit(birth(ONE)))
    nursery.start_soon(ask, CommitAll((birth(TWO), birth(THREE))))
    await settle()

    assert [type(answer) for answer in answers] == [PendingWrite] * 3
    assert [what for _, what in store.looks] == ["commit"]
    assert [one async for one in store.rows()] == []


async def test_a_write_is_never_answered_before_its_commit(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    (pending,) = await client.hold(birth())

    await trio.sleep(60)

    assert not pending.is_settled
    await recover(store)
    assert (pending.is_settled, pending.answer) == (True, None)
    assert await numbers_of(store) == [1]


async def test_a_write_while_degraded_is_pending_without_a_store_call(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    await client.hold(birth())
    looks = len(store.looks)

    await client.hold(more(ONE, 2), more(ONE, 3))
    assert [type(one) for one in await client.ask(CommitAll((birth(TWO), more(TWO, 2))))] == [
        PendingWrite,
        PendingWrite,
    ]

    assert len(store.looks) == looks


async def test_pending_writes_are_written_in_order_and_once(
    client: WriterClient, store: FaultyStore
) -> None:
    await client.commit(birth())
    store.mode = "failing"
    await client.hold(*(more(ONE, number) for number in range(2, 20)))
    await trio.sleep(10)

    await recover(store)

    assert await numbers_of(store) == list(range(1, 20))
    assert await client.commit(more(ONE, 20)) is None


async def test_a_settled_callback_finds_its_write_in_the_store(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    (pending,) = await client.hold(birth())
    found: list[int] = []
    pending.on_settled(lambda _: found.append(len(store._sessions[ONE].positions)))

    await recover(store)

    assert found == [1]


async def test_a_large_backlog_is_written_in_batches(
    client: WriterClient, store: FaultyStore
) -> None:
    await client.commit(birth())
    store.mode = "failing"
    await client.hold(*(more(ONE, number) for number in range(2, MAX_BATCH + 502)))

    await recover(store)

    assert await numbers_of(store) == list(range(1, MAX_BATCH + 502))


async def test_a_fault_between_two_batches_loses_and_doubles_nothing(
    client: WriterClient, store: FaultyStore
) -> None:
    await client.commit(birth())
    store.mode = "failing"
    pending = await client.hold(*(more(ONE, number) for number in range(2, MAX_BATCH + 502)))

    def start_failing(_: object) -> None:
        store.mode = "failing"

    pending[0].on_settled(start_failing)
    await recover(store)
    assert len(await numbers_of(store)) == MAX_BATCH + 1
    await recover(store)

    assert await numbers_of(store) == list(range(1, MAX_BATCH + 502))
    assert all(one.is_settled and one.answer is None for one in pending)


async def test_a_write_after_recovery_comes_after_the_pending_ones(
    client: WriterClient, store: FaultyStore
) -> None:
    await client.commit(birth())
    store.mode = "failing"
    await client.hold(more(ONE, 2))
    store.mode = "healthy"

    answer = await client.commit(more(ONE, 3))

    assert isinstance(answer, PendingWrite)
    assert await answer.wait() is None
    assert await numbers_of(store) == [1, 2, 3]


async def test_a_refusal_settles_only_the_refused_write(
    client: WriterClient, store: FaultyStore
) -> None:
    await client.commit(birth(ONE))
    await client.commit(birth(TWO))
    store.mode = "failing"
    fenced, gap, fine = await client.hold(more(ONE, 2, epoch=7), more(ONE, 9), more(TWO, 2))

    await recover(store)

    assert isinstance(fenced.answer, Fenced)
    assert isinstance(gap.answer, NotStorable)
    assert (fine.is_settled, fine.answer) == (True, None)
    assert not client.health.is_degraded


# Other requests -------------------------------------------------------------------------------

QUESTIONS: dict[str, Ask[Any]] = {
    "claim": Claim(ONE),
    "claim of many": ClaimAll((ONE, TWO)),
    "delete": Delete(ONE),
    "note": NoteProcess(PROCESS),
    "forget": ForgetProcess(PROCESS),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
async def test_a_request_that_cannot_be_pending_is_refused_at_once(
    client: WriterClient, store: FaultyStore, question: Ask[Any]
) -> None:
    await client.commit(birth())
    store.mode = "failing"
    await client.hold(more(ONE, 2))

    with pytest.raises(StoreDegraded) as refusal:
        await client.ask(question)

    assert (refusal.value.code, refusal.value.hint) == ("store_degraded", "free some space")
    await recover(store)
    await client.ask(question)


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
async def test_every_failed_call_degrades_the_health(
    client: WriterClient, store: FaultyStore, question: Ask[Any]
) -> None:
    await client.commit(birth())
    store.mode = "failing"

    with pytest.raises(StoreDegraded):
        await client.ask(question)

    assert client.health.is_degraded
    await recover(store)
    assert not client.health.is_degraded


async def test_a_claim_never_overtakes_pending_writes(
    client: WriterClient, store: FaultyStore
) -> None:
    await client.commit(birth())
    store.mode = "failing"
    (pending,) = await client.hold(more(ONE, 2))
    store.mode = "healthy"
    with pytest.raises(StoreDegraded):
        await client.ask(Claim(ONE))
    await recover(store)

    stored = await client.ask(Claim(ONE))

    assert (pending.answer, stored.last_seq, stored.epoch) == (None, 2, 1)


async def test_a_write_batched_with_a_failed_claim_is_not_lost(
    client: WriterClient, store: FaultyStore, nursery: trio.Nursery
) -> None:
    await client.commit(birth())
    store.mode = "failing"
    with pytest.raises(StoreDegraded):
        await client.ask(Claim(ONE))

    (pending,) = await client.hold(more(ONE, 2))

    await recover(store)
    assert (pending.answer, await numbers_of(store)) == (None, [1, 2])


# Retries --------------------------------------------------------------------------------------


async def test_a_degraded_store_is_retried_at_least_every_two_seconds(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    await client.hold(birth())
    await trio.sleep(60)

    times = [at for at, _ in store.looks]
    assert max(after - before for before, after in pairwise(times)) <= 2.001
    assert len(times) < 60


async def test_the_first_retry_comes_soon(client: WriterClient, store: FaultyStore) -> None:
    store.mode = "failing"
    (pending,) = await client.hold(birth())
    store.mode = "healthy"

    with trio.fail_after(0.2):
        assert await pending.wait() is None


async def test_a_healthy_store_is_never_probed(client: WriterClient, store: FaultyStore) -> None:
    await client.commit(birth())
    store.mode = "failing"
    await client.hold(more(ONE, 2))
    await recover(store)
    looks = len(store.looks)

    await trio.sleep(60)
    client.writer.tell(Retry())
    await settle()

    assert len(store.looks) == looks


async def test_degradation_and_recovery_are_reported_once_each(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    await client.hold(birth(ONE), birth(TWO))
    await trio.sleep(30)
    await recover(store)

    assert [state.degraded for state in client.told] == [True, False]
    assert client.told[0].problem == "the disk is full"


async def test_a_store_recovers_only_after_all_pending_writes(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    pending = await client.hold(birth(), more(ONE, 2))
    known: list[bool] = []
    pending[-1].on_settled(lambda _: known.append(client.health.is_degraded))

    await recover(store)

    assert known == [True]
    assert not client.health.is_degraded


# Stops and crashes ----------------------------------------------------------------------------


async def test_a_stopping_writer_writes_its_backlog_if_possible(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    pending = await client.hold(birth(), more(ONE, 2))
    store.mode = "healthy"

    await client.writer.stop()

    assert [one.answer for one in pending] == [None, None]
    assert await numbers_of(store) == [1, 2]


async def test_a_writer_that_stops_while_degraded_settles_every_write(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    pending = await client.hold(birth(), more(ONE, 2))

    await client.writer.stop()

    assert [type(one.answer) for one in pending] == [StoreDegraded] * 2
    assert all(one.answer is not None and one.answer.hint for one in pending)


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize("mode", ["broken", "broken late"])
async def test_a_writer_that_crashes_settles_every_write(
    client: WriterClient, store: FaultyStore, mode: Mode
) -> None:
    store.mode = "failing"
    pending = await client.hold(birth(), more(ONE, 2))

    store.mode, store.breaks_left = mode, 2  # during the retry, and again in on_stop
    with trio.move_on_after(10):
        for one in pending:
            await one.wait()

    assert [one.is_settled for one in pending] == [True, True]


@pytest.mark.usefixtures("_quiet")
async def test_pending_writes_survive_a_crash_of_the_writer(
    client: WriterClient, store: FaultyStore
) -> None:
    await client.commit(birth())
    store.mode = "failing"
    pending = await client.hold(more(ONE, 2), more(ONE, 3))

    store.mode, store.breaks_left = "broken", 2
    answers = [await one.wait() for one in pending]

    assert answers == [None, None]
    assert await numbers_of(store) == [1, 2, 3]


@pytest.mark.usefixtures("_quiet")
async def test_writes_that_crash_every_writer_are_abandoned(
    client: WriterClient, store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    await client.commit(birth())
    store.mode = "failing"
    pending = await client.hold(more(ONE, 2))

    store.mode, store.breaks_left = "broken", 4
    answer = await pending[0].wait()

    assert isinstance(answer, StoreDegraded)
    assert "abandoned 1 pending writes of 1 sessions" in caplog.text
    await trio.sleep(10)
    assert await client.commit(more(ONE, 2)) is None


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize("mode", ["broken", "broken late"])
async def test_the_store_recovers_after_a_crash_without_double_writes(
    client: WriterClient, store: FaultyStore, mode: Mode
) -> None:
    await client.commit(birth())
    store.mode = "failing"
    await client.hold(more(ONE, 2))
    store.mode, store.breaks_left = mode, 2
    await trio.sleep(10)

    assert not client.health.is_degraded
    assert await numbers_of(store) == [1, 2]
    assert await client.commit(more(ONE, 3)) is None


async def test_a_stopping_writer_with_a_hanging_store_settles_every_write(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    pending = await client.hold(birth())
    store.may_answer = trio.Event()

    with trio.move_on_after(30):
        await client.writer.stop()

    assert pending[0].is_settled


# Random faults --------------------------------------------------------------------------------

CI_SCHEDULES = 150


async def write_history(ask: Callable[[Ask[Any]], Any], session_id: SessionId, length: int) -> None:
    pending: list[PendingWrite] = []
    for number in range(1, length + 1):
        write = birth(session_id) if number == 1 else more(session_id, number)
        answer = await ask(Commit(write))
        if isinstance(answer, PendingWrite):
            pending.append(answer)
        else:
            assert answer is None
        if random.random() < 0.3:
            await trio.sleep(random.choice((0.0, 0.05, 0.5)))
    for one in pending:
        assert await one.wait() is None


async def change_modes(store: FaultyStore) -> None:
    while True:
        store.mode = random.choice(("failing", "healthy"))
        await trio.sleep(random.choice((0.0, 0.01, 0.2, 1.0)))


async def flap() -> None:
    store, health = FaultyStore(), StoreHealth()
    async with open_actors() as system, trio.open_nursery() as nursery:
        writer = await system.start(lambda: Writer(store, health), name="writer")
        client = WriterClient(writer, health, nursery)
        nursery.start_soon(change_modes, store)
        async with trio.open_nursery() as lives:
            for session_id in (ONE, TWO, THREE):
                lives.start_soon(partial(write_history, client.ask, session_id, 6))
        for session_id in (ONE, TWO, THREE):
            assert await numbers_of(store, session_id) == [1, 2, 3, 4, 5, 6]
        nursery.cancel_scope.cancel()


def test_an_intermittent_store_loses_and_doubles_nothing() -> None:
    assert explore(flap, seeds=range(CI_SCHEDULES), max_failures=3, max_steps=20_000) == []


@pytest.mark.soak
def test_an_intermittent_store_loses_and_doubles_nothing_in_a_long_run() -> None:
    assert explore(flap, seeds=range(20_000), max_failures=3, max_steps=20_000) == []


def test_a_withdrawn_write_is_settled_for_every_waiter() -> None:
    pending, heard = PendingWrite(has_unknown_outcome=False), list[object]()
    pending.on_settled(heard.append)

    assert pending.withdraw()

    assert [type(answer) for answer in heard] == [StoreDegraded]


def test_a_write_with_an_unknown_outcome_cannot_be_withdrawn() -> None:
    pending, heard = PendingWrite(has_unknown_outcome=True), list[object]()
    pending.on_settled(heard.append)

    assert not pending.withdraw()
    assert heard == []
