"""Hooks that hang, ignore cancellation or raise BaseException affect nothing else."""
# ruff: noqa: ANN401 - a callback may be anything

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from actors.testing import VirtualClock, explore, settle
from supervisor.drivers.runtime import DriverRuntime
from supervisor.sessions.hooks import MAX_ZOMBIES, Denied, HookEvent, Hooks
from tests.support.hook_calls import ask, hang, saying, shielded

# Deadlines --------------------------------------------------------------------------------


async def test_a_hanging_hook_delays_the_caller_until_its_deadline(
    hooks: Hooks, runtime: DriverRuntime
) -> None:
    hooks.add("prompt_assembled", hang)
    hooks.add("prompt_assembled", shielded(runtime), deadline_seconds=2.5)

    await ask(hooks)

    assert trio.current_time() == 7.5


async def test_a_hook_that_hangs_is_cancelled_at_its_deadline(
    hooks: Hooks, runtime: DriverRuntime
) -> None:
    ends: list[float] = []

    async def tidy(event: HookEvent) -> None:
        try:
            await hang(event)
        finally:
            ends.append(trio.current_time())

    hooks.add("prompt_assembled", tidy)
    await ask(hooks)
    await settle()

    assert ends == [5.0]
    assert runtime.zombies == {}


async def test_a_hook_that_ignores_cancellation_is_listed_until_it_ends(
    hooks: Hooks, runtime: DriverRuntime
) -> None:
    hooks.add("prompt_assembled", shielded(runtime))
    async with trio.open_nursery() as askers:
        askers.start_soon(ask, hooks)
        askers.start_soon(ask, hooks)

    assert runtime.zombies == {
        "hook_1_1": "hook shielded of prompt_assembled",
        "hook_1_2": "hook shielded of prompt_assembled",
    }

    runtime.shutdown_started.set()
    await settle()
    assert runtime.zombies == {}


async def test_an_answer_after_the_deadline_is_ignored(hooks: Hooks) -> None:
    async def late(_: HookEvent) -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(10.0)
        return "too late to be nonsense"

    hooks.add("prompt_assembled", late, required=True)

    with pytest.raises(Denied, match="no answer within 5 s"):
        await ask(hooks)
    await trio.sleep(10.0)


async def test_a_hook_with_too_many_stuck_runs_is_skipped_until_one_ends(
    hooks: Hooks, runtime: DriverRuntime
) -> None:
    hook = hooks.add("prompt_assembled", shielded(runtime), required=True)
    for _ in range(MAX_ZOMBIES):
        with pytest.raises(Denied, match="no answer within"):
            await ask(hooks)

    with pytest.raises(Denied, match="10 earlier calls have not ended"):
        await ask(hooks)
    assert trio.current_time() == MAX_ZOMBIES * 5.0

    runtime.shutdown_started.set()
    await settle()
    await ask(hooks)
    assert hook.runs == MAX_ZOMBIES + 1


# Giving up --------------------------------------------------------------------------------


@pytest.mark.parametrize("is_shielded", [False, True])
async def test_cancelling_the_caller_cancels_the_hook_at_once(
    hooks: Hooks, runtime: DriverRuntime, *, is_shielded: bool
) -> None:
    hooks.add("prompt_assembled", shielded(runtime) if is_shielded else hang)

    with trio.move_on_after(1.0) as scope:
        await ask(hooks)

    assert scope.cancelled_caught
    assert trio.current_time() == 1.0
    await settle()
    assert len(runtime.zombies) == is_shielded


async def _ask_when_it_is_too_late() -> None:
    said: list[str] = []
    async with trio.open_nursery() as nursery:
        hooks = Hooks(DriverRuntime(nursery))
        hooks.add("prompt_assembled", saying("asked", said))
        with trio.CancelScope() as scope:
            scope.cancel()
            await ask(hooks)
    assert scope.cancelled_caught
    assert said == []


def test_a_cancelled_caller_calls_no_hook() -> None:
    assert (
        explore(_ask_when_it_is_too_late, seeds=range(50), max_failures=1, early_timeouts=True)
        == []
    )


async def test_no_hook_runs_and_no_caller_waits_after_the_runtime_closed(
    hooks: Hooks, runtime: DriverRuntime
) -> None:
    said: list[str] = []
    hooks.add("prompt_assembled", saying("asked", said), once=True)
    hooks.add("prompt_assembled", hang, required=True)
    runtime.is_closed = True

    with pytest.raises(Denied, match="the supervisor is closed"):
        await ask(hooks)

    assert (said, trio.current_time()) == ([], 0.0)


async def test_a_hook_call_is_denied_when_the_runtime_closes() -> None:
    with trio.fail_after(1.0):
        async with trio.open_nursery() as inner:
            runtime = DriverRuntime(inner)
            hooks = Hooks(runtime)
            hooks.add("prompt_assembled", lambda _: runtime.close())
            hooks.add("prompt_assembled", hang, required=True)
            with pytest.raises(Denied, match="supervisor is closed"), trio.CancelScope(shield=True):
                await ask(hooks)


async def _ask_and_close() -> None:
    async with trio.open_nursery() as nursery:
        runtime = DriverRuntime(nursery)
        hooks = Hooks(runtime)
        called_late: list[bool] = []
        hooks.add("prompt_assembled", lambda _: called_late.append(runtime.is_closed))
        async with trio.open_nursery() as askers:
            askers.start_soon(ask, hooks)
            for _ in range(random.randrange(8)):
                await trio.lowlevel.checkpoint()
            runtime.close()
            askers.cancel_scope.shield = True
    assert True not in called_late


def test_no_hook_is_called_after_the_workshop_has_closed() -> None:
    assert explore(_ask_and_close, seeds=range(150), max_failures=1, early_timeouts=True) == []


# What a hook raises -----------------------------------------------------------------------


class Own(BaseException):
    """A BaseException that no other code catches by type."""


class Deadly(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Doubtful(Exception):
    def __bool__(self) -> bool:
        raise SystemExit(3)


def _nested(depth: int) -> ExceptionGroup[Exception]:
    group: ExceptionGroup[Exception] = ExceptionGroup("innermost", [ValueError("deep")])
    for _ in range(depth):
        group = ExceptionGroup("around", [group])
    return group


def raising(error: BaseException) -> Callable[[HookEvent], None]:
    def callback(_: HookEvent) -> None:
        raise error

    return callback


async def _a_cancelled_from_elsewhere(_: HookEvent) -> None:
    kept: list[trio.Cancelled] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            kept.append(cancelled)
            raise
    raise kept[0]


async def _a_nursery_left_open(_: HookEvent) -> None:
    nursery = await trio.open_nursery().__aenter__()
    nursery.start_soon(trio.sleep_forever)


async def _a_task_that_stumbles(_: HookEvent) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        nursery.start_soon(_stumble)


async def _stumble() -> None:
    raise Own("stumbled")


async def _its_own_end(_: HookEvent) -> None:
    around = trio.lowlevel.current_task().parent_nursery
    assert around is not None
    around.cancel_scope.cancel()
    await trio.lowlevel.checkpoint()


DEADLY: dict[str, Any] = {
    "an error": raising(ValueError("no")),
    "KeyboardInterrupt": raising(KeyboardInterrupt()),
    "SystemExit": raising(SystemExit(2)),
    "GeneratorExit": raising(GeneratorExit()),
    "StopIteration": raising(StopIteration()),
    "one of its own": raising(Own()),
    "a group": raising(BaseExceptionGroup("two", [Own(), KeyboardInterrupt()])),
    "a deep group": raising(_nested(3000)),
    "deadly to show": raising(Deadly()),
    "deadly to doubt": raising(Doubtful()),
    "a cancelled from elsewhere": _a_cancelled_from_elsewhere,
    "a nursery left open": _a_nursery_left_open,
    "a task that stumbles": _a_task_that_stumbles,
    "its own end": _its_own_end,
}


async def _asked_with(callback: Any) -> str:
    """What comes of a required hook, beside others who must not notice."""
    said: list[str] = []
    async with trio.open_nursery() as nursery:
        runtime = DriverRuntime(nursery)
        hooks = Hooks(runtime)
        runtime.start_soon(hooks.run)
        runtime.start_soon(trio.sleep_forever)
        hooks.add("turn_end", callback)
        hooks.add("turn_end", saying("told", said))
        hooks.notify(
            "turn_end", session_id=None, outcome="lost", stop_reason=None, text="", error=None
        )
        await hooks.wait_delivered()
        hooks.add("prompt_assembled", callback, required=True)
        try:
            await ask(hooks)
        except Denied as denied:
            said.append(denied.reason.partition(" failed: ")[2])
        assert not nursery.cancel_scope.cancel_called
        nursery.cancel_scope.cancel()
    return " then ".join(said)


def came_of(main: Callable[[Any], Awaitable[str]], callback: Any) -> str:
    """In a run of its own: what can kill a workshop might also pass for the end of a test."""
    try:
        return trio.run(main, callback, clock=VirtualClock())
    except BaseException as death:  # noqa: BLE001 - and too deep for pytest to look at
        return f"killed by {type(death).__name__}: {str(death)[:200]}"


@pytest.mark.parametrize("callback", DEADLY.values(), ids=DEADLY)
def test_an_exception_of_a_hook_stays_its_own_failure(
    callback: Any,
) -> None:
    assert came_of(_asked_with, callback).startswith("told then raised")


async def test_ctrl_c_is_for_the_program_and_does_not_strike_a_hook(hooks: Hooks) -> None:
    protected: list[bool] = []

    async def look(_: HookEvent) -> None:
        protected.append(trio.lowlevel.currently_ki_protected())
        await trio.lowlevel.checkpoint()
        protected.append(trio.lowlevel.currently_ki_protected())

    hooks.add("prompt_assembled", look)
    await ask(hooks)

    assert protected == [True, True]


async def test_an_error_with_a_long_story_is_cut_short(hooks: Hooks) -> None:
    hooks.add("prompt_assembled", raising(ValueError("x" * 1_000_000)), required=True)

    with pytest.raises(Denied) as denied:
        await ask(hooks)

    assert len(denied.value.reason) < 2100
