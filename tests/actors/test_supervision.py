import pytest
import trio

from actors import (
    ActorStopped,
    ChildSpec,
    Finished,
    GaveUp,
    Group,
    NameTaken,
    Ref,
    RestartPolicy,
    Stopped,
)
from actors.testing import settle
from tests.actors.cast import (
    Boom,
    Diary,
    Do,
    Player,
    Say,
    crash,
    finish,
    hang,
    in_turn,
    only,
    player,
    troupe,
    work,
)


async def crash_and_settle(ref: Ref) -> None:
    ref.tell(crash)
    await settle()


# Restart kinds ---------------------------------------------------------------------------


async def test_a_permanent_actor_comes_back_also_when_it_finished(
    system: Group, diary: Diary
) -> None:
    ref = await system.start(player(diary), name="a", restart="permanent")

    ref.tell(finish)
    await settle()

    assert only(diary, "starts") == ["a starts"] * 2


async def test_a_transient_actor_stays_away_when_it_finished(system: Group, diary: Diary) -> None:
    ref = await system.start(player(diary), name="a", restart="transient")

    ref.tell(finish)

    assert await ref.wait_stopped() == Finished()
    assert list(system) == []


async def test_an_actor_is_transient_unless_told_otherwise(system: Group, diary: Diary) -> None:
    ref = await system.start(player(diary), name="a")

    await crash_and_settle(ref)
    ref.tell(finish)

    assert await ref.wait_stopped() == Finished()
    assert only(diary, "starts") == ["a starts"] * 2


@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
async def test_a_user_stop_is_not_a_crash(system: Group, diary: Diary, restart: str) -> None:
    policy = RestartPolicy(restart, max_restarts=0)  # type: ignore[arg-type]
    ref = await system.start(player(diary), name="a", restart=policy)

    await ref.stop()
    await settle()

    assert await ref.wait_stopped() == Stopped()
    assert only(diary, "starts") == ["a starts"]


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
async def test_a_user_stop_of_a_member_drags_nobody_along(
    system: Group, diary: Diary, strategy: str
) -> None:
    children = [ChildSpec(name, player(diary), restart="permanent") for name in "abc"]
    group = await system.start_group(children, strategy=strategy)  # type: ignore[arg-type]

    await group["a"].stop()
    await settle()

    assert only(diary, "is gone") == ["a is gone"]
    assert group.statistics().running == 2


# Names -----------------------------------------------------------------------------------


async def test_duplicate_names_are_refused(system: Group) -> None:
    first = await system.start(Player, name="a")

    with pytest.raises(NameTaken, match="'a'"):
        await system.start(Player, name="a")

    assert await first.ask(Say("undisturbed")) == "undisturbed"


async def test_a_restarting_actor_still_bears_its_name(system: Group) -> None:
    patient = RestartPolicy(backoff_seconds=10.0)
    await crash_and_settle(await system.start(Player, name="a", restart=patient))

    with pytest.raises(NameTaken):
        await system.start(Player, name="a")


async def test_a_name_is_free_again_when_its_bearer_has_stopped(system: Group) -> None:
    await (await system.start(Player, name="a")).stop()

    again = await system.start(Player, name="a")

    assert system["a"] is again


async def test_a_late_end_of_a_namesake_does_not_touch_the_newcomer(system: Group) -> None:
    old = await system.start(Player, name="a")
    await old.stop()
    new = await system.start(Player, name="a")

    await old.stop()

    assert await new.ask(Say("hello")) == "hello"
    assert list(system) == ["a"]


async def test_who_gets_no_name_is_given_one_that_is_free(system: Group) -> None:
    await system.start(Player, name="player-2")

    names = [(await system.start(Player)).name for _ in range(3)]

    assert len({"player-2", *names}) == 4


# Intensity -------------------------------------------------------------------------------


async def test_one_restart_too_many_gives_up(system: Group, diary: Diary) -> None:
    policy = RestartPolicy(max_restarts=2, within_seconds=5.0)
    ref = await system.start(player(diary), name="a", restart=policy)
    for _ in range(3):
        ref.tell(crash)

    with pytest.raises(GaveUp, match="after 2 restarts within 5 s"):
        await ref.wait_stopped()

    assert len(only(diary, "starts")) == 3


async def test_several_restarts_spread_wider_than_the_window_do_not_escalate(
    system: Group,
) -> None:
    policy = RestartPolicy(max_restarts=1, within_seconds=5.0)
    ref = await system.start(Player, restart=policy)

    for _ in range(10):
        ref.tell(crash)
        await trio.sleep(5.1)

    assert ref.statistics().restarts == 10
    assert ref.statistics().state == "running"


async def test_the_window_slides(system: Group) -> None:
    policy = RestartPolicy(max_restarts=2, within_seconds=5.0)
    ref = await system.start(Player, restart=policy)

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
    one = await system.start(Player, restart=RestartPolicy(max_restarts=1))
    two = await system.start(Player, restart=RestartPolicy(max_restarts=1))

    await crash_and_settle(one)
    await crash_and_settle(two)

    assert one.statistics().state == two.statistics().state == "running"


async def test_members_of_a_group_count_their_restarts_together(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group(troupe(diary, "a", "b"), max_restarts=1)

    await crash_and_settle(group["a"])
    group["b"].tell(crash)

    with pytest.raises(GaveUp, match="b crashed") as failure:
        await group.wait_stopped()
    assert (failure.value.name, failure.value.culprit) == (group.name, "b")


async def test_a_restart_that_fails_to_start_counts_like_a_crash(
    system: Group, diary: Diary
) -> None:
    makers = (player(diary), player(diary, on_start=crash))
    ref = await system.start(in_turn(*makers), name="a", restart=RestartPolicy(max_restarts=2))
    ref.tell(crash)

    with pytest.raises(GaveUp) as failure:
        await ref.wait_stopped()

    assert isinstance(failure.value.__cause__, Boom)
    assert len(only(diary, "starts")) == 3


async def test_a_permanent_actor_that_keeps_finishing_is_given_up_without_a_cause(
    system: Group,
) -> None:
    policy = RestartPolicy("permanent", max_restarts=0)
    ref = await system.start(Player, restart=policy)
    ref.tell(finish)

    with pytest.raises(GaveUp, match="finished") as failure:
        await ref.wait_stopped()

    assert failure.value.__cause__ is None


async def test_an_actor_that_is_given_up_fails_what_waits_in_its_mailbox(system: Group) -> None:
    ref = await system.start(Player, restart=RestartPolicy(max_restarts=0))
    ref.tell(crash)

    with pytest.raises(ActorStopped):
        await ref.ask(Say("hello"))
    with pytest.raises(GaveUp):
        await ref.wait_stopped()


# Back-off --------------------------------------------------------------------------------


async def test_a_restart_waits_for_its_back_off(system: Group, diary: Diary) -> None:
    policy = RestartPolicy(backoff_seconds=8.0)
    ref = await system.start(player(diary), name="a", restart=policy)
    ref.tell(crash)

    await trio.sleep(3.9)
    assert only(diary, "starts") == ["a starts"]
    await trio.sleep(4.2)

    assert only(diary, "starts") == ["a starts"] * 2


async def test_back_off_is_visible_as_restarting(system: Group) -> None:
    ref = await system.start(Player, restart=RestartPolicy(backoff_seconds=10.0))

    await crash_and_settle(ref)

    assert ref.statistics().state == "restarting"
    assert system.statistics().restarting == 1


async def test_back_off_is_stoppable_at_once(system: Group, diary: Diary) -> None:
    policy = RestartPolicy(backoff_seconds=10.0)
    ref = await system.start(player(diary), name="a", restart=policy)
    await crash_and_settle(ref)

    await ref.stop()

    assert trio.current_time() == 0
    assert await ref.wait_stopped() == Stopped()
    await trio.sleep(30)
    assert only(diary, "starts") == ["a starts"]


async def test_a_group_in_back_off_is_stoppable_at_once(system: Group, diary: Diary) -> None:
    group = await system.start_group(
        troupe(diary, "a", "b"), strategy="one_for_all", backoff_seconds=10.0
    )
    await crash_and_settle(group["a"])

    await group.stop()

    assert trio.current_time() == 0
    assert only(diary, "starts") == ["a starts", "b starts"]


async def test_a_restart_loop_answers_queries_and_stops_at_once(
    system: Group, diary: Diary
) -> None:
    makers = (player(diary), player(diary, on_start=crash))
    policy = RestartPolicy(max_restarts=1_000_000, backoff_seconds=0.001)
    ref = await system.start(in_turn(*makers), name="a", restart=policy)
    ref.tell(crash)
    await trio.sleep(100)

    assert ref.statistics().restarts > 1
    assert system.statistics().children == 1
    now = trio.current_time()
    await ref.stop()
    assert trio.current_time() == now


async def test_a_restart_loop_without_back_off_lets_others_run(system: Group) -> None:
    makers = (player(), player(on_start=crash))
    policy = RestartPolicy(max_restarts=1_000_000)
    loop = await system.start(in_turn(*makers), restart=policy)
    other = await system.start(Player)
    loop.tell(crash)

    for number in range(20):
        assert await other.ask(Say(str(number))) == str(number)

    await loop.stop()


# Strategies ------------------------------------------------------------------------------


async def test_one_for_one_restarts_only_the_one_that_crashed(system: Group, diary: Diary) -> None:
    group = await system.start_group(troupe(diary, "a", "b", "c"), strategy="one_for_one")
    diary.clear()

    await crash_and_settle(group["b"])

    assert diary == ["b stops, Crashed", "b is gone", "b starts", "b is up"]


async def test_one_for_all_stops_in_reverse_and_starts_in_order(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group(troupe(diary, "a", "b", "c"), strategy="one_for_all")
    diary.clear()

    await crash_and_settle(group["b"])

    assert only(diary, "is gone", "starts") == [
        *("b is gone", "c is gone", "a is gone"),
        *("a starts", "b starts", "c starts"),
    ]


async def test_rest_for_one_restarts_the_one_that_crashed_and_those_after_it(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group(troupe(diary, "a", "b", "c"), strategy="rest_for_one")
    diary.clear()

    await crash_and_settle(group["b"])

    assert only(diary, "is gone", "starts") == [
        *("b is gone", "c is gone"),
        *("b starts", "c starts"),
    ]


async def test_each_child_is_up_before_the_next_one_starts(system: Group, diary: Diary) -> None:
    slow = [ChildSpec(name, player(diary, on_start=work(1))) for name in "abc"]

    await system.start_group(slow)

    assert diary == ["a starts", "a is up", "b starts", "b is up", "c starts", "c is up"]


async def test_a_bystander_of_a_group_restart_keeps_its_mailbox(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group(
        troupe(diary, "a", "b"), strategy="one_for_all", backoff_seconds=10.0
    )
    await crash_and_settle(group["a"])

    group["b"].tell("kept")
    await trio.sleep(20)

    assert only(diary, "kept") == ["b kept"]


async def test_a_bystander_finishes_its_message_in_hand_before_it_is_restarted(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group(troupe(diary, "a", "b"), strategy="one_for_all")
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            assert await group["b"].ask(Do(work(2))) == "done"

        nursery.start_soon(ask)
        await settle()
        group["a"].tell(crash)

    await settle()
    assert group.statistics().running == 2


async def test_temporary_bystanders_of_a_group_restart_stay_gone(
    system: Group, diary: Diary
) -> None:
    passer_by = ChildSpec("t", player(diary), restart="temporary")
    group = await system.start_group(
        [*troupe(diary, "a"), passer_by, *troupe(diary, "b")], strategy="one_for_all"
    )

    await crash_and_settle(group["a"])

    assert only(diary, "starts")[3:] == ["a starts", "b starts"]
    assert await group["t"].wait_stopped() == Stopped()


async def test_a_child_that_ended_by_itself_is_not_revived_by_a_group_restart(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group(troupe(diary, "a", "b"), strategy="one_for_all")
    group["b"].tell(finish)
    await settle()

    await crash_and_settle(group["a"])

    assert only(diary, "starts") == ["a starts", "b starts", "a starts"]


async def test_a_group_restart_that_fails_half_way_stops_what_it_restarted_before_trying_again(
    system: Group, diary: Diary
) -> None:
    moody = in_turn(player(diary), player(diary, on_start=crash), player(diary))
    group = await system.start_group(
        [*troupe(diary, "a"), ChildSpec("b", moody), *troupe(diary, "c")], strategy="one_for_all"
    )
    diary.clear()

    await crash_and_settle(group["a"])

    assert only(diary, "is gone", "starts") == [
        *("a is gone", "c is gone", "b is gone"),
        *("a starts", "b starts", "a is gone"),
        *("a starts", "b starts", "c starts"),
    ]


async def test_a_second_crash_during_a_group_restart_is_not_lost(
    system: Group, diary: Diary
) -> None:
    slow = ChildSpec("b", in_turn(player(diary), player(diary, on_start=work(1))))
    group = await system.start_group([*troupe(diary, "a"), slow], strategy="one_for_all")
    group["a"].tell(crash)
    await settle()

    group["a"].tell(crash)  # while b is still starting
    await trio.sleep(5)

    assert group.statistics().running == 2
    assert group["a"].statistics().restarts == 2


async def test_children_that_join_later_take_part_in_a_group_restart(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group(troupe(diary, "a"), strategy="one_for_all")
    await group.start(player(diary), name="late")

    await crash_and_settle(group["a"])

    assert only(diary, "starts") == ["a starts", "late starts", "a starts", "late starts"]


async def test_a_child_whose_first_start_is_under_way_is_spared_by_a_group_restart(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group(troupe(diary, "a"), strategy="one_for_all")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: group.start(player(diary, on_start=work(1)), name="late"))
        await settle()
        await crash_and_settle(group["a"])

    assert only(diary, "is up") == ["a is up", "a is up", "late is up"]


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_a_bystander_comes_back_though_the_one_that_crashed_is_stopped_meanwhile(
    system: Group, diary: Diary, strategy: str
) -> None:
    children = troupe(diary, "a", "b")
    group = await system.start_group(children, strategy=strategy)  # type: ignore[arg-type]
    group["b"].tell(work(2))
    await settle()
    await crash_and_settle(group["a"])  # b is told to halt, and has two seconds of work in hand

    await group["a"].stop()
    await trio.sleep(5)

    assert await group["b"].ask(Say("back")) == "back"
    assert group.statistics().running == 1


async def test_a_bystander_comes_back_though_the_one_that_crashed_is_stopped_in_back_off(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group(
        troupe(diary, "a", "b"), strategy="one_for_all", backoff_seconds=2.0
    )
    await crash_and_settle(group["a"])

    await group["a"].stop()
    await trio.sleep(5)

    assert group["b"].statistics().state == "running"


async def test_a_bystander_that_ignores_its_halt_is_cancelled_after_its_time(
    system: Group, diary: Diary
) -> None:
    stubborn = ChildSpec("b", player(diary), shutdown_seconds=2.0)
    group = await system.start_group([*troupe(diary, "a"), stubborn], strategy="one_for_all")
    group["b"].tell(hang)
    await crash_and_settle(group["a"])

    await trio.sleep(2)
    await settle()

    assert only(diary, "starts")[2:] == ["a starts", "b starts"]


# Independence ----------------------------------------------------------------------------


async def test_one_childs_crash_never_cancels_a_sibling(system: Group) -> None:
    one, two = await system.start(Player), await system.start(Player)
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            assert await two.ask(Do(work(1))) == "done"

        nursery.start_soon(ask)
        await settle()
        one.tell(crash)


async def test_a_crash_changes_no_field_of_a_sibling(system: Group) -> None:
    one, two = await system.start(Player), await system.start(Player)
    two.tell(hang)
    await settle()
    two.tell("waits")
    before = two.statistics()

    await crash_and_settle(one)

    assert two.statistics() == before


async def test_counters_are_right_while_children_restart(system: Group, diary: Diary) -> None:
    group = await system.start_group(troupe(diary, "a", "b", "c"), backoff_seconds=10.0)
    await crash_and_settle(group["b"])
    during = group.statistics()
    await trio.sleep(20)
    after = group.statistics()

    assert (during.children, during.running, during.restarting, during.restarts) == (3, 2, 1, 0)
    assert (after.children, after.running, after.restarting, after.restarts) == (3, 3, 0, 1)


async def test_ten_thousand_children_come_and_go(system: Group) -> None:
    base = trio.lowlevel.current_statistics().tasks_living
    group = await system.start_group([], stop_order="together")
    refs = [await group.start(Player) for _ in range(10_000)]
    assert group.statistics().running == 10_000

    for ref in refs[:5000]:
        ref.tell(finish)
    await settle()
    assert group.statistics().children == 5000
    await group.stop()

    await settle()
    assert trio.lowlevel.current_statistics().tasks_living == base


async def test_a_thousand_crashes_at_once_are_each_seen_to(system: Group) -> None:
    refs = [await system.start(Player) for _ in range(1000)]

    for ref in refs:
        ref.tell(crash)
    await settle()

    assert system.statistics().running == 1000
    assert system.statistics().restarts == 1000
