"""Crashes, cancellations and ends of a group member at every moment."""

import pytest
import trio

from actors import (
    ActorStopped,
    ChildSpec,
    Finished,
    Group,
    Stopped,
)
from actors.testing import settle
from tests.support.fake_actors import (
    Action,
    ActorLog,
    Do,
    IntendedCrash,
    assert_nothing_is_left,
    crash,
    fake_actor,
    fake_actor_specs,
    finish,
    hang,
    lines_with,
    work,
)


def trio_of(actor_log: ActorLog, middle: ChildSpec) -> list[ChildSpec]:
    first, last = fake_actor_specs(actor_log, "a", "c")
    return [first, middle, last]


async def test_a_crash_in_on_start_stops_earlier_children_and_starts_no_later(
    system: Group, actor_log: ActorLog
) -> None:
    middle = ChildSpec("b", fake_actor(actor_log, on_start=crash))

    with pytest.raises(IntendedCrash):
        await system.start_group(trio_of(actor_log, middle))

    assert actor_log == ["a starts", "a is up", "b starts", "a stops, Stopped", "a is gone"]
    assert_nothing_is_left(system)


async def test_a_member_that_ends_itself_in_on_start_is_left_out(
    system: Group, actor_log: ActorLog
) -> None:
    middle = ChildSpec("b", fake_actor(actor_log, on_start=finish))

    group = await system.start_group(trio_of(actor_log, middle))

    assert [group[name].statistics().state for name in "abc"] == ["running", "stopped", "running"]
    assert await group["b"].wait_stopped() == Finished()


async def test_a_cancelled_group_start_leaves_nothing(system: Group, actor_log: ActorLog) -> None:
    middle = ChildSpec("b", fake_actor(actor_log, on_start=hang))

    with trio.move_on_after(1):
        await system.start_group(trio_of(actor_log, middle))

    assert trio.current_time() == 1.0
    assert lines_with(actor_log, "starts") == ["a starts", "b starts"]
    assert_nothing_is_left(system)


async def test_a_group_start_cancelled_while_it_cleans_up_leaves_nothing_running(
    system: Group, actor_log: ActorLog
) -> None:
    base = trio.lowlevel.current_statistics().tasks_living
    slow = ChildSpec("a", fake_actor(actor_log, on_stop=work(3)))
    bad = ChildSpec("b", fake_actor(actor_log, on_start=crash))

    with trio.move_on_after(1):
        await system.start_group([slow, bad])

    assert trio.current_time() == 1.0
    assert_nothing_is_left(system)
    assert trio.lowlevel.current_statistics().tasks_living == base


async def test_a_member_that_crashes_early_restarts_when_the_group_is_up(
    system: Group, actor_log: ActorLog
) -> None:
    first, second = (
        ChildSpec("a", fake_actor(actor_log)),
        ChildSpec("b", fake_actor(actor_log, on_start=work(1))),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: system.start_group([first, second], name="g"))
        await settle()
        system.group("g")["a"].tell(crash)

    await settle()
    assert lines_with(actor_log, "starts") == ["a starts", "b starts", "a starts"]


async def test_stopping_a_member_that_is_starting_does_not_fail_its_group(
    system: Group, actor_log: ActorLog
) -> None:
    slow = ChildSpec("b", fake_actor(actor_log, on_start=work(1)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: system.start_group(trio_of(actor_log, slow), name="g"))
        await settle()

        await system.group("g")["b"].stop()

    group = system.group("g")
    assert [group[name].statistics().state for name in "abc"] == ["running", "stopped", "running"]


async def test_stopping_a_member_before_its_start_leaves_it_out(
    system: Group, actor_log: ActorLog
) -> None:
    slow = ChildSpec("b", fake_actor(actor_log, on_start=work(1)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: system.start_group(trio_of(actor_log, slow), name="g"))
        await settle()

        await system.group("g")["c"].stop()

    assert lines_with(actor_log, "starts") == ["a starts", "b starts"]
    assert system.group("g").statistics().running == 2


async def test_stopping_a_starting_group_stops_started_members_and_starts_no_more(
    system: Group, actor_log: ActorLog
) -> None:
    slow = ChildSpec("b", fake_actor(actor_log, on_start=work(1)))

    async def start_in_vain() -> None:
        with pytest.raises(ActorStopped):
            await system.start_group(trio_of(actor_log, slow), name="g")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(start_in_vain)
        await settle()
        await system.group("g").stop()

    assert lines_with(actor_log, "starts", "is gone") == [
        "a starts",
        "b starts",
        "b is gone",
        "a is gone",
    ]
    assert_nothing_is_left(system)


@pytest.mark.parametrize("action", [crash, finish])
async def test_a_member_that_ends_in_receive_disturbs_no_sibling(
    system: Group, actor_log: ActorLog, action: Action
) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a", "b", "c"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(group["a"].ask, Do(work(1)))
        await settle()

        group["b"].tell(action)

    assert not [line for line in actor_log if line.startswith(("a stops", "c stops"))]


async def test_a_member_crashing_in_on_stop_does_not_hinder_other_members(
    system: Group, actor_log: ActorLog
) -> None:
    middle = ChildSpec("b", fake_actor(actor_log, on_stop=crash))
    group = await system.start_group(trio_of(actor_log, middle))

    await group.stop()

    assert lines_with(actor_log, "is gone") == ["c is gone", "a is gone"]
    assert await group.wait_stopped() == Stopped()


async def test_a_member_hanging_in_on_stop_is_cancelled(system: Group, actor_log: ActorLog) -> None:
    middle = ChildSpec("b", fake_actor(actor_log, on_stop=hang), shutdown_seconds=2.0)
    group = await system.start_group(trio_of(actor_log, middle))

    await group.stop()

    assert trio.current_time() == 2.0
    assert actor_log[-2:] == ["a stops, Stopped", "a is gone"]
