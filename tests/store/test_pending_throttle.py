"""Writes on their way to the store are bounded, ordered and visible."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor.store.pending import WriteThrottle


class Callers:
    """Callers in several tasks, and the names of those admitted."""

    def __init__(self, load: WriteThrottle, nursery: trio.Nursery) -> None:
        self.load = load
        self.nursery = nursery
        self.came_in: list[str] = []
        self.may_go: dict[str, trio.Event] = {}
        self.scopes: dict[str, trio.CancelScope] = {}

    async def enter(self, name: str, size: int = 1) -> None:
        self.may_go[name], self.scopes[name] = trio.Event(), trio.CancelScope()
        self.nursery.start_soon(self._enter, name, size)
        await settle()

    async def _enter(self, name: str, size: int) -> None:
        with self.scopes[name]:
            carried = await self.load.acquire(size)
            self.came_in.append(name)
            try:
                await self.may_go[name].wait()
            finally:
                self.load.release(carried)

    async def leave(self, name: str) -> None:
        self.may_go[name].set()
        await settle()


async def test_a_write_over_the_limit_waits_for_the_first_to_finish() -> None:
    async with trio.open_nursery() as nursery:
        callers = Callers(WriteThrottle(max_writes=2), nursery)
        for name in "abcd":
            await callers.enter(name)
        assert callers.came_in == ["a", "b"]
        assert (callers.load.writes, callers.load.throttled) == (2, 2)

        await callers.leave("b")
        assert callers.came_in == ["a", "b", "c"]
        await callers.leave("a")
        assert callers.came_in == ["a", "b", "c", "d"]
        await callers.leave("c")
        await callers.leave("d")

    assert (callers.load.writes, callers.load.bytes, callers.load.throttled) == (0, 0, 0)


async def test_a_large_write_waits_and_is_not_overtaken() -> None:
    async with trio.open_nursery() as nursery:
        callers = Callers(WriteThrottle(max_bytes=10), nursery)
        await callers.enter("small", 4)
        await callers.enter("large", 8)
        await callers.enter("tiny", 3)  # it alone would fit
        assert callers.came_in == ["small"]

        await callers.leave("small")
        assert callers.came_in == ["small", "large"]
        await callers.leave("large")
        assert callers.came_in == ["small", "large", "tiny"]
        nursery.cancel_scope.cancel()


async def test_a_caller_that_cannot_wait_does_not_overtake() -> None:
    async with trio.open_nursery() as nursery:
        callers = Callers(WriteThrottle(max_bytes=10), nursery)
        await callers.enter("small", 4)
        await callers.enter("large", 8)
        assert callers.load.acquire_now(3) is None  # it alone would fit

        await callers.leave("small")
        assert callers.load.acquire_now(3) is None
        await callers.leave("large")
        ticket = callers.load.acquire_now(3)

    assert ticket
    callers.load.release(ticket)
    assert (callers.load.writes, callers.load.bytes) == (0, 0)


async def test_a_write_larger_than_the_limit_runs_alone() -> None:
    async with trio.open_nursery() as nursery:
        callers = Callers(WriteThrottle(max_bytes=10), nursery)
        await callers.enter("huge", 100)
        await callers.enter("small", 1)
        assert callers.came_in == ["huge"]

        await callers.leave("huge")

        assert callers.came_in == ["huge", "small"]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("is_called", [False, True])
async def test_a_cancelled_waiter_releases_its_place(*, is_called: bool) -> None:
    async with trio.open_nursery() as nursery:
        callers = Callers(WriteThrottle(max_writes=1), nursery)
        for name in "abc":
            await callers.enter(name)

        if is_called:
            callers.may_go["a"].set()
            await trio.lowlevel.checkpoint()
        callers.scopes["b"].cancel()
        await settle()
        await callers.leave("a")

        assert callers.came_in[-1] == "c"
        await callers.leave("c")
    assert (callers.load.writes, callers.load.bytes, callers.load.throttled) == (0, 0, 0)


async def test_the_throttle_reports_how_long_the_first_has_waited() -> None:
    load = WriteThrottle()
    assert load.wait_seconds == 0.0
    first, second = await load.acquire(3), await load.acquire(5)
    await trio.sleep(7.0)

    assert load.wait_seconds == pytest.approx(7.0)
    assert load.bytes == 8
    load.release(first)
    load.release(second)
    assert load.wait_seconds == 0.0
