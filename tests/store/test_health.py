"""How the store is: one word for everybody, told once for every change."""

from __future__ import annotations

import pytest

from supervisor.core.errors import StoreDegraded
from supervisor.store.writer.health import Health, StoreState

FULL = StoreDegraded("the disk is full", hint="free some space")
LOCKED = StoreDegraded("it is locked", hint="close the other program")


def listen(health: Health) -> list[StoreState]:
    told: list[StoreState] = []
    health.on_change = told.append
    return told


def test_a_store_is_well_until_somebody_says_otherwise() -> None:
    health = Health()

    health.refuse_if_degraded()

    assert not health.is_degraded
    assert health.state == StoreState()


def test_what_is_wrong_is_what_callers_are_told() -> None:
    health = Health()
    health.degrade(FULL)

    with pytest.raises(StoreDegraded) as refusal:
        health.refuse_if_degraded()

    assert (refusal.value.args[0], refusal.value.hint) == ("the disk is full", "free some space")
    assert health.state == StoreState(degraded=True, problem="the disk is full", hint=FULL.hint)


def test_every_caller_gets_an_error_of_its_own() -> None:
    health = Health()
    health.degrade(FULL)

    errors = []
    for _ in range(2):
        with pytest.raises(StoreDegraded) as refusal:
            health.refuse_if_degraded()
        errors.append(refusal.value)

    assert len({id(error) for error in (*errors, FULL)}) == 3


def test_a_change_is_told_once() -> None:
    health = Health()
    told = listen(health)

    for _ in range(3):
        health.degrade(FULL)
    for _ in range(3):
        health.recover()

    assert [state.degraded for state in told] == [True, False]


def test_another_trouble_while_it_is_ill_is_what_is_said_from_then_on() -> None:
    health = Health()
    told = listen(health)
    health.degrade(FULL)

    health.degrade(LOCKED)

    assert health.state.problem == "it is locked"
    assert len(told) == 1


def test_whoever_is_told_finds_it_so() -> None:
    health = Health()
    seen: list[bool] = []
    health.on_change = lambda _: seen.append(health.is_degraded)

    health.degrade(FULL)
    health.recover()

    assert seen == [True, False]


def test_nobody_needs_to_listen() -> None:
    health = Health()

    health.degrade(FULL)
    health.recover()

    assert not health.is_degraded


def test_what_was_given_up_stays_so() -> None:
    health = Health()
    told = listen(health)

    health.give_up(FULL)
    health.recover()

    assert health.is_degraded
    assert health.state.read_only
    assert [state.read_only for state in told] == [True]


def test_a_store_that_is_only_ill_is_not_read_only_for_good() -> None:
    health = Health()

    health.degrade(FULL)

    assert not health.state.read_only
