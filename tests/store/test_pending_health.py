"""The health of the store: one state for all callers, each change reported once."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, assert_checkpoints

from actors.testing import settle
from supervisor.core.errors import StoreDegraded
from supervisor.store.pending import StoreHealth, StoreState

FULL = StoreDegraded("the disk is full", hint="free some space")
LOCKED = StoreDegraded("it is locked", hint="close the other program")


def listen(health: StoreHealth) -> list[StoreState]:
    told: list[StoreState] = []
    health.set_on_change(told.append)
    return told


def test_a_store_is_healthy_until_degraded() -> None:
    health = StoreHealth()

    health.refuse_if_degraded()

    assert not health.is_degraded
    assert health.state == StoreState()


def test_callers_get_the_error_that_degraded_the_store() -> None:
    health = StoreHealth()
    health.degrade(FULL)

    with pytest.raises(StoreDegraded) as refusal:
        health.refuse_if_degraded()

    assert (refusal.value.args[0], refusal.value.hint) == ("the disk is full", "free some space")
    assert health.state == StoreState(degraded=True, problem="the disk is full", hint=FULL.hint)


def test_every_caller_gets_its_own_error_object() -> None:
    health = StoreHealth()
    health.degrade(FULL)

    errors = []
    for _ in range(2):
        with pytest.raises(StoreDegraded) as refusal:
            health.refuse_if_degraded()
        errors.append(refusal.value)

    assert len({id(error) for error in (*errors, FULL)}) == 3


def test_a_change_is_reported_once() -> None:
    health = StoreHealth()
    told = listen(health)

    for _ in range(3):
        health.degrade(FULL)
    for _ in range(3):
        health.recover()

    assert [state.degraded for state in told] == [True, False]


def test_a_second_error_while_degraded_replaces_the_first() -> None:
    health = StoreHealth()
    told = listen(health)
    health.degrade(FULL)

    health.degrade(LOCKED)

    assert health.state.problem == "it is locked"
    assert len(told) == 1


def test_a_listener_sees_the_new_state() -> None:
    health = StoreHealth()
    seen: list[bool] = []
    health.set_on_change(lambda _: seen.append(health.is_degraded))

    health.degrade(FULL)
    health.recover()

    assert seen == [True, False]


def test_a_listener_is_optional() -> None:
    health = StoreHealth()

    health.degrade(FULL)
    health.recover()

    assert not health.is_degraded


def test_a_read_only_store_stays_read_only() -> None:
    health = StoreHealth()
    told = listen(health)

    health.set_read_only(FULL)
    health.recover()

    assert health.is_degraded
    assert health.state.read_only
    assert [state.read_only for state in told] == [True]


def test_a_degraded_store_is_not_read_only() -> None:
    health = StoreHealth()

    health.degrade(FULL)

    assert not health.state.read_only


async def test_waiting_for_a_healthy_store_ends_with_the_recovery(
    autojump_clock: MockClock,
) -> None:
    health = StoreHealth()
    health.degrade(FULL)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(health.wait_healthy)
        await settle()
        health.degrade(LOCKED)
        await settle()
        assert nursery.child_tasks
        health.recover()

    assert trio.current_time() == 0.0


async def test_waiting_for_a_store_that_is_healthy_is_a_checkpoint() -> None:
    with assert_checkpoints():
        await StoreHealth().wait_healthy()


async def test_a_read_only_store_is_never_healthy(autojump_clock: MockClock) -> None:
    health = StoreHealth()
    health.set_read_only(FULL)

    with trio.move_on_after(100) as bound:
        health.recover()
        await health.wait_healthy()

    assert bound.cancelled_caught
