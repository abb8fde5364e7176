"""The list of zombies that all drivers share, and the wait for its end."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, assert_checkpoints

from actors.testing import settle
from supervisor.core.ids import TurnId
from supervisor.drivers.runtime import DriverRuntime

FIRST, SECOND = TurnId("turn_1"), TurnId("turn_2")


@pytest.fixture
def runtime(nursery: trio.Nursery) -> DriverRuntime:
    return DriverRuntime(nursery)


async def test_the_wait_for_zombies_ends_with_the_last_of_them(
    runtime: DriverRuntime, autojump_clock: MockClock
) -> None:
    runtime.add_zombie(FIRST, "echo in s_1")
    runtime.add_zombie(SECOND, "echo in s_2")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(runtime.wait_no_zombies)
        await settle()
        runtime.remove_zombie(FIRST)
        await settle()
        assert nursery.child_tasks
        runtime.remove_zombie(SECOND)

    assert trio.current_time() == 0.0


async def test_a_zombie_listed_as_the_last_one_ends_is_waited_for(runtime: DriverRuntime) -> None:
    runtime.add_zombie(FIRST, "echo in s_1")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(runtime.wait_no_zombies)
        await settle()
        runtime.remove_zombie(FIRST)
        runtime.add_zombie(SECOND, "echo in s_2")
        await settle()
        assert nursery.child_tasks
        runtime.remove_zombie(SECOND)


async def test_a_turn_that_is_not_listed_may_be_removed(runtime: DriverRuntime) -> None:
    runtime.remove_zombie(FIRST)

    with assert_checkpoints():
        await runtime.wait_no_zombies()
