"""Retries of pending writes, and stops and crashes of the writer."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import trio

from actors import Ask, Group, Ref, open_actors
from actors.testing import explore, settle
from supervisor.core.errors import StoreDegraded
from supervisor.core.ids import SessionId
from supervisor.store.pending import PendingWrite, StoreHealth
from supervisor.store.writer import Writer
from supervisor.store.writer_messages import Commit, Retry
from tests.support.faulty_store import FaultyStore, Mode, WriterClient, recover
from tests.support.store_samples import ONE, THREE, TWO, creation_write, next_write, numbers_of


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore()


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


# Retries --------------------------------------------------------------------------------


async def test_a_degraded_store_is_retried_at_least_every_two_seconds(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    await client.hold(creation_write())
    await trio.sleep(60)

    times = [at for at, _ in store.looks]
    assert max(after - before for before, after in pairwise(times)) <= 2.001
    assert len(times) < 60


async def test_the_first_retry_is_within_200_milliseconds(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    (pending,) = await client.hold(creation_write())
    store.mode = "healthy"

    with trio.fail_after(0.2):
        assert await pending.wait() is None


async def test_a_healthy_store_is_never_probed(client: WriterClient, store: FaultyStore) -> None:
    await client.commit(creation_write())
    store.mode = "failing"
    await client.hold(next_write(ONE, 2))
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
    await client.hold(creation_write(ONE), creation_write(TWO))
    await trio.sleep(30)
    await recover(store)

    assert [state.degraded for state in client.told] == [True, False]
    assert client.told[0].problem == "the disk is full"


async def test_a_store_recovers_only_after_all_pending_writes(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    pending = await client.hold(creation_write(), next_write(ONE, 2))
    known: list[bool] = []
    pending[-1].on_settled(lambda _: known.append(client.health.is_degraded))

    await recover(store)

    assert known == [True]
    assert not client.health.is_degraded


# Stops and crashes ----------------------------------------------------------------------


async def test_a_stopping_writer_writes_its_backlog_if_possible(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    pending = await client.hold(creation_write(), next_write(ONE, 2))
    store.mode = "healthy"

    await client.writer.stop()

    assert [one.answer for one in pending] == [None, None]
    assert await numbers_of(store) == [1, 2]


async def test_a_writer_that_stops_while_degraded_settles_every_write(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    pending = await client.hold(creation_write(), next_write(ONE, 2))

    await client.writer.stop()

    assert [type(one.answer) for one in pending] == [StoreDegraded] * 2
    assert all(one.answer is not None and one.answer.hint for one in pending)


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize("mode", ["broken", "broken late"])
async def test_a_writer_that_crashes_settles_every_write(
    client: WriterClient, store: FaultyStore, mode: Mode
) -> None:
    store.mode = "failing"
    pending = await client.hold(creation_write(), next_write(ONE, 2))

    store.mode, store.breaks_left = mode, 2  # during the retry, and again in on_stop
    with trio.move_on_after(10):
        for one in pending:
            await one.wait()

    assert [one.is_settled for one in pending] == [True, True]


@pytest.mark.usefixtures("_quiet")
async def test_pending_writes_survive_a_crash_of_the_writer(
    client: WriterClient, store: FaultyStore
) -> None:
    await client.commit(creation_write())
    store.mode = "failing"
    pending = await client.hold(next_write(ONE, 2), next_write(ONE, 3))

    store.mode, store.breaks_left = "broken", 2
    answers = [await one.wait() for one in pending]

    assert answers == [None, None]
    assert await numbers_of(store) == [1, 2, 3]


@pytest.mark.usefixtures("_quiet")
async def test_writes_that_crash_every_writer_are_abandoned(
    client: WriterClient, store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    await client.commit(creation_write())
    store.mode = "failing"
    pending = await client.hold(next_write(ONE, 2))

    store.mode, store.breaks_left = "broken", 4
    answer = await pending[0].wait()

    assert isinstance(answer, StoreDegraded)
    assert "abandoned 1 pending writes of 1 sessions" in caplog.text
    await trio.sleep(10)
    assert await client.commit(next_write(ONE, 2)) is None


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize("mode", ["broken", "broken late"])
async def test_the_store_recovers_after_a_crash_without_double_writes(
    client: WriterClient, store: FaultyStore, mode: Mode
) -> None:
    await client.commit(creation_write())
    store.mode = "failing"
    await client.hold(next_write(ONE, 2))
    store.mode, store.breaks_left = mode, 2
    await trio.sleep(10)

    assert not client.health.is_degraded
    assert await numbers_of(store) == [1, 2]
    assert await client.commit(next_write(ONE, 3)) is None


async def test_a_stopping_writer_with_a_hanging_store_settles_every_write(
    client: WriterClient, store: FaultyStore
) -> None:
    store.mode = "failing"
    pending = await client.hold(creation_write())
    store.may_answer = trio.Event()

    with trio.move_on_after(30):
        await client.writer.stop()

    assert pending[0].is_settled


# Random faults --------------------------------------------------------------------------


CI_SCHEDULES = 150


async def write_history(ask: Callable[[Ask[Any]], Any], session_id: SessionId, length: int) -> None:
    pending: list[PendingWrite] = []
    for number in range(1, length + 1):
        write = creation_write(session_id) if number == 1 else next_write(session_id, number)
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
    assert (
        explore(
            flap, seeds=range(CI_SCHEDULES), max_failures=3, max_steps=20_000, early_timeouts=True
        )
        == []
    )


@pytest.mark.soak
@pytest.mark.parametrize("piece", range(4))
def test_an_intermittent_store_loses_and_doubles_nothing_in_a_long_run(
    piece: int, record_property: Callable[[str, object], None]
) -> None:
    seeds = range(piece * 5_000, (piece + 1) * 5_000)
    record_property("covered", f"{len(seeds)} schedules")

    assert explore(flap, seeds=seeds, max_failures=3, max_steps=20_000, early_timeouts=True) == []


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
