"""Stops of actors and groups: in time, in order, and for good."""

import math

import pytest
import trio

from actors import (
    ActorStopped,
    AskSelf,
    ChildSpec,
    Group,
    GroupSpec,
    Killed,
    Ref,
    RestartPolicy,
    Stopped,
    open_actors,
)
from actors.testing import settle
from tests.support.fake_actors import (
    ActorLog,
    Do,
    FakeActor,
    Say,
    crash,
    factory_sequence,
    fake_actor,
    fake_actor_specs,
    finish,
    hang,
    ignore_cancelling,
    lines_with,
    work,
)

# Time ------------------------------------------------------------------------------------


async def test_an_actor_is_given_its_time_to_stop(system: Group) -> None:
    ref = await system.start(fake_actor(on_stop=work(4)), shutdown_seconds=5.0)

    await ref.stop()

    assert trio.current_time() == 4.0
    assert await ref.wait_stopped() == Stopped()


async def test_a_child_that_ignores_its_stop_is_cancelled_after_its_time(system: Group) -> None:
    ref = await system.start(FakeActor, shutdown_seconds=5.0)
    ref.tell(hang)
    await settle()

    await ref.stop()

    assert trio.current_time() == 5.0
    assert await ref.wait_stopped() == Killed()


async def test_a_shutdown_time_of_zero_cancels_at_once(system: Group, actor_log: ActorLog) -> None:
    ref = await system.start(fake_actor(actor_log), name="a", shutdown_seconds=0)
    ref.tell(hang)
    await settle()

    await ref.stop()

    assert trio.current_time() == 0
    assert actor_log[-1] == "a stops, Killed"


async def test_an_infinite_shutdown_time_waits_for_the_actor(system: Group) -> None:
    ref = await system.start(fake_actor(on_stop=work(1e6)), shutdown_seconds=math.inf)

    await ref.stop()

    assert trio.current_time() == 1e6
    assert await ref.wait_stopped() == Stopped()


async def test_a_stop_waits_for_an_actor_that_ignores_cancellation(system: Group) -> None:
    ref = await system.start(FakeActor, shutdown_seconds=2.0)
    ref.tell(ignore_cancelling)
    await settle()

    await ref.stop()

    assert trio.current_time() == 3.0


async def test_stopping_again_does_not_prolong_the_time(system: Group) -> None:
    ref = await system.start(FakeActor, shutdown_seconds=5.0)
    ref.tell(hang)
    await settle()
    ref.stop_nowait()
    await trio.sleep(4)

    await ref.stop()

    assert trio.current_time() == 5.0


async def test_the_mailbox_closes_at_once_while_the_current_message_continues(
    system: Group,
) -> None:
    ref = await system.start(FakeActor)
    ref.tell(work(3))
    await settle()
    ref.tell("waits")

    ref.stop_nowait()

    assert ref.statistics().lost == 1
    with pytest.raises(ActorStopped):
        ref.tell("late")


async def test_a_stop_while_a_restart_is_starting_cuts_it_short(
    system: Group, actor_log: ActorLog
) -> None:
    make = factory_sequence(fake_actor(actor_log), fake_actor(actor_log, on_start=hang))
    ref = await system.start(make, name="a", shutdown_seconds=2.0)
    ref.tell(crash)
    await settle()
    assert ref.statistics().state == "starting"

    await ref.stop()

    assert trio.current_time() <= 2.0
    assert list(system) == []


# Order -----------------------------------------------------------------------------------


async def test_children_are_stopped_in_reverse_start_order(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a", "b", "c"))

    await group.stop()

    assert lines_with(actor_log, "is gone") == ["c is gone", "b is gone", "a is gone"]


async def test_each_child_is_over_before_the_next_one_is_asked(
    system: Group, actor_log: ActorLog
) -> None:
    slow = [ChildSpec(name, fake_actor(actor_log, on_stop=work(1))) for name in "ab"]
    group = await system.start_group(slow)
    actor_log.clear()

    await group.stop()

    assert actor_log == ["b stops, Stopped", "b is gone", "a stops, Stopped", "a is gone"]


async def test_a_child_later_in_the_stop_order_still_answers(
    system: Group, actor_log: ActorLog
) -> None:
    last = ChildSpec("b", fake_actor(actor_log, on_stop=work(1)))
    group = await system.start_group([*fake_actor_specs(actor_log, "a"), last])

    group.stop_nowait()
    await settle()

    assert await group["a"].ask(Say("still here")) == "still here"


async def test_children_that_do_not_lean_on_each_other_may_stop_together(
    system: Group, actor_log: ActorLog
) -> None:
    slow = [ChildSpec(name, fake_actor(actor_log, on_stop=work(3))) for name in "abc"]
    group = await system.start_group(slow, stop_order="together")

    await group.stop()

    assert trio.current_time() == 3.0
    assert len(lines_with(actor_log, "is gone")) == 3


async def test_children_stop_before_their_parents_down_the_whole_tree(
    system: Group, actor_log: ActorLog
) -> None:
    inner = ChildSpec("inner", GroupSpec(fake_actor_specs(actor_log, "b", "c")))
    group = await system.start_group(
        [*fake_actor_specs(actor_log, "a"), inner, *fake_actor_specs(actor_log, "d")]
    )

    await group.stop()

    assert lines_with(actor_log, "is gone") == ["d is gone", "c is gone", "b is gone", "a is gone"]


async def test_stopping_a_group_leaves_no_live_descendant(
    system: Group, actor_log: ActorLog
) -> None:
    base = trio.lowlevel.current_statistics().tasks_living
    inner = ChildSpec("inner", GroupSpec(fake_actor_specs(actor_log, "b")))
    group = await system.start_group([*fake_actor_specs(actor_log, "a"), inner])
    await group.group("inner").start(fake_actor(actor_log), name="late")

    await group.stop()
    await settle()

    assert trio.lowlevel.current_statistics().tasks_living == base
    assert len(lines_with(actor_log, "starts")) == len(lines_with(actor_log, "is gone")) == 3


# Groups ----------------------------------------------------------------------------------


async def test_stopping_a_stopped_group_is_fine(system: Group, actor_log: ActorLog) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a"))
    await group.stop()

    await group.stop()
    group.stop_nowait()

    assert await group.wait_stopped() == Stopped()
    assert list(system) == []


async def test_an_empty_group_stops_too(system: Group) -> None:
    group = await system.start_group([])

    await group.stop()

    assert group.statistics().state == "stopped"


async def test_a_stopping_group_starts_no_child(system: Group, actor_log: ActorLog) -> None:
    group = await system.start_group([ChildSpec("a", fake_actor(actor_log, on_stop=work(1)))])
    group.stop_nowait()

    with pytest.raises(ActorStopped):
        await group.start(FakeActor)
    with pytest.raises(ActorStopped):
        await group.start_group([])


async def test_a_group_stop_continues_when_its_caller_times_out(
    system: Group, actor_log: ActorLog
) -> None:
    slow = [ChildSpec(name, fake_actor(actor_log, on_stop=work(2))) for name in "ab"]
    group = await system.start_group(slow)

    with trio.move_on_after(1):
        await group.stop()

    assert await group.wait_stopped() == Stopped()
    assert trio.current_time() == 4.0


async def test_a_member_cannot_wait_for_the_stop_of_its_group(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a"))

    async def stop_us_all() -> None:
        with pytest.raises(AskSelf):
            await group.stop()
        with pytest.raises(AskSelf):
            await group.wait_stopped()

    await group["a"].ask(Do(stop_us_all))


async def test_a_member_may_begin_to_stop_its_group(system: Group, actor_log: ActorLog) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a", "b"))

    async def stop_us_all() -> None:
        group.stop_nowait()

    group["a"].tell(stop_us_all)

    assert await group.wait_stopped() == Stopped()


@pytest.mark.parametrize("action", [crash, finish, hang])
@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
async def test_an_exit_during_shutdown_is_never_followed_by_a_restart(
    system: Group, actor_log: ActorLog, action: object, restart: str
) -> None:
    policy = RestartPolicy(restart)  # type: ignore[arg-type]
    child = ChildSpec("a", fake_actor(actor_log), restart=policy)
    slow = ChildSpec("b", fake_actor(actor_log, on_stop=work(1)))
    group = await system.start_group([child, slow], max_restarts=0)

    group.stop_nowait()
    await settle()
    group["a"].tell(action)  # it has not been asked to stop yet

    assert await group.wait_stopped() == Stopped()
    assert lines_with(actor_log, "starts") == ["a starts", "b starts"]


async def test_a_stop_during_a_group_restart_stops_every_member_once(
    system: Group, actor_log: ActorLog
) -> None:
    slow = ChildSpec(
        "b", factory_sequence(fake_actor(actor_log), fake_actor(actor_log, on_start=work(1)))
    )
    group = await system.start_group(
        [*fake_actor_specs(actor_log, "a"), slow], strategy="one_for_all"
    )
    group["a"].tell(crash)
    await settle()

    await group.stop()

    assert len(lines_with(actor_log, "is up")) == len(lines_with(actor_log, "is gone"))
    assert group.statistics().stopped == 2


async def test_two_actors_that_stop_each_other_both_end(system: Group) -> None:
    one, two = await system.start(FakeActor), await system.start(FakeActor)
    for victim, stopper in ((one, two), (two, one)):

        async def stop_the_other(victim: Ref = victim) -> None:
            await trio.sleep(1)
            await victim.stop()

        stopper.tell(stop_the_other)

    await one.wait_stopped()
    await two.wait_stopped()

    assert trio.current_time() == 6.0


async def test_tasks_return_to_base_when_all_are_stopped() -> None:
    base = trio.lowlevel.current_statistics().tasks_living
    async with open_actors() as system:
        for _ in range(100):
            ref = await system.start(FakeActor)
            ref.tell(crash)
        await settle()

    assert trio.lowlevel.current_statistics().tasks_living == base
