import pytest
import trio

from actors import (
    ActorStopped,
    ChildSpec,
    Ended,
    GaveUp,
    Group,
    GroupSpec,
    GroupStatistics,
    Ref,
    Stopped,
    UnknownActor,
)
from actors.testing import explore, settle
from tests.actors.cast import (
    Boom,
    Diary,
    Player,
    Say,
    crash,
    finish,
    hang,
    in_turn,
    only,
    perform,
    player,
    troupe,
    work,
)


def nested(
    diary: Diary, *names: str, max_restarts: int = 0, restart: str = "transient"
) -> ChildSpec:
    """A group called inner, which gives up at the first crash unless told otherwise."""
    spec = GroupSpec(troupe(diary, *names), max_restarts=max_restarts, strategy="one_for_all")
    return ChildSpec("inner", spec, restart=restart)  # type: ignore[arg-type]


async def crash_and_settle(ref: Ref) -> None:
    ref.tell(crash)
    await settle()


# Finding ---------------------------------------------------------------------------------


async def test_members_are_found_by_name(system: Group, diary: Diary) -> None:
    group = await system.start_group([*troupe(diary, "a"), nested(diary, "b")], name="g")

    assert group["a"].name == "a"
    assert group.group("inner")["b"].name == "b"
    assert list(group) == ["a", "inner"]
    assert "a" in group
    assert "b" not in group


async def test_an_unknown_name_is_an_error_that_says_where_it_looked(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group(troupe(diary, "a"), name="g")

    with pytest.raises(UnknownActor, match="g has no child called 'b'") as unknown:
        _ = group["b"]

    assert isinstance(unknown.value, LookupError)


async def test_a_group_is_no_actor_and_an_actor_no_group(system: Group, diary: Diary) -> None:
    group = await system.start_group([*troupe(diary, "a"), nested(diary, "b")])

    with pytest.raises(UnknownActor, match=r"group\(name\)"):
        _ = group["inner"]
    with pytest.raises(UnknownActor, match=r"\[name\]"):
        group.group("a")


async def test_a_handle_is_the_same_every_time(system: Group, diary: Diary) -> None:
    group = await system.start_group([nested(diary, "a")], name="g")

    assert system.group("g") is group
    assert group.group("inner") is group.group("inner")


async def test_declared_children_stay_listed_and_later_ones_are_forgotten(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group(troupe(diary, "a"))
    late = await group.start(Player, name="late")

    await group["a"].stop()
    await late.stop()

    assert list(group) == ["a"]
    assert group.statistics().stopped == 1


async def test_a_declared_name_can_be_taken_by_a_newcomer_when_its_bearer_has_ended(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group(troupe(diary, "a", "b"))
    await group["a"].stop()

    newcomer = await group.start(Player, name="a")

    assert group["a"] is newcomer
    assert list(group) == ["b", "a"]


async def test_group_statistics_are_the_sum_of_their_states(system: Group, diary: Diary) -> None:
    group = await system.start_group(troupe(diary, "a", "b", "c"), name="g")
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


async def test_a_group_says_who_it_is(system: Group, diary: Diary) -> None:
    group = await system.start_group(troupe(diary, "a"), name="g")

    assert repr(group) == "<Group 'g' running with 1 children>"


# Giving up -------------------------------------------------------------------------------


async def test_above_its_intensity_a_group_stops_in_reverse_order(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group(troupe(diary, "a", "b", "c"), max_restarts=0)
    group["b"].tell(crash)

    with pytest.raises(GaveUp):
        await group.wait_stopped()

    assert only(diary, "is gone") == ["b is gone", "c is gone", "a is gone"]
    assert list(system) == []


async def test_when_a_group_gives_up_its_culprit_is_told_apart_from_the_others(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group(troupe(diary, "a", "b"), max_restarts=0)
    a, b = group["a"], group["b"]
    b.tell(crash)

    with pytest.raises(GaveUp):
        await b.wait_stopped()
    assert await a.wait_stopped() == Stopped()


async def test_a_group_that_gave_up_climbs_out_of_open_actors_exactly_once(diary: Diary) -> None:
    async def play(system: Group) -> None:
        group = await system.start_group(troupe(diary, "a", "b"), name="g", max_restarts=0)
        group["a"].tell(crash)
        group["b"].tell(crash)
        await trio.sleep_forever()

    with pytest.raises(GaveUp) as failure:
        await perform(play)

    assert failure.value.name == "g"
    assert isinstance(failure.value.__cause__, Boom)


async def test_a_group_started_within_a_group_is_restarted_by_it(
    system: Group, diary: Diary
) -> None:
    outer = await system.start_group(troupe(diary, "a"), name="outer")
    inner = await outer.start_group(troupe(diary, "b"), name="inner", max_restarts=0)

    await crash_and_settle(inner["b"])

    assert only(diary, "starts") == ["a starts", "b starts", "b starts"]


async def test_a_group_started_within_a_group_climbs_when_that_has_had_enough(
    diary: Diary,
) -> None:
    async def play(system: Group) -> None:
        outer = await system.start_group(troupe(diary, "a"), name="outer", max_restarts=0)
        inner = await outer.start_group(troupe(diary, "b"), name="inner", max_restarts=0)
        inner["b"].tell(crash)
        await trio.sleep_forever()

    with pytest.raises(GaveUp) as failure:
        await perform(play)

    assert (failure.value.name, failure.value.culprit) == ("outer", "inner")


async def test_a_temporary_member_stays_gone_when_its_group_is_restarted_from_above(
    system: Group, diary: Diary
) -> None:
    once = ChildSpec("t", player(diary), restart="temporary")
    spec = GroupSpec([*troupe(diary, "b"), once], max_restarts=0)
    group = await system.start_group([ChildSpec("inner", spec)])
    inner = group.group("inner")

    await crash_and_settle(inner["b"])

    assert only(diary, "starts") == ["b starts", "t starts", "b starts"]
    assert await inner["t"].wait_stopped() == Stopped()


async def test_a_group_that_is_giving_up_starts_nobody(system: Group, diary: Diary) -> None:
    slow = ChildSpec("a", player(diary, on_stop=work(1)))
    group = await system.start_group([slow, *troupe(diary, "b")], max_restarts=0)
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(GaveUp):
                await group.wait_stopped()

        nursery.start_soon(wait)
        await crash_and_settle(group["b"])
        with pytest.raises(ActorStopped):
            await group.start(Player)


async def test_a_stop_while_a_group_gives_up_ends_it_once(system: Group, diary: Diary) -> None:
    slow = ChildSpec("a", player(diary, on_stop=work(1)))
    group = await system.start_group([slow, *troupe(diary, "b")], max_restarts=0)
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(GaveUp):
                await group.wait_stopped()

        nursery.start_soon(wait)
        await crash_and_settle(group["b"])
        await group.stop()

    assert only(diary, "is gone") == ["b is gone", "a is gone"]


# Groups in groups ------------------------------------------------------------------------


async def test_a_nested_group_starts_in_its_place(system: Group, diary: Diary) -> None:
    await system.start_group([*troupe(diary, "a"), nested(diary, "b", "c"), *troupe(diary, "d")])

    assert only(diary, "is up") == ["a is up", "b is up", "c is up", "d is up"]


async def test_a_nested_group_that_fails_to_start_fails_the_whole_start(
    system: Group, diary: Diary
) -> None:
    bad = GroupSpec([*troupe(diary, "b"), ChildSpec("c", player(diary, on_start=crash))])

    with pytest.raises(Boom):
        await system.start_group([*troupe(diary, "a"), ChildSpec("inner", bad)])

    assert only(diary, "is gone") == ["b is gone", "a is gone"]
    assert list(system) == []


async def test_a_nested_group_that_gives_up_is_restarted_from_above(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group([*troupe(diary, "a"), nested(diary, "b", "c")])
    diary.clear()

    await crash_and_settle(group.group("inner")["b"])

    assert only(diary, "is gone", "starts") == [
        *("b is gone", "c is gone"),
        *("b starts", "c starts"),
    ]
    assert group.statistics().restarts == 1


async def test_a_restart_from_above_keeps_refs_and_mailboxes(system: Group, diary: Diary) -> None:
    group = await system.start_group([nested(diary, "b", "c")], backoff_seconds=10.0)
    inner = group.group("inner")
    b, c = inner["b"], inner["c"]
    await crash_and_settle(b)

    b.tell("kept")
    c.tell("kept")
    await trio.sleep(20)

    assert only(diary, "kept") == ["b kept", "c kept"]
    assert inner is group.group("inner")
    assert (inner["b"], inner["c"]) == (b, c)


async def test_a_restart_from_above_keeps_watches(system: Group, diary: Diary) -> None:
    news: list[object] = []

    class Watcher(Player):
        async def receive(self, message: object) -> object:
            news.append(message)
            return None

    group = await system.start_group([nested(diary, "b")])
    watcher = await system.start(Watcher)
    watcher.watch(group.group("inner")["b"])
    await crash_and_settle(group.group("inner")["b"])
    assert news == []

    await group.stop()
    await settle()

    assert [type(item) for item in news] == [Ended]


async def test_a_restart_from_above_gives_the_group_a_fresh_count(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group([nested(diary, "b", max_restarts=1)])
    b = group.group("inner")["b"]

    for _ in range(3):  # one of its own, one from above, one of its own again
        await crash_and_settle(b)

    assert await b.ask(Say("hello")) == "hello"
    assert group.statistics().restarts == 1


async def test_a_failure_climbs_from_group_to_group_exactly_once(diary: Diary) -> None:
    async def play(system: Group) -> None:
        group = await system.start_group([nested(diary, "b")], name="outer", max_restarts=0)
        group.group("inner")["b"].tell(crash)
        await trio.sleep_forever()

    with pytest.raises(GaveUp) as failure:
        await perform(play)

    error = failure.value
    assert (error.name, error.culprit) == ("outer", "inner")
    assert isinstance(error.__cause__, GaveUp)
    assert isinstance(error.__cause__.__cause__, Boom)


async def test_the_actor_at_the_bottom_of_a_failure_that_climbed_was_given_up(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group([nested(diary, "b")], max_restarts=0)
    b = group.group("inner")["b"]
    b.tell(crash)

    with pytest.raises(GaveUp):
        await group.wait_stopped()
    with pytest.raises(GaveUp):
        await b.wait_stopped()


async def test_restarts_from_above_are_counted_against_the_outer_intensity(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group([nested(diary, "b")], max_restarts=2)
    b = group.group("inner")["b"]
    for _ in range(3):
        b.tell(crash)

    with pytest.raises(GaveUp, match="inner gave up after 2 restarts"):
        await group.wait_stopped()

    assert len(only(diary, "starts")) == 3


async def test_a_temporary_nested_group_that_gives_up_is_left(system: Group, diary: Diary) -> None:
    group = await system.start_group(
        [*troupe(diary, "a"), nested(diary, "b", restart="temporary")], max_restarts=0
    )
    await crash_and_settle(group.group("inner")["b"])

    assert group["a"].statistics().state == "running"
    assert group.group("inner").statistics().state == "stopped"


async def test_the_strategy_above_reaches_whole_groups(system: Group, diary: Diary) -> None:
    group = await system.start_group(
        [*troupe(diary, "a"), nested(diary, "b", "c")], strategy="one_for_all"
    )
    diary.clear()

    await crash_and_settle(group["a"])

    assert only(diary, "is gone", "starts") == [
        *("a is gone", "c is gone", "b is gone"),
        *("a starts", "b starts", "c starts"),
    ]


async def test_a_nested_group_comes_back_though_the_one_that_crashed_is_stopped_meanwhile(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group(
        [*troupe(diary, "a"), nested(diary, "b", "c")], strategy="one_for_all"
    )
    inner = group.group("inner")
    inner["c"].tell(work(2))
    await settle()
    await crash_and_settle(group["a"])

    await group["a"].stop()
    await trio.sleep(5)

    assert inner.statistics().running == 2


async def test_a_restart_from_above_that_fails_half_way_stops_what_it_restarted(
    system: Group, diary: Diary
) -> None:
    moody = in_turn(player(diary), player(diary, on_start=crash), player(diary))
    spec = GroupSpec([*troupe(diary, "b"), ChildSpec("c", moody)], max_restarts=0)
    group = await system.start_group([ChildSpec("inner", spec)])
    diary.clear()

    await crash_and_settle(group.group("inner")["b"])

    assert only(diary, "is gone", "starts") == [
        *("b is gone", "c is gone"),
        *("b starts", "c starts", "b is gone"),
        *("b starts", "c starts"),
    ]


async def test_a_nested_group_can_be_stopped_by_itself(system: Group, diary: Diary) -> None:
    group = await system.start_group([*troupe(diary, "a"), nested(diary, "b", "c")])

    await group.group("inner").stop()
    await settle()

    assert only(diary, "is gone") == ["c is gone", "b is gone"]
    assert group["a"].statistics().state == "running"


async def test_a_nested_group_in_back_off_can_be_stopped_at_once(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group([nested(diary, "b")], backoff_seconds=10.0)
    inner = group.group("inner")
    await crash_and_settle(inner["b"])
    assert inner.statistics().state == "restarting"

    await inner.stop()

    assert trio.current_time() == 0
    await trio.sleep(30)
    assert only(diary, "starts") == ["b starts"]


async def test_stopping_a_member_while_its_group_is_restarted_from_above_ends_only_that_member(
    system: Group, diary: Diary
) -> None:
    slow = ChildSpec("c", in_turn(player(diary), player(diary, on_start=work(1))))
    spec = GroupSpec([*troupe(diary, "b"), slow], max_restarts=0)
    group = await system.start_group([ChildSpec("inner", spec)])
    inner = group.group("inner")
    await crash_and_settle(inner["b"])

    await inner["c"].stop()
    await trio.sleep(5)

    assert inner["b"].statistics().state == "running"
    assert inner["c"].statistics().state == "stopped"


async def test_a_member_that_is_stuck_delays_a_restart_from_above_no_longer_than_its_time(
    system: Group, diary: Diary
) -> None:
    stuck = ChildSpec("c", player(diary), shutdown_seconds=2.0)
    spec = GroupSpec([*troupe(diary, "b"), stuck], max_restarts=0)
    group = await system.start_group([ChildSpec("inner", spec)])
    inner = group.group("inner")
    inner["c"].tell(hang)
    await crash_and_settle(inner["b"])

    assert await inner["b"].ask(Say("back")) == "back"
    assert trio.current_time() == 2.0


async def test_a_child_that_finished_stays_finished_after_a_restart_from_above(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group([nested(diary, "b", "c")])
    inner = group.group("inner")
    inner["c"].tell(finish)
    await settle()

    await crash_and_settle(inner["b"])

    assert only(diary, "starts") == ["b starts", "c starts", "b starts"]


async def test_a_user_stop_of_a_group_in_back_off_is_not_a_failure(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group([nested(diary, "b")], backoff_seconds=10.0)
    inner = group.group("inner")
    b = inner["b"]
    await crash_and_settle(b)

    await inner.stop()

    assert await inner.wait_stopped() == Stopped()
    assert await b.wait_stopped() == Stopped()


async def give_up_below_and_restart_from_above(system: Group) -> None:
    inner = GroupSpec(troupe([], "b", "c", "d"), max_restarts=0)
    group = await system.start_group(
        [*troupe([], "a"), ChildSpec("inner", inner)], strategy="one_for_all"
    )
    group.group("inner")["b"].tell(crash)
    group["a"].tell(crash)
    await settle()

    assert group["a"].statistics().state == "running"
    assert group.group("inner").statistics().running == 3


def test_a_group_that_gives_up_while_it_is_restarted_from_above_comes_back_whole() -> None:
    play = give_up_below_and_restart_from_above

    assert explore(perform, play, seeds=range(150), policy="pct") == []
