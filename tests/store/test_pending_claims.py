"""Claims made in memory while the store is degraded: written once, before the pending writes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio

from actors import Group, Ref
from supervisor.core.errors import Fenced, StoreDegraded
from supervisor.core.ids import SessionId
from supervisor.store.pending import StoreHealth
from supervisor.store.port import Stored, Write
from supervisor.store.writer import Writer
from supervisor.store.writer_messages import Claim
from tests.support.faulty_store import FaultyStore, WriterClient, recover
from tests.support.store_samples import ONE, TWO, creation_write, next_write

IN_MEMORY = Claim(ONE, in_memory=True)


class UncertainStore(FaultyStore):
    """A store whose claims can fail although they are written."""

    is_claim_uncertain = False

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        claimed = await super().claim(session_ids)
        if self.is_claim_uncertain:
            self.is_claim_uncertain = False
            raise StoreDegraded("fsync failed", hint="look at the disk")
        return claimed


@pytest.fixture
def store() -> UncertainStore:
    return UncertainStore()


@pytest.fixture
async def writer(system: Group, store: FaultyStore, health: StoreHealth) -> Ref:
    return await system.start(lambda: Writer(store, health), name="writer", restart="permanent")


@pytest.fixture
async def client(writer: Ref, health: StoreHealth, nursery: trio.Nursery) -> WriterClient:
    client = WriterClient(writer, health, nursery)
    await client.commit(creation_write())
    return client


def claimed_write(seq: int, epoch: int) -> Write:
    return next_write(ONE, seq).changed(epoch=epoch)


async def test_a_claim_in_memory_is_written_before_the_writes_that_follow(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"

    claimed = await client.ask(IN_MEMORY)
    (pending,) = await client.hold(claimed_write(2, claimed.epoch))
    await recover(store)

    stored = await store.read(ONE)
    assert stored is not None
    assert (claimed.epoch, pending.answer) == (1, None)
    assert (stored.epoch, stored.last_seq) == (1, 2)


async def test_a_claim_without_a_write_is_written_on_recovery(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    first, second = await client.ask(IN_MEMORY), await client.ask(IN_MEMORY)

    await recover(store)

    third = await client.ask(Claim(ONE))
    assert [one.epoch for one in (first, second, third)] == [1, 2, 3]


async def test_a_write_after_a_claim_in_memory_succeeds_before_the_retry(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    claimed = await client.ask(IN_MEMORY)
    store.mode = "healthy"

    assert await client.commit(claimed_write(2, claimed.epoch)) is None


async def test_a_claim_of_unknown_outcome_is_not_made_twice(
    client: WriterClient, store: UncertainStore
) -> None:
    store.mode = "failing"
    claimed = await client.ask(IN_MEMORY)
    (pending,) = await client.hold(claimed_write(2, claimed.epoch))
    store.is_claim_uncertain = True

    await recover(store)
    await recover(store)

    assert pending.answer is None


async def test_a_claim_in_memory_fences_writes_of_the_earlier_incarnation(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    await client.ask(IN_MEMORY)
    (late,) = await client.hold(next_write(ONE, 2))

    await recover(store)

    assert isinstance(late.answer, Fenced)


async def test_a_session_with_a_pending_write_is_not_claimed_in_memory(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    linked = creation_write(TWO).changed(linked_write=next_write(ONE, 2))
    await client.hold(linked)

    with pytest.raises(StoreDegraded):
        await client.ask(IN_MEMORY)


async def test_an_unknown_session_is_not_claimed_in_memory(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"

    assert await client.ask(Claim(TWO, in_memory=True)) is None


@pytest.mark.parametrize("why", ["is_read_only", "is_recovery_pending"])
async def test_no_claim_is_made_in_memory_while_the_rows_are_not_final(
    client: WriterClient, store: FaultyStore, why: str
) -> None:
    store.mode = "failing"
    setattr(client.health, why, True)

    with pytest.raises(StoreDegraded):
        await client.ask(IN_MEMORY)
