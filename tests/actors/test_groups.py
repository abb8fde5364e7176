import pytest
import trio

from actors import (
    ActorStopped,
    ChildSpec,
    GaveUp,
    Group,
    GroupSpec,
    GroupStatistics,
    Stopped,
    UnknownActor,
)
from tests.support.fake_actors import (
    ActorLog,
    FakeActor,
    IntendedCrash,
    crash,
    crash_and_settle,
    fake_actor,
    fake_actor_specs,
    lines_with,
    nested,
    run_in_system,
    work,
)

# Finding ---------------------------------------------------------------------------------


async def test_members_are_found_by_name(system: Group, actor_log: ActorLog) -> None:
    group = await system.start_group(
        [*fake_actor_specs(actor_log, "a"), nested(actor_log, "b")], name="g"
    )

    assert group["a"].name == "a"
    assert group.group("inner")["b"].name == "b"
    assert list(group) == ["a", "inner"]
    assert "a" in group
    assert "b" not in group


async def test_the_error_for_an_unknown_name_lists_the_known_names(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a"), name="g")

    with pytest.raises(UnknownActor, match="g has no child called 'b'") as unknown:
        _ = group["b"]

    assert isinstance(unknown.value, LookupError)


async def test_a_group_is_not_found_as_an_actor_nor_reverse(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group([*fake_actor_specs(actor_log, "a"), nested(actor_log, "b")])

    with pytest.raises(UnknownActor, match=r"group\(name\)"):
        _ = group["inner"]
    with pytest.raises(UnknownActor, match=r"\[name\]"):
        group.group("a")


async def test_a_handle_is_the_same_every_time(system: Group, actor_log: ActorLog) -> None:
    group = await system.start_group([nested(actor_log, "a")], name="g")

    assert system.group("g") is group
    assert group.group("inner") is group.group("inner")


async def test_declared_children_stay_listed_and_children_added_later_do_not(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a"))
    late = await group.start(FakeActor, name="late")

    await group["a"].stop()
    await late.stop()

    assert list(group) == ["a"]
    assert group.statistics().stopped == 1


async def test_a_declared_name_is_free_when_its_child_has_ended(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a", "b"))
    await group["a"].stop()

    newcomer = await group.start(FakeActor, name="a")

    assert group["a"] is newcomer
    assert list(group) == ["b", "a"]


async def test_group_statistics_are_the_sum_of_their_states(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a", "b", "c"), name="g")
    await group["c"].stop()
    await crash_and_settle(group["a"])

    assert group.statistics() == GroupStatistics(
        name="g",
        state="running",
        children=3,
        starting=0,
        running=2,
        restarting=0,
        stopping=0,
        stopped=1,
        restarts=1,
    )


async def test_the_repr_of_a_group_has_name_and_state(system: Group, actor_log: ActorLog) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a"), name="g")

    assert repr(group) == "<Group 'g' running with 1 children>"


# Giving up -------------------------------------------------------------------------------


async def test_above_its_intensity_a_group_stops_in_reverse_order(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a", "b", "c"), max_restarts=0)
    group["b"].tell(crash)

    with pytest.raises(GaveUp):
        await group.wait_stopped()

    assert lines_with(actor_log, "is gone") == ["b is gone", "c is gone", "a is gone"]
    assert list(system) == []


async def test_only_the_culprit_of_a_group_ends_with_gave_up(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a", "b"), max_restarts=0)
    a, b = group["a"], group["b"]
    b.tell(crash)

    with pytest.raises(GaveUp):
        await b.wait_stopped()
    assert await a.wait_stopped() == Stopped()


async def test_a_group_that_gave_up_is_raised_from_open_actors_once(actor_log: ActorLog) -> None:
    async def play(system: Group) -> None:
        group = await system.start_group(
            fake_actor_specs(actor_log, "a", "b"), name="g", max_restarts=0
        )
        group["a"].tell(crash)
        group["b"].tell(crash)
        await trio.sleep_forever()

    with pytest.raises(GaveUp) as failure:
        await run_in_system(play)

    assert failure.value.name == "g"
    assert isinstance(failure.value.__cause__, IntendedCrash)


async def test_a_group_started_within_a_group_is_restarted_by_it(
    system: Group, actor_log: ActorLog
) -> None:
    outer = await system.start_group(fake_actor_specs(actor_log, "a"), name="outer")
    inner = await outer.start_group(fake_actor_specs(actor_log, "b"), name="inner", max_restarts=0)

    await crash_and_settle(inner["b"])

    assert lines_with(actor_log, "starts") == ["a starts", "b starts", "b starts"]


async def test_an_inner_group_escalates_above_the_outer_intensity(
    actor_log: ActorLog,
) -> None:
    async def play(system: Group) -> None:
        outer = await system.start_group(
            fake_actor_specs(actor_log, "a"), name="outer", max_restarts=0
        )
        inner = await outer.start_group(
            fake_actor_specs(actor_log, "b"), name="inner", max_restarts=0
        )
        inner["b"].tell(crash)
        await trio.sleep_forever()

    with pytest.raises(GaveUp) as failure:
        await run_in_system(play)

    assert (failure.value.name, failure.value.culprit) == ("outer", "inner")


async def test_a_temporary_member_stays_gone_when_its_group_is_restarted_from_above(
    system: Group, actor_log: ActorLog
) -> None:
    once = ChildSpec("t", fake_actor(actor_log), restart="temporary")
    spec = GroupSpec([*fake_actor_specs(actor_log, "b"), once], max_restarts=0)
    group = await system.start_group([ChildSpec("inner", spec)])
    inner = group.group("inner")

    await crash_and_settle(inner["b"])

    assert lines_with(actor_log, "starts") == ["b starts", "t starts", "b starts"]
    assert await inner["t"].wait_stopped() == Stopped()


async def test_a_group_that_is_giving_up_starts_no_child(
    system: Group, actor_log: ActorLog
) -> None:
    slow = ChildSpec("a", fake_actor(actor_log, on_stop=work(1)))
    group = await system.start_group([slow, *fake_actor_specs(actor_log, "b")], max_restarts=0)
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(GaveUp):
                await group.wait_stopped()

        nursery.start_soon(wait)
        await crash_and_settle(group["b"])
        with pytest.raises(ActorStopped):
            await group.start(FakeActor)


async def test_a_stop_while_a_group_gives_up_ends_it_once(
    system: Group, actor_log: ActorLog
) -> None:
    slow = ChildSpec("a", fake_actor(actor_log, on_stop=work(1)))
    group = await system.start_group([slow, *fake_actor_specs(actor_log, "b")], max_restarts=0)
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(GaveUp):
                await group.wait_stopped()

        nursery.start_soon(wait)
        await crash_and_settle(group["b"])
        await group.stop()

    assert lines_with(actor_log, "is gone") == ["b is gone", "a is gone"]
