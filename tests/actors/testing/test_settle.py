from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from actors.testing import VirtualClock, settle, simulate

Program = Callable[[], Awaitable[object]]
Runner = Callable[[Program], object]

RUNNERS: dict[str, Runner] = {
    "simulate": lambda main: simulate(main, seed=1),
    "virtual clock": lambda main: trio.run(main, clock=VirtualClock()),
    "mock clock": lambda main: trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0)),
    "real time": trio.run,
}

everywhere = pytest.mark.parametrize("run", RUNNERS.values(), ids=RUNNERS.keys())


async def count_to(n: int, counted: list[int]) -> None:
    for number in range(n):
        await trio.lowlevel.checkpoint()
        counted.append(number)
    await trio.sleep_forever()


@everywhere
def test_settle_returns_when_all_other_tasks_are_blocked(run: Runner) -> None:
    async def main() -> int:
        counted: list[int] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_to, 20, counted)
            await settle()
            nursery.cancel_scope.cancel()
        return len(counted)

    assert run(main) == 20


@everywhere
def test_settle_waits_for_threads_and_the_tasks_they_wake(run: Runner) -> None:
    async def main() -> int:
        counted: list[int] = []

        async def work() -> None:
            await trio.to_thread.run_sync(int)
            await count_to(5, counted)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            await settle()
            nursery.cancel_scope.cancel()
        return len(counted)

    assert run(main) == 5


def test_no_time_passes_during_settle() -> None:
    async def main() -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 10)
            nursery.start_soon(count_to, 20, [])
            before = trio.current_time()
            await settle()
            nursery.cancel_scope.cancel()
            return trio.current_time() - before

    assert {simulate(main, seed=seed, early_timeouts=True) for seed in range(60)} == {0.0}


def test_two_tasks_may_settle_at_once() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(settle)
            nursery.start_soon(settle)

    simulate(main)
