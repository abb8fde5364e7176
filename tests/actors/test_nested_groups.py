"""Groups inside groups: start, restart from above, escalation, stop."""

import pytest
import trio

from actors import (
    ActorStopped,
    ChildSpec,
    Ended,
    GaveUp,
    Group,
    GroupSpec,
    Stopped,
)
from actors.testing import explore, settle
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
    hang,
    lines_with,
    nested,
    run_in_system,
    work,
)


async def test_a_nested_group_starts_in_its_place(system: Group, actor_log: ActorLog) -> None:
    await system.start_group(
        [
            *fake_actor_specs(actor_log, "a"),
            nested(actor_log, "b", "c"),
            *fake_actor_specs(actor_log, "d"),
        ]
    )

    assert lines_with(actor_log, "is up") == ["a is up", "b is up", "c is up", "d is up"]


async def test_a_nested_group_that_fails_to_start_fails_the_whole_start(
    system: Group, actor_log: ActorLog
) -> None:
    bad = GroupSpec(
        [*fake_actor_specs(actor_log, "b"), ChildSpec("c", fake_actor(actor_log, on_start=crash))]
    )

    with pytest.raises(IntendedCrash):
        await system.start_group([*fake_actor_specs(actor_log, "a"), ChildSpec("inner", bad)])

    assert lines_with(actor_log, "is gone") == ["b is gone", "a is gone"]
    assert list(system) == []


async def test_a_nested_group_that_gives_up_is_restarted_from_above(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(
        [*fake_actor_specs(actor_log, "a"), nested(actor_log, "b", "c")]
    )
    actor_log.clear()

    await crash_and_settle(group.group("inner")["b"])

    assert lines_with(actor_log, "is gone", "starts") == [
        *("b is gone", "c is gone"),
        *("b starts", "c starts"),
    ]
    assert group.statistics().restarts == 1


async def test_a_restart_from_above_keeps_refs_and_mailboxes(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group([nested(actor_log, "b", "c")], backoff_seconds=10.0)
    inner = group.group("inner")
    b, c = inner["b"], inner["c"]
    await crash_and_settle(b)

    b.tell("kept")
    c.tell("kept")
    await trio.sleep(20)

    assert lines_with(actor_log, "kept") == ["b kept", "c kept"]
    assert inner is group.group("inner")
    assert (inner["b"], inner["c"]) == (b, c)


async def test_a_restart_from_above_keeps_watches(system: Group, actor_log: ActorLog) -> None:
    news: list[object] = []

    class Watcher(FakeActor):
        async def receive(self, message: object) -> object:
            news.append(message)
            return None

    group = await system.start_group([nested(actor_log, "b")])
    watcher = await system.start(Watcher)
    watcher.watch(group.group("inner")["b"])
    await crash_and_settle(group.group("inner")["b"])
    assert news == []

    await group.stop()
    await settle()

    assert [type(item) for item in news] == [Ended]


async def test_a_restart_from_above_gives_the_group_a_fresh_count(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group([nested(actor_log, "b", max_restarts=1)])
    b = group.group("inner")["b"]

    for _ in range(3):  # one of its own, one from above, another of its own
        await crash_and_settle(b)

    assert await b.ask(Say("hello")) == "hello"
    assert group.statistics().restarts == 1


async def test_a_failure_escalates_through_groups_exactly_once(actor_log: ActorLog) -> None:
    async def play(system: Group) -> None:
        group = await system.start_group([nested(actor_log, "b")], name="outer", max_restarts=0)
        group.group("inner")["b"].tell(crash)
        await trio.sleep_forever()

    with pytest.raises(GaveUp) as failure:
        await run_in_system(play)

    error = failure.value
    assert (error.name, error.culprit) == ("outer", "inner")
    assert isinstance(error.__cause__, GaveUp)
    assert isinstance(error.__cause__.__cause__, IntendedCrash)


async def test_the_actor_that_caused_an_escalation_was_given_up(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group([nested(actor_log, "b")], max_restarts=0)
    b = group.group("inner")["b"]
    b.tell(crash)

    with pytest.raises(GaveUp):
        await group.wait_stopped()
    with pytest.raises(GaveUp):
        await b.wait_stopped()


async def test_restarts_from_above_are_counted_against_the_outer_intensity(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group([nested(actor_log, "b")], max_restarts=2)
    b = group.group("inner")["b"]
    for _ in range(3):
        b.tell(crash)

    with pytest.raises(GaveUp, match="inner gave up after 2 restarts"):
        await group.wait_stopped()

    assert len(lines_with(actor_log, "starts")) == 3


async def test_a_temporary_nested_group_that_gives_up_stays_ended(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(
        [*fake_actor_specs(actor_log, "a"), nested(actor_log, "b", restart="temporary")],
        max_restarts=0,
    )
    await crash_and_settle(group.group("inner")["b"])

    assert group["a"].statistics().state == "running"
    assert group.group("inner").statistics().state == "stopped"


async def test_the_outer_strategy_affects_whole_groups(system: Group, actor_log: ActorLog) -> None:
    group = await system.start_group(
        [*fake_actor_specs(actor_log, "a"), nested(actor_log, "b", "c")], strategy="one_for_all"
    )
    actor_log.clear()

    await crash_and_settle(group["a"])

    assert lines_with(actor_log, "is gone", "starts") == [
        *("a is gone", "c is gone", "b is gone"),
        *("a starts", "b starts", "c starts"),
    ]


async def test_a_nested_group_restarts_though_the_crashed_child_is_stopped(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(
        [*fake_actor_specs(actor_log, "a"), nested(actor_log, "b", "c")], strategy="one_for_all"
    )
    inner = group.group("inner")
    inner["c"].tell(work(2))
    await settle()
    await crash_and_settle(group["a"])

    await group["a"].stop()
    await trio.sleep(5)

    assert inner.statistics().running == 2


async def test_a_failed_restart_of_a_nested_group_stops_its_restarted_members(
    system: Group, actor_log: ActorLog
) -> None:
    moody = factory_sequence(
        fake_actor(actor_log), fake_actor(actor_log, on_start=crash), fake_actor(actor_log)
    )
    spec = GroupSpec([*fake_actor_specs(actor_log, "b"), ChildSpec("c", moody)], max_restarts=0)
    group = await system.start_group([ChildSpec("inner", spec)])
    actor_log.clear()

    await crash_and_settle(group.group("inner")["b"])

    assert lines_with(actor_log, "is gone", "starts") == [
        *("b is gone", "c is gone"),
        *("b starts", "c starts", "b is gone"),
        *("b starts", "c starts"),
    ]


async def test_a_nested_group_can_be_stopped_by_itself(system: Group, actor_log: ActorLog) -> None:
    group = await system.start_group(
        [*fake_actor_specs(actor_log, "a"), nested(actor_log, "b", "c")]
    )

    await group.group("inner").stop()
    await settle()

    assert lines_with(actor_log, "is gone") == ["c is gone", "b is gone"]
    assert group["a"].statistics().state == "running"


async def test_a_nested_group_in_back_off_can_be_stopped_at_once(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group([nested(actor_log, "b")], backoff_seconds=10.0)
    inner = group.group("inner")
    await crash_and_settle(inner["b"])
    assert inner.statistics().state == "restarting"

    await inner.stop()

    assert trio.current_time() == 0
    await trio.sleep(30)
    assert lines_with(actor_log, "starts") == ["b starts"]


async def test_stopping_a_member_during_a_restart_ends_only_that_member(
    system: Group, actor_log: ActorLog
) -> None:
    slow = ChildSpec(
        "c", factory_sequence(fake_actor(actor_log), fake_actor(actor_log, on_start=work(1)))
    )
    spec = GroupSpec([*fake_actor_specs(actor_log, "b"), slow], max_restarts=0)
    group = await system.start_group([ChildSpec("inner", spec)])
    inner = group.group("inner")
    await crash_and_settle(inner["b"])

    await inner["c"].stop()
    await trio.sleep(5)

    assert inner["b"].statistics().state == "running"
    assert inner["c"].statistics().state == "stopped"


async def test_a_stuck_member_delays_a_restart_only_for_its_time(
    system: Group, actor_log: ActorLog
) -> None:
    stuck = ChildSpec("c", fake_actor(actor_log), shutdown_seconds=2.0)
    spec = GroupSpec([*fake_actor_specs(actor_log, "b"), stuck], max_restarts=0)
    group = await system.start_group([ChildSpec("inner", spec)])
    inner = group.group("inner")
    inner["c"].tell(hang)
    await crash_and_settle(inner["b"])

    assert await inner["b"].ask(Say("back")) == "back"
    assert trio.current_time() == 2.0


async def test_a_child_that_finished_stays_finished_after_a_restart_from_above(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group([nested(actor_log, "b", "c")])
    inner = group.group("inner")
    inner["c"].tell(finish)
    await settle()

    await crash_and_settle(inner["b"])

    assert lines_with(actor_log, "starts") == ["b starts", "c starts", "b starts"]


async def test_stopping_a_group_in_back_off_is_not_a_failure(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group([nested(actor_log, "b")], backoff_seconds=10.0)
    inner = group.group("inner")
    b = inner["b"]
    await crash_and_settle(b)

    await inner.stop()

    assert await inner.wait_stopped() == Stopped()
    assert await b.wait_stopped() == Stopped()


async def give_up_below_and_restart_from_above(system: Group) -> None:
    inner = GroupSpec(fake_actor_specs([], "b", "c", "d"), max_restarts=0)
    group = await system.start_group(
        [*fake_actor_specs([], "a"), ChildSpec("inner", inner)], strategy="one_for_all"
    )
    group.group("inner")["b"].tell(crash)
    group["a"].tell(crash)
    await settle()

    assert group["a"].statistics().state == "running"
    assert group.group("inner").statistics().running == 3


def test_a_group_that_gives_up_during_a_restart_restarts_whole() -> None:
    play = give_up_below_and_restart_from_above

    assert explore(run_in_system, play, seeds=range(150), policy="pct", early_timeouts=True) == []


async def test_a_group_that_was_never_up_starts_no_child(
    system: Group, actor_log: ActorLog
) -> None:
    slow = ChildSpec("x", fake_actor(actor_log, on_start=work(2)))
    async with trio.open_nursery() as nursery:

        async def begin() -> None:
            await system.start_group([slow, ChildSpec("g", GroupSpec([]))], name="o")

        nursery.start_soon(begin)
        await settle()

        with pytest.raises(ActorStopped, match="not running"):
            await system.group("o").group("g").start(fake_actor(actor_log))


async def stop_a_permanent_group_that_is_being_restarted(system: Group) -> None:
    slow_again = factory_sequence(fake_actor(), fake_actor(on_start=work(1)))
    spec = GroupSpec([ChildSpec("a", fake_actor()), ChildSpec("b", slow_again)], max_restarts=0)
    outer = await system.start_group(
        [ChildSpec("side", fake_actor()), ChildSpec("g", spec, restart="permanent")], max_restarts=1
    )
    outer.group("g")["a"].tell(crash)
    await settle()

    await outer.group("g").stop()
    await settle()

    assert outer["side"].statistics().state == "running"
    assert outer.statistics().state == "running"


def test_stopping_a_permanent_group_during_its_restart_is_not_a_crash() -> None:
    play = stop_a_permanent_group_that_is_being_restarted

    assert explore(run_in_system, play, seeds=range(100), early_timeouts=True) == []


async def test_a_group_that_is_being_halted_starts_no_child(
    system: Group, actor_log: ActorLog
) -> None:
    slow = ChildSpec("b", fake_actor(actor_log, on_stop=work(1)))
    group = await system.start_group(
        [*fake_actor_specs(actor_log, "a"), ChildSpec("inner", GroupSpec([slow]))],
        strategy="one_for_all",
    )
    group["a"].tell(crash)
    await settle()

    with pytest.raises(ActorStopped, match="not running"):
        await group.group("inner").start(fake_actor(actor_log))


async def test_a_stop_of_a_restarting_group_is_not_a_failure(
    system: Group,
) -> None:
    inner = GroupSpec([ChildSpec("x", fake_actor())], max_restarts=0)
    middle = GroupSpec([ChildSpec("inner", inner)], max_restarts=0)
    outer = await system.start_group([ChildSpec("middle", middle)], backoff_seconds=60.0)
    fallen = outer.group("middle").group("inner")
    fallen["x"].tell(crash)
    await settle()
    assert outer.group("middle").statistics().state == "restarting"

    await fallen.stop()

    assert await fallen.wait_stopped() == Stopped()
