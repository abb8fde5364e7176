import gc
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trio
import trio._threads
from trio.lowlevel import checkpoint

from actors.testing import (
    Deadlock,
    Livelock,
    SimulationError,
    Step,
    simulate,
)
from actors.testing._schedule import POLICIES, PolicyName
from actors.testing._trio_internals import threads_are_replaced
from tests.actors.testing.busy_program import busy_program, story

ROOT = Path(__file__).parents[3]

every_policy = pytest.mark.parametrize("policy", POLICIES)


async def spin() -> None:
    while True:
        await checkpoint()


async def wait_for_ever() -> None:
    await trio.sleep_forever()


async def say(word: str, said: list[str]) -> None:
    await checkpoint()
    said.append(word)


async def three_speak() -> list[str]:
    said: list[str] = []
    async with trio.open_nursery() as nursery:
        for word in ("a", "b", "c"):
            nursery.start_soon(say, word, said)
    return said


async def race_a_timeout() -> bool:
    """Return True if a long time-out fired although the work was always ready."""
    with trio.move_on_after(60) as scope:
        for _ in range(20):
            await checkpoint()
    return scope.cancelled_caught


def _race(seed: int, policy: PolicyName) -> bool:
    return simulate(race_a_timeout, seed=seed, policy=policy, early_timeouts=True)


def trace_of(seed: int, policy: PolicyName | None = None) -> list[Step]:
    trace: list[Step] = []
    simulate(busy_program, seed=seed, policy=policy, trace=trace, early_timeouts=True)
    return trace


def test_simulate_returns_the_result_of_main() -> None:
    async def add(a: int, b: int) -> int:
        await checkpoint()
        return a + b

    assert simulate(add, 2, 3) == 5


def test_the_error_of_main_has_a_note_with_its_seed() -> None:
    async def fail() -> None:
        await trio.sleep(3)
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone") as caught:
        simulate(fail, seed=7, policy="walk")

    (note,) = caught.value.__notes__
    assert note.startswith("simulated with seed=7, policy='walk'; ")
    assert note.endswith("virtual time 3 s")


@every_policy
def test_the_same_seed_gives_the_same_trace(policy: PolicyName) -> None:
    for seed in range(10):
        assert trace_of(seed, policy) == trace_of(seed, policy)


@every_policy
def test_other_seeds_give_other_orders(policy: PolicyName) -> None:
    orders = {"".join(simulate(three_speak, seed=seed, policy=policy)) for seed in range(200)}

    assert orders == {"abc", "acb", "bac", "bca", "cab", "cba"}


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_another_process_sees_the_same_trace(hash_seed: str) -> None:
    program = "from tests.actors.testing.busy_program import story; print(story(range(30)))"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}

    elsewhere = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, check=True
    )

    assert elsewhere.stdout.decode().strip() == story(range(30))


def test_the_seed_chooses_the_policy_by_default() -> None:
    for seed in range(6):
        assert trace_of(seed) == trace_of(seed, POLICIES[seed % 3])


def test_a_seed_and_its_negative_differ() -> None:
    assert trace_of(5, "walk") != trace_of(-5, "walk")


def test_the_error_for_an_unknown_policy_lists_the_known_policies() -> None:
    with pytest.raises(ValueError, match="'fair': choose one of shuffle, walk, pct"):
        simulate(three_speak, policy="fair")  # type: ignore[arg-type]


def test_the_trace_has_one_numbered_step_per_tick() -> None:
    trace = [Step(99, "left over", 0.0)]
    simulate(three_speak, trace=trace)

    assert [step.number for step in trace] == list(range(1, len(trace) + 1))
    assert {step.task for step in trace if "say" in step.task} == {
        f"{__name__}.say#{number}" for number in (4, 5, 6)
    }


def test_a_step_reads_as_a_line() -> None:
    assert str(Step(12, "main#2", 1.5)) == "    12  at 1.5      main#2"
    assert str(Step(12, "clock", 1.5, "early")) == "    12  at 1.5      clock  early"


def test_a_busy_task_with_a_timeout_is_not_a_livelock() -> None:
    async def main() -> bool:
        with trio.move_on_after(5) as scope:
            await spin()
        return scope.cancelled_caught

    assert simulate(main, max_steps=1_000)


def test_addresses_do_not_get_into_the_trace() -> None:
    class Nameless:
        async def __call__(self) -> None:
            await checkpoint()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Nameless())

    trace: list[Step] = []
    simulate(main, trace=trace)

    assert "0x" not in str(trace)


@every_policy
def test_some_seed_fires_a_timeout_while_other_tasks_are_ready(policy: PolicyName) -> None:
    assert any(_race(seed, policy) for seed in range(50))


@every_policy
def test_some_seed_fires_no_timeout_while_other_tasks_are_ready(policy: PolicyName) -> None:
    assert not all(_race(seed, policy) for seed in range(50))


@every_policy
def test_a_spinning_task_cannot_starve_other_tasks(policy: PolicyName) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(spin)
            for _ in range(10):
                await checkpoint()
            nursery.cancel_scope.cancel()

    for seed in range(20):
        simulate(main, seed=seed, policy=policy, max_steps=5_000)


@every_policy
def test_a_rearming_timer_cannot_starve_other_tasks(policy: PolicyName) -> None:
    async def tick() -> None:
        while True:
            await trio.sleep(1)
            await checkpoint()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick)
            for _ in range(10):
                await checkpoint()
            nursery.cancel_scope.cancel()

    for seed in range(20):
        simulate(main, seed=seed, policy=policy, max_steps=5_000)


def test_a_deadlock_is_raised_and_noted() -> None:
    with pytest.raises(Deadlock) as caught:
        simulate(wait_for_ever, seed=3)

    assert "seed=3" in caught.value.__notes__[0]


def test_too_many_steps_are_a_livelock() -> None:
    with pytest.raises(Livelock, match="still running after 500 steps") as caught:
        simulate(spin, max_steps=500)

    assert caught.value.last_steps[-1] == Step(500, f"{__name__}.spin#2", 0.0)
    assert "or raise max_steps" in caught.value.hint


def test_a_program_may_use_up_its_steps() -> None:
    trace: list[Step] = []
    simulate(three_speak, trace=trace)

    simulate(three_speak, max_steps=len(trace))
    with pytest.raises(Livelock):
        simulate(three_speak, max_steps=len(trace) - 1)


def test_clean_up_runs_before_a_livelock_is_raised() -> None:
    left: list[str] = []

    async def main() -> None:
        try:
            await spin()
        finally:
            with trio.move_on_after(5, shield=True):
                await trio.sleep(1)
                left.append("tidy")

    with pytest.raises(Livelock):
        simulate(main, max_steps=100)

    assert left == ["tidy"]


def test_a_shield_does_not_keep_a_run_from_ending() -> None:
    async def main() -> None:
        with trio.CancelScope(shield=True):
            await spin()

    with pytest.raises(Livelock):
        simulate(main, max_steps=100)


async def cannot_be_cancelled(left: list[str]) -> None:
    """Resist every cancellation; when discarded, start more tasks and await again."""
    try:
        while True:
            await trio.lowlevel.cancel_shielded_checkpoint()
    finally:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 1)
            left.append("tidy")
            await trio.sleep(1)


def test_a_task_that_cannot_be_cancelled_is_discarded_silently() -> None:
    left: list[str] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cannot_be_cancelled, left)
            await cannot_be_cancelled(left)

    with pytest.raises(Livelock):
        simulate(main, max_steps=100)
    gc.collect()  # an error of a discarded task would be reported here

    assert left == ["tidy", "tidy"]


def test_a_wait_that_cannot_be_cancelled_is_discarded() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hold_on)
            nursery.start_soon(wait_for_ever)

    async def hold_on() -> None:
        await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)

    with pytest.raises(Deadlock, match="hold_on"):
        simulate(main)


def test_a_system_task_that_outlives_main_for_ever_is_a_deadlock() -> None:
    async def hold_on() -> None:
        await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)

    async def main() -> None:
        trio.lowlevel.spawn_system_task(hold_on)
        await checkpoint()

    with pytest.raises(Deadlock, match="hold_on"):
        simulate(main)


def test_an_interrupt_passes_through() -> None:
    async def main() -> None:
        signal.raise_signal(signal.SIGINT)
        await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        simulate(main)


def test_a_simulation_inside_a_trio_run_is_refused() -> None:
    async def main() -> None:
        simulate(three_speak)

    with pytest.raises(SimulationError, match="cannot begin inside another") as caught:
        trio.run(main)

    assert "call it from a plain function" in caught.value.hint


def test_a_simulation_inside_the_thread_of_another_is_refused() -> None:
    async def main() -> None:
        await trio.to_thread.run_sync(simulate, three_speak)

    with pytest.raises(SimulationError, match="cannot begin inside another"):
        simulate(main)


@pytest.mark.parametrize("program", [three_speak, wait_for_ever, spin])
def test_simulate_restores_everything_outside(program: Callable[[], Awaitable[object]]) -> None:
    chance, send = random.getstate(), trio._threads._send_message_to_trio

    with suppress(SimulationError):
        simulate(program, max_steps=100)

    assert random.getstate() == chance
    assert gc.isenabled()
    assert not trio.lowlevel.in_trio_run()
    assert trio._threads._send_message_to_trio is send
    assert not threads_are_replaced()


def test_garbage_is_not_collected_during_a_run() -> None:
    async def main() -> bool:
        await checkpoint()
        return gc.isenabled()

    assert simulate(main) is False


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        simulate(three_speak)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_chance_is_seeded_by_the_seed() -> None:
    async def draw() -> float:
        await checkpoint()
        return random.random()

    assert simulate(draw, seed=1) == simulate(draw, seed=1)
    assert simulate(draw, seed=1) != simulate(draw, seed=4)


def test_async_generators_left_open_are_closed_within_the_run() -> None:
    closed: list[float] = []

    async def numbers() -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            closed.append(trio.current_time())

    async def main() -> None:
        await trio.sleep(2)
        kept.append(numbers())
        await anext(kept[0])

    kept: list[AsyncGenerator[int]] = []
    simulate(main)

    assert closed == [2.0]


def test_a_simulation_without_a_bound_on_its_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="max_steps"):
        simulate(trio.sleep, 1, max_steps=None)  # type: ignore[arg-type]
