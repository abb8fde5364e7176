from typing import Any

import pytest
import trio
from trio.lowlevel import checkpoint

from actors.testing import (
    Deadlock,
    FailingSeed,
    SimulationError,
    SimulatorBroken,
    explore,
    simulate,
)
from actors.testing._schedule import POLICIES


async def depends_on_the_order() -> None:
    last: list[int] = []

    async def speak(number: int) -> None:
        await checkpoint()
        last.append(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(speak, 1)
        nursery.start_soon(speak, 2)
    assert last == [1, 2]


async def always_fails() -> None:
    await checkpoint()
    raise LookupError


def test_a_correct_program_has_no_failing_seeds() -> None:
    assert explore(checkpoint, seeds=range(20)) == []


def test_explore_returns_the_failing_seeds_in_order() -> None:
    failing = explore(depends_on_the_order, seeds=range(60))

    assert 0 < len(failing) < 60
    assert failing == sorted(failing)


def test_a_failing_seed_fails_again() -> None:
    for seed in explore(depends_on_the_order, seeds=range(20)):
        with pytest.raises(AssertionError):
            simulate(depends_on_the_order, seed=seed)


def test_a_failing_seed_remembers_the_policy_it_was_found_with() -> None:
    found = explore(depends_on_the_order, seeds=range(60), policy="pct", shrink=False)[0]

    with pytest.raises(AssertionError) as caught:
        simulate(depends_on_the_order, seed=found)

    assert found.policy == "pct"
    assert caught.value.__notes__ == found.error.__notes__


def test_a_failing_seed_is_its_number_and_says_more_when_shown() -> None:
    seed = FailingSeed(17, policy="walk", error=LookupError("gone"))

    assert seed == 17
    assert f"{seed}" == "17"
    assert repr(seed) == "<seed 17, walk: LookupError('gone')>"


def test_explore_cycles_through_all_policies() -> None:
    assert [seed.policy for seed in explore(always_fails, seeds=range(3))] == list(POLICIES)


def test_explore_stops_at_max_failures() -> None:
    assert explore(always_fails, seeds=range(100), max_failures=2) == [0, 1]


def test_main_is_called_with_its_arguments_for_each_seed() -> None:
    async def note(seen: list[int]) -> None:
        await checkpoint()
        seen.append(len(seen))

    seen: list[int] = []
    explore(note, seen, seeds=range(5))

    assert seen == [0, 1, 2, 3, 4]


def test_deadlocks_and_groups_are_findings() -> None:
    async def fails_in_a_child() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(always_fails)

    (group,) = explore(fails_in_a_child, seeds=[0])
    (deadlock,) = explore(trio.sleep_forever, seeds=[0])

    assert isinstance(group.error, ExceptionGroup)
    assert isinstance(deadlock.error, Deadlock)


def test_an_interrupt_is_not_a_finding() -> None:
    async def interrupted() -> None:
        await checkpoint()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explore(interrupted)


def test_a_broken_simulator_is_not_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("trio._core._run.Runner.waiting_for_idle")

    with pytest.raises(SimulatorBroken):
        explore(checkpoint)


def test_explore_inside_a_trio_run_is_refused() -> None:
    async def main() -> None:
        explore(checkpoint)

    with pytest.raises(SimulationError, match="cannot begin inside another"):
        trio.run(main)


async def answer_before_the_time_out() -> None:
    with trio.fail_after(1.0):
        for _ in range(20):
            await trio.lowlevel.checkpoint()


def test_only_waiting_takes_time_unless_early_timeouts_are_requested() -> None:
    assert explore(answer_before_the_time_out, seeds=range(60)) == []
    assert explore(answer_before_the_time_out, seeds=range(60), early_timeouts=True)


def test_a_failing_seed_remembers_that_timeouts_fired_early() -> None:
    found = explore(answer_before_the_time_out, seeds=range(60), early_timeouts=True, shrink=False)

    with pytest.raises(trio.TooSlowError) as caught:
        simulate(answer_before_the_time_out, seed=found[0])

    (note,) = caught.value.__notes__
    assert "early_timeouts=True (time-outs fired early on purpose in steps" in note


def test_seeds_may_be_given_by_their_number() -> None:
    assert explore(always_fails, seeds=3) == [0, 1, 2]


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


def test_an_error_that_cannot_be_printed_is_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    async def fails() -> None:
        await checkpoint()
        raise UnprintableError

    failing = explore(fails, seeds=2)

    assert [type(seed.error) for seed in failing] == [UnprintableError, UnprintableError]
    assert repr(failing[1]).endswith("<UnprintableError, whose repr raises>>")
    assert "ends  <UnprintableError, whose repr raises>" in capsys.readouterr().err


@pytest.mark.parametrize("seeds", [None, 1.5, -3, [1.5], ["a"], [None]])
def test_seeds_that_are_not_whole_numbers_are_refused(seeds: Any) -> None:  # noqa: ANN401 - wrong
    with pytest.raises(ValueError, match=r"pass (a )?whole number"):
        explore(checkpoint, seeds=seeds)


def test_simulate_refuses_a_seed_that_is_not_a_whole_number() -> None:
    with pytest.raises(ValueError, match=r"a seed is 1\.5: pass a whole number"):
        simulate(checkpoint, seed=1.5)  # type: ignore[arg-type]
