import contextvars
import threading

import pytest
import trio
from trio.lowlevel import checkpoint

from actors.testing import SimulationError, settle, simulate

SEEDS = range(60)


def test_the_work_runs_on_the_thread_of_the_loop() -> None:
    async def main() -> int:
        return await trio.to_thread.run_sync(threading.get_ident)

    assert simulate(main) == threading.get_ident()


def test_an_error_of_the_work_reaches_the_caller() -> None:
    async def main() -> None:
        await trio.to_thread.run_sync(int, "no number")

    with pytest.raises(ValueError, match="no number"):
        simulate(main)


def test_other_tasks_run_while_a_thread_works() -> None:
    async def main() -> bool:
        done: list[str] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, done.append, "thread")
            for _ in range(6):
                await checkpoint()
            return bool(done)

    assert {simulate(main, seed=seed, early_timeouts=True) for seed in SEEDS} == {True, False}


def test_a_cancelled_caller_does_not_start_the_work() -> None:
    async def main() -> list[str]:
        done: list[str] = []
        with trio.CancelScope() as scope:
            scope.cancel()
            await trio.to_thread.run_sync(done.append, "thread")
        return done

    assert all(simulate(main, seed=seed, early_timeouts=True) == [] for seed in SEEDS)


def test_work_that_cannot_be_abandoned_delivers_although_its_caller_was_cancelled() -> None:
    async def main() -> tuple[str | None, bool]:
        result = None
        with trio.move_on_after(1) as scope:
            result = await trio.to_thread.run_sync(lambda: "result")
        return result, scope.cancel_called

    outcomes = {simulate(main, seed=seed, early_timeouts=True) for seed in SEEDS}

    assert outcomes == {("result", False), ("result", True)}


def test_abandoned_work_runs_once_before_or_after_its_caller_has_left() -> None:
    async def main(done: list[str]) -> tuple[bool, int]:
        with trio.move_on_after(1) as scope:
            await trio.to_thread.run_sync(done.append, "thread", abandon_on_cancel=True)
        return scope.cancelled_caught, len(done)

    outcomes = set()
    for seed in SEEDS:
        done: list[str] = []
        outcomes.add(simulate(main, done, seed=seed, early_timeouts=True))
        assert done == ["thread"]

    assert outcomes == {(False, 1), (True, 0), (True, 1)}


@pytest.mark.parametrize("seed", range(9))
def test_the_limiter_is_respected_until_abandoned_work_ends(seed: int) -> None:
    done: list[str] = []

    async def main() -> None:
        limiter = trio.CapacityLimiter(1)
        with trio.move_on_after(1):
            await trio.to_thread.run_sync(
                done.append, "first", abandon_on_cancel=True, limiter=limiter
            )
        await trio.to_thread.run_sync(done.append, "second", limiter=limiter)

    simulate(main, seed=seed, early_timeouts=True)
    assert done == ["first", "second"]


@pytest.mark.parametrize("seed", range(9))
def test_the_default_limiter_is_respected(seed: int) -> None:
    async def main() -> None:
        done: list[str] = []
        limiter = trio.to_thread.current_default_thread_limiter()
        limiter.total_tokens = 1
        async with trio.open_nursery() as nursery, limiter:
            nursery.start_soon(trio.to_thread.run_sync, done.append, "thread")
            await settle()
            assert done == []
        assert done == ["thread"]

    simulate(main, seed=seed, early_timeouts=True)


def test_the_work_sees_no_loop_as_in_a_thread() -> None:
    async def main() -> tuple[bool, bool]:
        inside = await trio.to_thread.run_sync(trio.lowlevel.in_trio_run)
        return inside, trio.lowlevel.in_trio_task()

    assert simulate(main) == (False, True)


def test_the_work_sees_the_context_of_its_caller() -> None:
    word = contextvars.ContextVar("word", default="nothing")

    async def main() -> str:
        word.set("hello")
        return await trio.to_thread.run_sync(word.get)

    assert simulate(main) == "hello"


def test_the_work_may_call_into_the_loop() -> None:
    async def main() -> None:
        event = trio.Event()
        await trio.to_thread.run_sync(trio.from_thread.run_sync, event.set)
        await event.wait()

    simulate(main)


def test_a_call_into_the_loop_from_a_task_is_refused() -> None:
    async def main() -> None:
        trio.from_thread.run_sync(int, trio_token=trio.lowlevel.current_trio_token())

    with pytest.raises(RuntimeError, match="call it from a thread"):
        simulate(main)


def test_an_async_call_into_the_loop_is_refused_with_a_hint() -> None:
    async def main() -> None:
        await trio.to_thread.run_sync(trio.from_thread.run, checkpoint)

    with pytest.raises(SimulationError, match="needs a real thread") as caught:
        simulate(main)

    assert "use trio.from_thread.run_sync" in caught.value.hint


def test_the_work_notices_that_its_caller_was_cancelled() -> None:
    async def main() -> bool:
        with trio.move_on_after(1) as scope:
            await trio.to_thread.run_sync(trio.from_thread.check_cancelled)
        return scope.cancelled_caught

    assert {simulate(main, seed=seed, early_timeouts=True) for seed in SEEDS} == {True, False}


def test_abandoned_work_runs_before_the_run_ends() -> None:
    async def main(done: list[str]) -> int:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(abandonable, done)
            await checkpoint()
            await checkpoint()
            nursery.cancel_scope.cancel()
        return len(done)

    async def abandonable(done: list[str]) -> None:
        await trio.to_thread.run_sync(done.append, "thread", abandon_on_cancel=True)

    late = 0
    for seed in SEEDS:
        done: list[str] = []
        late += simulate(main, done, seed=seed, early_timeouts=True) < len(done)
    assert late > 0


def test_files_are_read_in_simulated_threads() -> None:
    async def main() -> bool:
        return await trio.Path(__file__).exists()

    assert simulate(main)
