import math

import pytest
import trio

from actors import (
    ActorStopped,
    ChildSpec,
    GaveUp,
    Group,
    GroupSpec,
    Killed,
    Ref,
    RestartPolicy,
    Stopped,
    open_actors,
)
from actors.testing import explore, settle
from actors.testing._schedule import PolicyName
from tests.support.fake_actors import (
    ActorLog,
    Do,
    FakeActor,
    IntendedCrash,
    Say,
    crash,
    fake_actor,
    fake_actor_specs,
    hang,
    lines_with,
    run_in_system,
    work,
)

FRAGILE = RestartPolicy(max_restarts=0)


async def fragile(system: Group, name: str = "a") -> Ref:
    return await system.start(FakeActor, name=name, restart=FRAGILE)


# Leaving in order ------------------------------------------------------------------------


async def test_leaving_the_block_stops_actors_in_reverse_order_of_their_start(
    actor_log: ActorLog,
) -> None:
    async with open_actors() as system:
        for name in "abc":
            await system.start(fake_actor(actor_log), name=name)

    assert lines_with(actor_log, "is gone") == ["c is gone", "b is gone", "a is gone"]


async def test_every_actor_has_its_shutdown_time_when_the_block_ends(actor_log: ActorLog) -> None:
    async with open_actors() as system:
        for name in "ab":
            await system.start(fake_actor(actor_log, on_stop=work(3)), name=name)

    assert trio.current_time() == 6.0
    assert lines_with(actor_log, "is gone") == ["b is gone", "a is gone"]


async def test_the_root_may_stop_all_children_together(actor_log: ActorLog) -> None:
    async with open_actors(stop_order="together") as system:
        for name in "ab":
            await system.start(fake_actor(actor_log, on_stop=work(3)), name=name)

    assert trio.current_time() == 3.0


async def test_an_empty_system_opens_and_closes() -> None:
    async with open_actors() as system:
        assert list(system) == []

    assert system.statistics().state == "stopped"


async def test_no_actor_can_be_started_after_the_block() -> None:
    async with open_actors() as system:
        pass

    with pytest.raises(ActorStopped):
        await system.start(FakeActor)


async def test_the_root_can_be_stopped_from_inside(actor_log: ActorLog) -> None:
    async with open_actors() as system:
        ref = await system.start(fake_actor(actor_log), name="a")

        await system.stop()

        assert await ref.wait_stopped() == Stopped()
        with pytest.raises(ActorStopped):
            await system.start(FakeActor)


async def test_two_systems_are_independent(actor_log: ActorLog) -> None:
    async with open_actors() as outer, open_actors() as inner:
        await outer.start(fake_actor(actor_log), name="a")
        await inner.start(fake_actor(actor_log), name="a")

        await inner.stop()

        assert await outer["a"].ask(Say("undisturbed")) == "undisturbed"


# The block fails -------------------------------------------------------------------------


async def test_an_error_of_the_block_is_raised_bare_after_an_orderly_stop(
    actor_log: ActorLog,
) -> None:
    error = IntendedCrash()

    async def play(system: Group) -> None:
        await system.start(fake_actor(actor_log, on_stop=work(1)), name="a")
        raise error

    with pytest.raises(IntendedCrash) as raised:
        await run_in_system(play)

    assert raised.value is error
    assert actor_log[-1] == "a is gone"


async def test_an_error_raised_to_an_asker_leaves_the_block_bare() -> None:
    async def play(system: Group) -> None:
        ref = await system.start(FakeActor)
        await ref.ask(Do(crash))

    with pytest.raises(IntendedCrash):
        await run_in_system(play)


async def test_an_error_of_the_block_survives_a_cancellation_during_the_stop() -> None:
    async def play(system: Group) -> None:
        await system.start(fake_actor(on_stop=hang))
        raise IntendedCrash

    with pytest.raises(IntendedCrash), trio.move_on_after(1):
        await run_in_system(play)

    assert trio.current_time() == 1.0


async def test_an_error_of_the_block_and_a_failure_are_both_raised() -> None:
    async def play(system: Group) -> None:
        ref = await fragile(system)
        try:
            ref.tell(crash)
            await trio.sleep_forever()
        finally:
            raise IntendedCrash

    with pytest.RaisesGroup(IntendedCrash, GaveUp):
        await run_in_system(play)


# The block is cancelled ------------------------------------------------------------------


async def test_a_cancelled_block_cancels_all_at_once_and_still_in_order(
    actor_log: ActorLog,
) -> None:
    with trio.move_on_after(1) as scope:
        async with open_actors() as system:
            for name in "abc":
                await system.start(fake_actor(actor_log, on_stop=hang), name=name)
            await trio.sleep_forever()

    assert scope.cancelled_caught
    assert trio.current_time() == 1.0
    assert [line[0] for line in actor_log if "stops" in line] == ["c", "b", "a"]


async def test_a_cancelled_block_kills_the_message_in_hand() -> None:
    with trio.move_on_after(1):
        async with open_actors() as system:
            ref = await system.start(FakeActor)
            ref.tell(hang)
            await trio.sleep_forever()

    assert await ref.wait_stopped() == Killed()


async def test_a_cancellation_during_a_stop_shortens_it(actor_log: ActorLog) -> None:
    with trio.move_on_after(1):
        async with open_actors() as system:
            for name in "ab":
                await system.start(
                    fake_actor(actor_log, on_stop=hang), name=name, shutdown_seconds=60
                )

    assert trio.current_time() == 1.0
    assert system.statistics().state == "stopped"


async def test_a_cancelled_block_leaves_no_task_behind(actor_log: ActorLog) -> None:
    base = trio.lowlevel.current_statistics().tasks_living
    with trio.move_on_after(1):
        async with open_actors() as system:
            inner = ChildSpec("inner", GroupSpec(fake_actor_specs(actor_log, "b", "c")))
            await system.start_group(
                [*fake_actor_specs(actor_log, "a"), inner], strategy="one_for_all"
            )
            await trio.sleep_forever()

    assert trio.lowlevel.current_statistics().tasks_living == base


async def test_a_cancelled_block_ends_a_back_off_and_a_start_at_once(actor_log: ActorLog) -> None:
    with trio.move_on_after(1):
        async with open_actors() as system:
            patient = RestartPolicy(backoff_seconds=100.0)
            (await system.start(FakeActor, restart=patient)).tell(crash)
            await system.start(fake_actor(on_start=hang))

    assert trio.current_time() == 1.0


# Giving up -------------------------------------------------------------------------------


async def test_an_unhandled_failure_cancels_the_block_and_is_raised_bare() -> None:
    async def play(system: Group) -> None:
        (await fragile(system)).tell(crash)
        await trio.sleep_forever()

    with pytest.raises(GaveUp, match="a was given up") as failure:
        await run_in_system(play)

    assert isinstance(failure.value.__cause__, IntendedCrash)
    assert trio.current_time() == 0


async def test_an_unhandled_failure_stops_all_actors_in_order(actor_log: ActorLog) -> None:
    async def play(system: Group) -> None:
        for name in "ab":
            await system.start(fake_actor(actor_log, on_stop=work(1)), name=name)
        (await fragile(system, "c")).tell(crash)
        await trio.sleep_forever()

    with pytest.raises(GaveUp):
        await run_in_system(play)

    assert lines_with(actor_log, "is gone") == ["b is gone", "a is gone"]


async def test_many_unhandled_failures_end_in_exactly_one_gave_up() -> None:
    async def play(system: Group) -> None:
        for name in "abc":
            (await fragile(system, name)).tell(crash)
        await trio.sleep_forever()

    with pytest.raises(GaveUp):
        await run_in_system(play)


async def test_a_failure_handled_by_a_waiter_does_not_escalate() -> None:
    async with open_actors() as system:
        ref = await fragile(system)
        ref.tell(crash)

        with pytest.raises(GaveUp):
            await ref.wait_stopped()

        other = await system.start(FakeActor)
        assert await other.ask(Say("life goes on")) == "life goes on"


async def test_a_failure_handled_by_its_asker_does_not_escalate() -> None:
    async with open_actors() as system:
        ref = await fragile(system)
        with pytest.raises(IntendedCrash):
            await ref.ask(Do(crash))

        with pytest.raises(GaveUp):
            await ref.wait_stopped()


async def test_a_failure_handled_by_a_watcher_does_not_escalate() -> None:
    async with open_actors() as system:
        watcher = await system.start(FakeActor)
        ref = await fragile(system)
        watcher.watch(ref)

        ref.tell(crash)
        await trio.sleep(10)

        assert await watcher.ask(Say("life goes on")) == "life goes on"


async def test_of_several_failures_the_unhandled_one_is_raised() -> None:
    async def play(system: Group) -> None:
        handled = await fragile(system, "a")
        handled.tell(crash)
        with pytest.raises(GaveUp, match="a was given up"):
            await handled.wait_stopped()
        (await fragile(system, "b")).tell(crash)
        await trio.sleep_forever()

    with pytest.raises(GaveUp, match="b was given up"):
        await run_in_system(play)


async def test_a_failure_watched_by_a_stopping_actor_escalates() -> None:
    async def play(system: Group) -> None:
        watcher = await system.start(FakeActor)
        ref = await fragile(system)
        watcher.watch(ref)
        watcher.tell(work(1))
        await settle()
        watcher.stop_nowait()
        ref.tell(crash)
        await trio.sleep_forever()

    with pytest.raises(GaveUp):
        await run_in_system(play)


async def test_a_failure_that_comes_as_the_block_ends_is_still_raised() -> None:
    async def play(system: Group) -> None:
        ref = await fragile(system)
        ref.tell(crash)
        await settle()

    with pytest.raises(GaveUp):
        await run_in_system(play)


async def test_an_unhandled_failure_survives_a_cancellation_during_the_stop() -> None:
    async def play(system: Group) -> None:
        await system.start(fake_actor(on_stop=hang))
        (await fragile(system)).tell(crash)
        await trio.sleep_forever()

    with pytest.raises(GaveUp), trio.move_on_after(1):
        await run_in_system(play)


async def test_a_crash_during_the_final_stop_is_not_a_failure(actor_log: ActorLog) -> None:
    async with open_actors() as system:
        await system.start(fake_actor(actor_log, on_stop=crash), name="a", restart=FRAGILE)

    assert lines_with(actor_log, "starts") == ["a starts"]


# Errors that are not an Exception --------------------------------------------------------


async def test_ctrl_c_inside_an_actor_ends_the_program() -> None:
    async def interrupt() -> None:
        raise KeyboardInterrupt

    async def wait_in_vain(ref: Ref) -> None:
        with pytest.raises(ActorStopped):
            await ref.ask(Do(hang), timeout_seconds=math.inf)

    async def play(system: Group) -> None:
        one, two = await system.start(FakeActor), await system.start(FakeActor)
        outside.start_soon(wait_in_vain, two)
        await settle()
        one.tell(interrupt)
        await trio.sleep_forever()

    async with trio.open_nursery() as outside:
        with pytest.RaisesGroup(KeyboardInterrupt, allow_unwrapped=True, flatten_subgroups=True):
            await run_in_system(play)


async def a_waiter_takes_it_over(system: Group) -> None:
    ref = await system.start(fake_actor(), restart=RestartPolicy(max_restarts=0))

    async def wait() -> None:
        with pytest.raises(GaveUp):
            await ref.wait_stopped()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await settle()
        ref.tell(crash)
    await settle()


@pytest.mark.parametrize("policy", ["shuffle", "walk", "pct"])
def test_a_failure_raised_to_a_waiter_is_not_escalated(policy: PolicyName) -> None:
    failing = explore(
        run_in_system, a_waiter_takes_it_over, seeds=range(100), policy=policy, early_timeouts=True
    )

    assert failing == []


async def test_open_actors_can_be_cancelled_before_it_begins() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        async with open_actors():
            pytest.fail("it began")

    assert scope.cancelled_caught


async def open_and_be_cancelled_anywhere() -> None:
    with trio.move_on_after(1.0):
        async with open_actors() as system:
            await system.start_group([ChildSpec("a", fake_actor(on_start=work(1)))])
            await trio.sleep(2.0)


def test_open_actors_can_be_cancelled_anywhere() -> None:
    assert explore(open_and_be_cancelled_anywhere, seeds=range(300), early_timeouts=True) == []


@pytest.mark.parametrize("depth", [0, 1, 2])
async def test_a_waiter_of_the_first_failed_child_handles_the_escalation(
    system: Group, depth: int
) -> None:
    spec = GroupSpec([ChildSpec("x", fake_actor())], max_restarts=0)
    for _ in range(depth):
        spec = GroupSpec([ChildSpec("g", spec)], max_restarts=0)
    group = await system.start_group(spec.children, max_restarts=0)
    for _ in range(depth):
        group = group.group("g")
    group["x"].tell(crash)

    with pytest.raises(GaveUp):
        await group["x"].wait_stopped()
    await settle()


async def test_the_error_of_the_block_is_kept_when_a_worse_one_follows() -> None:
    async def exit_all() -> None:
        raise SystemExit

    async def play(system: Group) -> None:
        await system.start(fake_actor(on_stop=exit_all))
        raise ValueError("the first error")

    with pytest.raises(BaseExceptionGroup) as failure:
        await run_in_system(play)

    context: BaseException | None = failure.value
    chain = []
    while context is not None:
        chain.append(repr(context))
        context = context.__context__
    assert "the first error" in " ".join(chain)
