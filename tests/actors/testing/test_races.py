"""Planted faults: the simulator must find each, and must accept the correct version.

Each program asserts its own invariant; a deadlock breaks it too.
"""

from collections import deque
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.lowlevel import checkpoint

from actors.testing import explore

Program = Callable[[], Awaitable[None]]


async def a_cap_checked_before_an_await() -> None:
    live = 0

    async def start() -> None:
        nonlocal live
        if live < 2:
            await checkpoint()
            live += 1

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(start)
    assert live <= 2


async def a_cap_reserved_before_the_await() -> None:
    live = 0

    async def start() -> None:
        nonlocal live
        if live < 2:
            live += 1
            await checkpoint()

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(start)
    assert live <= 2


async def _read_twice(take: Callable[[deque[int], trio.Event], Awaitable[int]]) -> None:
    """Cancel a reader after a while and start a second one, which must miss nothing."""
    box: deque[int] = deque()
    handled: list[int] = []
    filled = trio.Event()

    async def read() -> None:
        while len(handled) < 3:
            handled.append(await take(box, filled))

    async with trio.open_nursery() as nursery:
        with trio.move_on_after(2):
            nursery.start_soon(_fill, box, filled)
            await read()
    while box:
        await read()
    assert handled == [0, 1, 2]


async def _fill(box: deque[int], filled: trio.Event) -> None:
    await trio.sleep(1)
    box.extend(range(3))
    filled.set()


async def a_message_taken_before_the_last_await() -> None:
    async def take(box: deque[int], filled: trio.Event) -> int:
        await filled.wait()
        message = box.popleft()
        await checkpoint()
        return message

    await _read_twice(take)


async def a_message_taken_after_the_last_await() -> None:
    async def take(box: deque[int], filled: trio.Event) -> int:
        await filled.wait()
        await checkpoint()
        return box.popleft()

    await _read_twice(take)


class _Bell:
    """Wake one sleeper; a wake-up that comes too early is lost."""

    def __init__(self) -> None:
        self._event: trio.Event | None = None

    def ring(self) -> None:
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        self._event = trio.Event()
        await self._event.wait()


async def a_wake_up_between_look_and_sleep() -> None:
    box: deque[int] = deque()
    bell = _Bell()

    async def read() -> None:
        if not box:
            await checkpoint()
            await bell.wait()
        box.popleft()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await checkpoint()
        box.append(1)
        bell.ring()


async def no_await_between_look_and_sleep() -> None:
    box: deque[int] = deque()
    bell = _Bell()

    async def read() -> None:
        await checkpoint()
        if not box:
            await bell.wait()
        box.popleft()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await checkpoint()
        box.append(1)
        bell.ring()


async def _ask_once(answer: Callable[[dict[int, trio.Event]], None]) -> None:
    pending = {1: trio.Event()}

    async def reply() -> None:
        await trio.sleep(1)
        await checkpoint()
        answer(pending)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reply)
        with trio.move_on_after(2):
            await pending[1].wait()
        pending.pop(1, None)


async def a_late_answer_that_is_still_expected() -> None:
    await _ask_once(lambda pending: pending.pop(1).set())


async def a_late_answer_that_is_dropped() -> None:
    await _ask_once(lambda pending: pending.pop(1, trio.Event()).set())


async def _restart_once(see_crash: Callable[[list[str]], Awaitable[None]]) -> None:
    starts: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(see_crash, starts)
        nursery.start_soon(see_crash, starts)
    assert starts == ["again"]


async def two_who_restart_the_same_child() -> None:
    async def see_crash(starts: list[str]) -> None:
        if not starts:
            await trio.sleep(0.1)
            starts.append("again")

    await _restart_once(see_crash)


async def one_who_restarts_the_child() -> None:
    async def see_crash(starts: list[str]) -> None:
        if not starts:
            starts.append("again")
            await trio.sleep(0.1)

    await _restart_once(see_crash)


async def _write_twice(*, abandon_on_cancel: bool) -> None:
    """Cancel the first write half way; the second one must win."""
    rows: list[int] = []
    with trio.move_on_after(1):
        await trio.to_thread.run_sync(rows.append, 1, abandon_on_cancel=abandon_on_cancel)
    await trio.to_thread.run_sync(rows.append, 2)
    for _ in range(20):
        await checkpoint()
    assert rows[-1] == 2


async def a_write_in_an_abandoned_thread() -> None:
    await _write_twice(abandon_on_cancel=True)


async def a_write_in_a_thread_that_is_waited_for() -> None:
    await _write_twice(abandon_on_cancel=False)


BROKEN: list[Program] = [
    a_cap_checked_before_an_await,
    a_message_taken_before_the_last_await,
    a_wake_up_between_look_and_sleep,
    a_late_answer_that_is_still_expected,
    two_who_restart_the_same_child,
    a_write_in_an_abandoned_thread,
]
RIGHT: list[Program] = [
    a_cap_reserved_before_the_await,
    a_message_taken_after_the_last_await,
    no_await_between_look_and_sleep,
    a_late_answer_that_is_dropped,
    one_who_restarts_the_child,
    a_write_in_a_thread_that_is_waited_for,
]


@pytest.mark.parametrize("program", BROKEN, ids=lambda program: program.__name__)
def test_a_planted_fault_is_found(program: Program) -> None:
    assert explore(program, seeds=range(200), max_failures=1, early_timeouts=True)


@pytest.mark.parametrize("program", RIGHT, ids=lambda program: program.__name__)
def test_the_correct_version_passes(program: Program) -> None:
    assert explore(program, seeds=range(300), early_timeouts=True) == []
    assert explore(program, seeds=range(100)) == []
