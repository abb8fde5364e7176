"""The writer of a degraded store: every write is answered, none is lost or doubled."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors import Ask, Group, Ref
from actors.testing import settle
from supervisor.core.errors import Fenced, NotStorable, StoreDegraded
from supervisor.store.pending import PendingWrite, StoreHealth
from supervisor.store.port import ProcessEntry
from supervisor.store.writer import MAX_BATCH, Writer
from supervisor.store.writer_messages import (
    Claim,
    ClaimAll,
    Commit,
    CommitAll,
    Delete,
    ForgetProcess,
    NoteProcess,
)
from tests.support.faulty_store import FaultyStore, WriterClient, recover
from tests.support.store_samples import ONE, THREE, TWO, creation_write, next_write, numbers_of

PROCESS = ProcessEntry(ONE, 4711, 12, "boot")


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore()


@pytest.fixture
async def writer(system: Group, store: FaultyStore, health: StoreHealth) -> Ref:
    return await system.start(lambda: Writer(store, health), name="writer", restart="permanent")


@pytest.fixture
def client(writer: Ref, health: StoreHealth, nursery: trio.Nursery) -> WriterClient:
    return WriterClient(writer, health, nursery)


# Pending writes -------------------------------------------------------------------------


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


# Writing --------------------------------------------------------------------------------


async def test_every_write_of_the_failed_batch_is_answered_at_once(
    client: WriterClient, store: FaultyStore, nursery: trio.Nursery
) -> None:
    answers: list[object] = []

    async def ask(question: Ask[Any]) -> None:
        answer = await client.ask(question)
        answers.extend(answer if isinstance(answer, list) else [answer])

    store.mode = "failing"
    nursery.start_soon(ask, Commit(creation_write(ONE)))
    nursery.start_soon(ask, CommitAll((creation_write(TWO), creation_write(THREE))))
    await settle()

    assert [type(answer) for answer in answers] == [PendingWrite] * 3
    assert [what for _, what in store.looks] == ["commit"]
    assert [one async for one in store.rows()] == []


async def test_a_write_is_never_answered_before_its_commit(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    (pending,) = await client.hold(creation_write())

    await trio.sleep(60)

    assert not pending.is_settled
    await recover(store)
    assert (pending.is_settled, pending.answer) == (True, None)
    assert await numbers_of(store) == [1]


async def test_a_write_while_degraded_is_pending_without_a_store_call(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    await client.hold(creation_write())
    looks = len(store.looks)

    await client.hold(next_write(ONE, 2), next_write(ONE, 3))
    assert [
        type(one) for one in await client.ask(CommitAll((creation_write(TWO), next_write(TWO, 2))))
    ] == [
        PendingWrite,
        PendingWrite,
    ]

    assert len(store.looks) == looks


async def test_pending_writes_are_written_in_order_and_once(
    client: WriterClient, store: FaultyStore
) -> None:
    await client.commit(creation_write())
    store.mode = "failing"
    await client.hold(*(next_write(ONE, number) for number in range(2, 20)))
    await trio.sleep(10)

    await recover(store)

    assert await numbers_of(store) == list(range(1, 20))
    assert await client.commit(next_write(ONE, 20)) is None


async def test_a_settled_callback_finds_its_write_in_the_store(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    (pending,) = await client.hold(creation_write())
    found: list[int] = []
    pending.on_settled(lambda _: found.append(len(store._sessions[ONE].positions)))

    await recover(store)

    assert found == [1]


async def test_a_large_backlog_is_written_in_batches(
    client: WriterClient, store: FaultyStore
) -> None:
    await client.commit(creation_write())
    store.mode = "failing"
    await client.hold(*(next_write(ONE, number) for number in range(2, MAX_BATCH + 502)))

    await recover(store)

    assert await numbers_of(store) == list(range(1, MAX_BATCH + 502))


async def test_a_fault_between_two_batches_loses_and_doubles_nothing(
    client: WriterClient, store: FaultyStore
) -> None:
    await client.commit(creation_write())
    store.mode = "failing"
    pending = await client.hold(*(next_write(ONE, number) for number in range(2, MAX_BATCH + 502)))

    def start_failing(_: object) -> None:
        store.mode = "failing"

    pending[0].on_settled(start_failing)
    await recover(store)
    assert len(await numbers_of(store)) == MAX_BATCH + 1
    await recover(store)

    assert await numbers_of(store) == list(range(1, MAX_BATCH + 502))
    assert all(one.is_settled and one.answer is None for one in pending)


async def test_a_write_after_recovery_follows_the_pending_writes(
    client: WriterClient, store: FaultyStore
) -> None:
    await client.commit(creation_write())
    store.mode = "failing"
    await client.hold(next_write(ONE, 2))
    store.mode = "healthy"

    answer = await client.commit(next_write(ONE, 3))

    assert isinstance(answer, PendingWrite)
    assert await answer.wait() is None
    assert await numbers_of(store) == [1, 2, 3]


async def test_a_refusal_settles_only_the_refused_write(
    client: WriterClient, store: FaultyStore
) -> None:
    await client.commit(creation_write(ONE))
    await client.commit(creation_write(TWO))
    store.mode = "failing"
    fenced, gap, fine = await client.hold(
        next_write(ONE, 2, epoch=7), next_write(ONE, 9), next_write(TWO, 2)
    )

    await recover(store)

    assert isinstance(fenced.answer, Fenced)
    assert isinstance(gap.answer, NotStorable)
    assert (fine.is_settled, fine.answer) == (True, None)
    assert not client.health.is_degraded


# Other requests -------------------------------------------------------------------------


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
    await client.commit(creation_write())
    store.mode = "failing"
    await client.hold(next_write(ONE, 2))

    with pytest.raises(StoreDegraded) as refusal:
        await client.ask(question)

    assert (refusal.value.code, refusal.value.hint) == ("store_degraded", "free some space")
    await recover(store)
    await client.ask(question)


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
async def test_every_failed_call_degrades_the_health(
    client: WriterClient, store: FaultyStore, question: Ask[Any]
) -> None:
    await client.commit(creation_write())
    store.mode = "failing"

    with pytest.raises(StoreDegraded):
        await client.ask(question)

    assert client.health.is_degraded
    await recover(store)
    assert not client.health.is_degraded


async def test_a_claim_never_overtakes_pending_writes(
    client: WriterClient, store: FaultyStore
) -> None:
    await client.commit(creation_write())
    store.mode = "failing"
    (pending,) = await client.hold(next_write(ONE, 2))
    store.mode = "healthy"
    with pytest.raises(StoreDegraded):
        await client.ask(Claim(ONE))
    await recover(store)

    stored = await client.ask(Claim(ONE))

    assert (pending.answer, stored.last_seq, stored.epoch) == (None, 2, 1)


async def test_a_write_batched_with_a_failed_claim_is_not_lost(
    client: WriterClient, store: FaultyStore, nursery: trio.Nursery
) -> None:
    await client.commit(creation_write())
    store.mode = "failing"
    with pytest.raises(StoreDegraded):
        await client.ask(Claim(ONE))

    (pending,) = await client.hold(next_write(ONE, 2))

    await recover(store)
    assert (pending.answer, await numbers_of(store)) == (None, [1, 2])
