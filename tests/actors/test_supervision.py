import pytest
import trio

from actors import (
    ActorStopped,
    ChildSpec,
    Finished,
    GaveUp,
    Group,
    NameTaken,
    RestartPolicy,
    Stopped,
)
from actors.testing import settle
from tests.support.fake_actors import (
    ActorLog,
    FakeActor,
    IntendedCrash,
    Say,
    crash,
    crash_and_settle,
    factory_sequence,
    fake_actor,
    fake_actor_specs,
    finish,
    lines_with,
)

# Restart kinds ---------------------------------------------------------------------------


async def test_a_permanent_actor_is_restarted_after_it_finished(
    system: Group, actor_log: ActorLog
) -> None:
    ref = await system.start(fake_actor(actor_log), name="a", restart="permanent")

    ref.tell(finish)
    await settle()

    assert lines_with(actor_log, "starts") == ["a starts"] * 2


async def test_a_transient_actor_is_not_restarted_after_it_finished(
    system: Group, actor_log: ActorLog
) -> None:
    ref = await system.start(fake_actor(actor_log), name="a", restart="transient")

    ref.tell(finish)

    assert await ref.wait_stopped() == Finished()
    assert list(system) == []


async def test_an_actor_is_transient_by_default(system: Group, actor_log: ActorLog) -> None:
    ref = await system.start(fake_actor(actor_log), name="a")

    await crash_and_settle(ref)
    ref.tell(finish)

    assert await ref.wait_stopped() == Finished()
    assert lines_with(actor_log, "starts") == ["a starts"] * 2


@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
async def test_a_user_stop_is_not_a_crash(system: Group, actor_log: ActorLog, restart: str) -> None:
    policy = RestartPolicy(restart, max_restarts=0)  # type: ignore[arg-type]
    ref = await system.start(fake_actor(actor_log), name="a", restart=policy)

    await ref.stop()
    await settle()

    assert await ref.wait_stopped() == Stopped()
    assert lines_with(actor_log, "starts") == ["a starts"]


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
async def test_stopping_a_member_stops_no_other_member(
    system: Group, actor_log: ActorLog, strategy: str
) -> None:
    children = [ChildSpec(name, fake_actor(actor_log), restart="permanent") for name in "abc"]
    group = await system.start_group(children, strategy=strategy)  # type: ignore[arg-type]

    await group["a"].stop()
    await settle()

    assert lines_with(actor_log, "is gone") == ["a is gone"]
    assert group.statistics().running == 2


# Names -----------------------------------------------------------------------------------


async def test_duplicate_names_are_refused(system: Group) -> None:
    first = await system.start(FakeActor, name="a")

    with pytest.raises(NameTaken, match="'a'"):
        await system.start(FakeActor, name="a")

    assert await first.ask(Say("undisturbed")) == "undisturbed"


async def test_a_restarting_actor_still_bears_its_name(system: Group) -> None:
    patient = RestartPolicy(backoff_seconds=10.0)
    await crash_and_settle(await system.start(FakeActor, name="a", restart=patient))

    with pytest.raises(NameTaken):
        await system.start(FakeActor, name="a")


async def test_a_name_is_free_again_when_its_bearer_has_stopped(system: Group) -> None:
    await (await system.start(FakeActor, name="a")).stop()

    again = await system.start(FakeActor, name="a")

    assert system["a"] is again


async def test_a_late_end_of_a_namesake_does_not_touch_the_newcomer(system: Group) -> None:
    old = await system.start(FakeActor, name="a")
    await old.stop()
    new = await system.start(FakeActor, name="a")

    await old.stop()

    assert await new.ask(Say("hello")) == "hello"
    assert list(system) == ["a"]


async def test_an_actor_without_a_name_gets_a_free_name(system: Group) -> None:
    await system.start(FakeActor, name="fakeactor-2")

    names = [(await system.start(FakeActor)).name for _ in range(3)]

    assert len({"fakeactor-2", *names}) == 4


# Intensity -------------------------------------------------------------------------------


async def test_an_actor_is_given_up_above_the_restart_limit(
    system: Group, actor_log: ActorLog
) -> None:
    policy = RestartPolicy(max_restarts=2, within_seconds=5.0)
    ref = await system.start(fake_actor(actor_log), name="a", restart=policy)
    for _ in range(3):
        ref.tell(crash)

    with pytest.raises(GaveUp, match="after 2 restarts within 5 s"):
        await ref.wait_stopped()

    assert len(lines_with(actor_log, "starts")) == 3


async def test_several_restarts_spread_wider_than_the_window_do_not_escalate(
    system: Group,
) -> None:
    policy = RestartPolicy(max_restarts=1, within_seconds=5.0)
    ref = await system.start(FakeActor, restart=policy)

    for _ in range(10):
        ref.tell(crash)
        await trio.sleep(5.1)

    assert ref.statistics().restarts == 10
    assert ref.statistics().state == "running"


async def test_the_window_slides(system: Group) -> None:
    policy = RestartPolicy(max_restarts=2, within_seconds=5.0)
    ref = await system.start(FakeActor, restart=policy)

    async def crash_at(*instants: float) -> None:
        for instant in instants:
            await trio.sleep_until(instant)
            ref.tell(crash)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(crash_at, 0, 4, 8, 12, 13)  # the last three within five seconds
        with pytest.raises(GaveUp):
            await ref.wait_stopped()

    assert trio.current_time() == 13.0


async def test_started_actors_count_their_restarts_each_for_itself(system: Group) -> None:
    one = await system.start(FakeActor, restart=RestartPolicy(max_restarts=1))
    two = await system.start(FakeActor, restart=RestartPolicy(max_restarts=1))

    await crash_and_settle(one)
    await crash_and_settle(two)

    assert one.statistics().state == two.statistics().state == "running"


async def test_members_of_a_group_count_their_restarts_together(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a", "b"), max_restarts=1)

    await crash_and_settle(group["a"])
    group["b"].tell(crash)

    with pytest.raises(GaveUp, match="b crashed") as failure:
        await group.wait_stopped()
    assert (failure.value.name, failure.value.culprit) == (group.name, "b")


async def test_a_restart_that_fails_to_start_counts_like_a_crash(
    system: Group, actor_log: ActorLog
) -> None:
    makers = (fake_actor(actor_log), fake_actor(actor_log, on_start=crash))
    ref = await system.start(
        factory_sequence(*makers), name="a", restart=RestartPolicy(max_restarts=2)
    )
    ref.tell(crash)

    with pytest.raises(GaveUp) as failure:
        await ref.wait_stopped()

    assert isinstance(failure.value.__cause__, IntendedCrash)
    assert len(lines_with(actor_log, "starts")) == 3


async def test_a_permanent_actor_that_keeps_finishing_is_given_up_without_a_cause(
    system: Group,
) -> None:
    policy = RestartPolicy("permanent", max_restarts=0)
    ref = await system.start(FakeActor, restart=policy)
    ref.tell(finish)

    with pytest.raises(GaveUp, match="finished") as failure:
        await ref.wait_stopped()

    assert failure.value.__cause__ is None


async def test_giving_up_an_actor_fails_the_asks_in_its_mailbox(system: Group) -> None:
    ref = await system.start(FakeActor, restart=RestartPolicy(max_restarts=0))
    ref.tell(crash)

    with pytest.raises(ActorStopped):
        await ref.ask(Say("hello"))
    with pytest.raises(GaveUp):
        await ref.wait_stopped()


# Back-off --------------------------------------------------------------------------------


async def test_a_restart_waits_for_its_back_off(system: Group, actor_log: ActorLog) -> None:
    policy = RestartPolicy(backoff_seconds=8.0)
    ref = await system.start(fake_actor(actor_log), name="a", restart=policy)
    ref.tell(crash)

    await trio.sleep(3.9)
    assert lines_with(actor_log, "starts") == ["a starts"]
    await trio.sleep(4.2)

    assert lines_with(actor_log, "starts") == ["a starts"] * 2


async def test_back_off_is_visible_as_restarting(system: Group) -> None:
    ref = await system.start(FakeActor, restart=RestartPolicy(backoff_seconds=10.0))

    await crash_and_settle(ref)

    assert ref.statistics().state == "restarting"
    assert system.statistics().restarting == 1


async def test_back_off_is_stoppable_at_once(system: Group, actor_log: ActorLog) -> None:
    policy = RestartPolicy(backoff_seconds=10.0)
    ref = await system.start(fake_actor(actor_log), name="a", restart=policy)
    await crash_and_settle(ref)

    await ref.stop()

    assert trio.current_time() == 0
    assert await ref.wait_stopped() == Stopped()
    await trio.sleep(30)
    assert lines_with(actor_log, "starts") == ["a starts"]


async def test_a_group_in_back_off_is_stoppable_at_once(system: Group, actor_log: ActorLog) -> None:
    group = await system.start_group(
        fake_actor_specs(actor_log, "a", "b"), strategy="one_for_all", backoff_seconds=10.0
    )
    await crash_and_settle(group["a"])

    await group.stop()

    assert trio.current_time() == 0
    assert lines_with(actor_log, "starts") == ["a starts", "b starts"]


async def test_a_restart_loop_answers_queries_and_stops_at_once(
    system: Group, actor_log: ActorLog
) -> None:
    makers = (fake_actor(actor_log), fake_actor(actor_log, on_start=crash))
    policy = RestartPolicy(max_restarts=1_000_000, backoff_seconds=0.001)
    ref = await system.start(factory_sequence(*makers), name="a", restart=policy)
    ref.tell(crash)
    await trio.sleep(100)

    assert ref.statistics().restarts > 1
    assert system.statistics().children == 1
    now = trio.current_time()
    await ref.stop()
    assert trio.current_time() == now


async def test_a_restart_loop_without_back_off_lets_other_tasks_run(system: Group) -> None:
    makers = (fake_actor(), fake_actor(on_start=crash))
    policy = RestartPolicy(max_restarts=1_000_000)
    loop = await system.start(factory_sequence(*makers), restart=policy)
    other = await system.start(FakeActor)
    loop.tell(crash)

    for number in range(20):
        assert await other.ask(Say(str(number))) == str(number)

    await loop.stop()
