"""Failing schedules are shortened to what the fault needs, and reported as readable lines."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio
from trio.lowlevel import checkpoint

from actors.testing import FailingSeed, Step, explore, simulate
from actors.testing import _shrink as shrink_module
from actors.testing._replay import PlainOrder, Recorder, Replay
from actors.testing._report import describe
from actors.testing._schedule import CLOCK, LEASE_TICKS, PolicyName

Program = Callable[[], Awaitable[None]]


async def make_noise(nursery: trio.Nursery) -> None:
    """Run tasks that switch often and have nothing to do with the fault."""

    async def chatter() -> None:
        for _ in range(5):
            await checkpoint()

    for _ in range(6):
        nursery.start_soon(chatter, name="chatter")
    await checkpoint()


async def lose_an_update() -> None:
    """Fail if another task runs between the read and the write: one preemption."""
    count = 0

    async def add() -> None:
        nonlocal count
        seen = count
        await checkpoint()
        count = seen + 1

    async with trio.open_nursery() as nursery:
        await make_noise(nursery)
        nursery.start_soon(add, name="add")
        nursery.start_soon(add, name="add")
    assert count == 2, f"counted {count} of 2"


async def meet_twice() -> None:
    """Fail if the reader looks inside both sections of the writer: three preemptions."""
    section, seen = 0, set[int]()

    async def write() -> None:
        nonlocal section
        for number in (1, 2):
            section = number
            await checkpoint()
            section = 0
            await checkpoint()

    async def read() -> None:
        for _ in range(2):
            seen.add(section)
            await checkpoint()

    async with trio.open_nursery() as nursery:
        await make_noise(nursery)
        nursery.start_soon(write, name="write")
        nursery.start_soon(read, name="read")
    assert seen != {1, 2}


async def expect_an_answer_in_time() -> None:
    """Fail if a time-out fires although the answer is ready."""
    async with trio.open_nursery() as nursery:
        await make_noise(nursery)
        with trio.fail_after(5):
            for _ in range(10):
                await checkpoint()


def first_failure(program: Program, *, early_timeouts: bool = False) -> FailingSeed:
    return explore(program, seeds=200, max_failures=1, early_timeouts=early_timeouts)[0]


@pytest.mark.parametrize("policy", ["shuffle", "walk"])
@pytest.mark.parametrize(("program", "needed"), [(lose_an_update, 1), (meet_twice, 3)])
def test_a_schedule_loses_the_preemptions_that_its_fault_does_not_need(
    program: Program, needed: int, policy: PolicyName
) -> None:
    failing = explore(program, seeds=200, max_failures=1, policy=policy)

    for before, after in map(preemptions, failing):
        assert before > 20
        assert needed <= after <= needed + 1


def preemptions(found: FailingSeed) -> tuple[int, int]:
    """Return the preemptions of the schedule that was found, and of the shortest one."""
    before, after = re.findall(r"\n(?:found|fails) with +(\d+) preemption", found.report)
    return int(before), int(after)


@pytest.mark.parametrize("program", [lose_an_update, meet_twice])
def test_a_shortened_schedule_replays_with_the_same_error(program: Program) -> None:
    found = first_failure(program)

    with pytest.raises(AssertionError) as caught:
        simulate(program, seed=found)

    assert str(caught.value) == str(found.error)
    assert "the shortest schedule" in caught.value.__notes__[0]


def test_a_failure_that_needs_no_early_timeout_is_reported_without_any() -> None:
    found = first_failure(lose_an_update, early_timeouts=True)

    assert "1 preemption, 0 early time-outs" in found.report


def test_an_early_timeout_that_is_needed_is_reported_as_such() -> None:
    found = first_failure(expect_an_answer_in_time, early_timeouts=True)

    assert "0 preemptions, 1 early time-out," in found.report
    assert "clock moves to 5 s: a time-out is fired early on purpose: " in found.report


def test_a_report_shows_which_task_ran_from_which_line() -> None:
    lines = first_failure(lose_an_update).report.splitlines()

    assert [line for line in lines if "preempts add#" in line]
    assert [line for line in lines if "in add: await checkpoint()" in line]
    assert not [line for line in lines if "<init>" in line]
    assert "ends  AssertionError('counted 1 of 2" in lines[-1]


def test_the_report_of_each_kind_of_failure_is_printed_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = explore(lose_an_update, seeds=50)

    assert [bool(seed.report) for seed in found] == [True, *[False] * (len(found) - 1)]
    assert len(found) > 1
    assert capsys.readouterr().err == f"{found[0].report}\n"


def test_a_program_that_does_not_fail_again_is_reported_as_unrepeatable() -> None:
    runs: list[int] = []

    async def fail_once() -> None:
        await checkpoint()
        runs.append(1)
        assert len(runs) > 1

    [found] = explore(fail_once, seeds=5)

    assert found.schedule is None
    assert "it does not fail again" in found.report


def test_the_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shrink_module, "MAX_RUNS", 3)

    assert "tried 3 shorter schedules" in first_failure(meet_twice).report


# Orders and reports without a program ----------------------------------------------------------


class Fixed:
    """A policy with given choices."""

    def __init__(self, *choices: int) -> None:
        self._choices = iter(choices)

    def choose(self, ready: Sequence[int], *, timeout_pending: bool) -> int:
        return next(self._choices)


def test_recorded_deviations_replay_the_same_choices() -> None:
    ready = [[7], [7, 8], [7, 8, 9], [7, 9], [7, 8]]
    choices = [7, 8, CLOCK, 9, 7]
    recorder = Recorder(Fixed(*choices))

    assert [recorder.choose(one, timeout_pending=True) for one in ready] == choices

    replay = Replay(recorder.deviations)
    assert [replay.choose(one, timeout_pending=True) for one in ready] == choices
    assert replay.used == recorder.deviations


def test_an_impossible_deviation_is_ignored() -> None:
    recorder = Recorder(Fixed(1, 2))
    for ready in ([1], [1, 2]):
        recorder.choose(ready, timeout_pending=False)
    replay = Replay(recorder.deviations)

    assert [replay.choose([1], timeout_pending=False) for _ in range(2)] == [1, 1]
    assert replay.used == {}


def test_a_task_that_never_blocks_does_not_run_alone_in_the_plain_order() -> None:
    order, chosen = PlainOrder(), list[int]()
    for _ in range(LEASE_TICKS + 1):
        chosen.append(order.next_task([0, 1]))
        order.record([0, 1], chosen[-1])

    assert set(chosen) == {0, 1}


def test_lines_far_from_any_note_are_left_out_of_a_report() -> None:
    trace = [Step(number, f"task#{number}", 0.0) for number in range(1, 101)]
    trace[49] = Step(50, "task#50", 0.0, "preempts task#49")

    lines = describe(trace)

    assert [line for line in lines if "left out" in line] == [
        "        ...  44 lines left out",
        "        ...  23 lines left out",
    ]
    assert len(lines) == 3 + 1 + 5 + 1 + 25
