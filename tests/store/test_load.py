"""How much is on its way to the store: bounded, in order, and visible."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor.store.writer.load import Load


class Door:
    """Comes in several tasks, and says who is in."""

    def __init__(self, load: Load, nursery: trio.Nursery) -> None:
        self.load = load
        self.nursery = nursery
        self.came_in: list[str] = []
        self.may_go: dict[str, trio.Event] = {}
        self.scopes: dict[str, trio.CancelScope] = {}

    async def come(self, name: str, size: int = 1) -> None:
        self.may_go[name], self.scopes[name] = trio.Event(), trio.CancelScope()
        self.nursery.start_soon(self._come, name, size)
        await settle()

    async def _come(self, name: str, size: int) -> None:
        with self.scopes[name]:
            carried = await self.load.enter(size)
            self.came_in.append(name)
            try:
                await self.may_go[name].wait()
            finally:
                self.load.leave(carried)

    async def go(self, name: str) -> None:
        self.may_go[name].set()
        await settle()


async def test_whoever_comes_when_there_are_too_many_waits_for_the_first_to_go() -> None:
    async with trio.open_nursery() as nursery:
        door = Door(Load(most_writes=2), nursery)
        for name in "abcd":
            await door.come(name)
        assert door.came_in == ["a", "b"]
        assert (door.load.writes, door.load.at_the_door) == (2, 2)

        await door.go("b")
        assert door.came_in == ["a", "b", "c"]
        await door.go("a")
        assert door.came_in == ["a", "b", "c", "d"]
        await door.go("c")
        await door.go("d")

    assert (door.load.writes, door.load.bytes, door.load.at_the_door) == (0, 0, 0)


async def test_what_is_large_waits_and_nobody_overtakes_it() -> None:
    async with trio.open_nursery() as nursery:
        door = Door(Load(most_bytes=10), nursery)
        await door.come("small", 4)
        await door.come("large", 8)
        await door.come("tiny", 3)  # there would be room for it at once
        assert door.came_in == ["small"]

        await door.go("small")
        assert door.came_in == ["small", "large"]
        await door.go("large")
        assert door.came_in == ["small", "large", "tiny"]
        nursery.cancel_scope.cancel()


async def test_what_is_larger_than_all_goes_alone() -> None:
    async with trio.open_nursery() as nursery:
        door = Door(Load(most_bytes=10), nursery)
        await door.come("huge", 100)
        await door.come("small", 1)
        assert door.came_in == ["huge"]

        await door.go("huge")

        assert door.came_in == ["huge", "small"]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("is_called", [False, True])
async def test_whoever_gives_up_leaves_its_place_to_others(*, is_called: bool) -> None:
    async with trio.open_nursery() as nursery:
        door = Door(Load(most_writes=1), nursery)
        for name in "abc":
            await door.come(name)

        if is_called:
            door.may_go["a"].set()
            await trio.lowlevel.checkpoint()
        door.scopes["b"].cancel()
        await settle()
        await door.go("a")

        assert door.came_in[-1] == "c"
        await door.go("c")
    assert (door.load.writes, door.load.bytes, door.load.at_the_door) == (0, 0, 0)


async def test_it_says_for_how_long_the_first_has_waited() -> None:
    load = Load()
    assert load.wait_seconds == 0.0
    first, second = await load.enter(3), await load.enter(5)
    await trio.sleep(7.0)

    assert load.wait_seconds == pytest.approx(7.0)
    assert load.bytes == 8
    load.leave(first)
    load.leave(second)
    assert load.wait_seconds == 0.0
