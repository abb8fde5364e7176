from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from actors.testing._schedule import (
    CLOCK,
    LEASE_TICKS,
    POLICIES,
    Pct,
    PolicyName,
    Shuffle,
    Walk,
    make_policy,
)

every_policy = pytest.mark.parametrize("name", POLICIES)


def chance(seed: int) -> Random:
    return Random(seed)


def chosen(name: PolicyName, seed: int, ticks: int, *, timeout_pending: bool = False) -> list[int]:
    """Return the choices of the policy while tasks 0 to 4 are always ready."""
    policy = make_policy(name, chance(seed))
    return [policy.choose(range(5), timeout_pending=timeout_pending) for _ in range(ticks)]


@every_policy
def test_the_same_seed_chooses_the_same(name: PolicyName) -> None:
    assert chosen(name, 7, 300) == chosen(name, 7, 300)


@every_policy
def test_different_seeds_choose_differently(name: PolicyName) -> None:
    assert len({tuple(chosen(name, seed, 300)) for seed in range(20)}) == 20


@every_policy
def test_the_clock_is_not_chosen_while_no_timeout_is_pending(name: PolicyName) -> None:
    for seed in range(50):
        assert CLOCK not in chosen(name, seed, 100)


@every_policy
def test_the_clock_is_chosen_under_some_seeds_only(name: PolicyName) -> None:
    early = [CLOCK in chosen(name, seed, 100, timeout_pending=True) for seed in range(50)]

    assert 5 < sum(early) < 45


@every_policy
def test_no_ready_task_waits_for_ever(name: PolicyName) -> None:
    for seed in range(20):
        picks = chosen(name, seed, 7 * LEASE_TICKS, timeout_pending=True)
        assert set(picks) >= set(range(5))


def test_shuffle_runs_every_task_once_a_round() -> None:
    picks = chosen("shuffle", 1, 20)

    assert [sorted(picks[at : at + 5]) for at in range(0, 20, 5)] == [list(range(5))] * 4


def test_shuffle_defers_new_tasks_to_the_next_round() -> None:
    policy = Shuffle(chance(1))

    first = policy.choose([1, 2], timeout_pending=False)
    rest = [policy.choose([3 - first, 9], timeout_pending=False)]

    assert rest == [3 - first]


def test_walk_chooses_evenly() -> None:
    policy = Walk(chance(1))
    picks = Counter(policy.choose([3, 5, 8], timeout_pending=False) for _ in range(3_000))

    assert all(900 < picks[task] < 1_100 for task in (3, 5, 8))


def test_pct_keeps_to_one_task_until_it_drops() -> None:
    picks = chosen("pct", 3, LEASE_TICKS)
    changes = sum(one != other for one, other in pairwise(picks))

    assert changes <= 5


def test_pct_runs_a_new_task_of_higher_priority_first() -> None:
    overtaken = 0
    for seed in range(100):
        policy = Pct(chance(seed))
        policy.choose([1], timeout_pending=False)
        overtaken += policy.choose([1, 2], timeout_pending=False) == 2

    assert 25 < overtaken < 75
