"""Restart strategies of groups, and the independence of siblings."""

import pytest
import trio

from actors import (
    ChildSpec,
    Ended,
    Group,
    Stopped,
)
from actors.testing import Probe, settle
from tests.support.fake_actors import (
    ActorLog,
    Do,
    FakeActor,
    Say,
    crash,
    crash_and_settle,
    factory_sequence,
    fake_actor,
    fake_actor_specs,
    finish,
    hang,
    lines_with,
    work,
)


async def test_one_for_one_restarts_only_the_crashed_child(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(
        fake_actor_specs(actor_log, "a", "b", "c"), strategy="one_for_one"
    )
    actor_log.clear()

    await crash_and_settle(group["b"])

    assert actor_log == ["b stops, Crashed", "b is gone", "b starts", "b is up"]


async def test_one_for_all_stops_in_reverse_and_starts_in_order(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(
        fake_actor_specs(actor_log, "a", "b", "c"), strategy="one_for_all"
    )
    actor_log.clear()

    await crash_and_settle(group["b"])

    assert lines_with(actor_log, "is gone", "starts") == [
        *("b is gone", "c is gone", "a is gone"),
        *("a starts", "b starts", "c starts"),
    ]


async def test_rest_for_one_restarts_the_crashed_child_and_later_children(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(
        fake_actor_specs(actor_log, "a", "b", "c"), strategy="rest_for_one"
    )
    actor_log.clear()

    await crash_and_settle(group["b"])

    assert lines_with(actor_log, "is gone", "starts") == [
        *("b is gone", "c is gone"),
        *("b starts", "c starts"),
    ]


async def test_each_child_is_up_before_the_next_one_starts(
    system: Group, actor_log: ActorLog
) -> None:
    slow = [ChildSpec(name, fake_actor(actor_log, on_start=work(1))) for name in "abc"]

    await system.start_group(slow)

    assert actor_log == ["a starts", "a is up", "b starts", "b is up", "c starts", "c is up"]


async def test_a_sibling_in_a_group_restart_keeps_its_mailbox(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(
        fake_actor_specs(actor_log, "a", "b"), strategy="one_for_all", backoff_seconds=10.0
    )
    await crash_and_settle(group["a"])

    group["b"].tell("kept")
    await trio.sleep(20)

    assert lines_with(actor_log, "kept") == ["b kept"]


async def test_a_sibling_finishes_its_message_before_it_is_restarted(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a", "b"), strategy="one_for_all")
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            assert await group["b"].ask(Do(work(2))) == "done"

        nursery.start_soon(ask)
        await settle()
        group["a"].tell(crash)

    await settle()
    assert group.statistics().running == 2


async def test_temporary_siblings_of_a_group_restart_stay_ended(
    system: Group, actor_log: ActorLog
) -> None:
    passer_by = ChildSpec("t", fake_actor(actor_log), restart="temporary")
    group = await system.start_group(
        [*fake_actor_specs(actor_log, "a"), passer_by, *fake_actor_specs(actor_log, "b")],
        strategy="one_for_all",
    )

    await crash_and_settle(group["a"])

    assert lines_with(actor_log, "starts")[3:] == ["a starts", "b starts"]
    assert await group["t"].wait_stopped() == Stopped()


async def test_a_finished_child_is_not_started_by_a_group_restart(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a", "b"), strategy="one_for_all")
    group["b"].tell(finish)
    await settle()

    await crash_and_settle(group["a"])

    assert lines_with(actor_log, "starts") == ["a starts", "b starts", "a starts"]


async def test_a_failed_group_restart_halts_started_children_before_a_retry(
    system: Group, actor_log: ActorLog
) -> None:
    moody = factory_sequence(
        fake_actor(actor_log), fake_actor(actor_log, on_start=crash), fake_actor(actor_log)
    )
    group = await system.start_group(
        [
            *fake_actor_specs(actor_log, "a"),
            ChildSpec("b", moody),
            *fake_actor_specs(actor_log, "c"),
        ],
        strategy="one_for_all",
    )
    actor_log.clear()

    await crash_and_settle(group["a"])

    assert lines_with(actor_log, "is gone", "starts") == [
        *("a is gone", "c is gone", "b is gone"),
        *("a starts", "b starts", "a is gone"),
        *("a starts", "b starts", "c starts"),
    ]


async def test_a_second_crash_during_a_group_restart_is_not_lost(
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

    group["a"].tell(crash)  # while b is still starting
    await trio.sleep(5)

    assert group.statistics().running == 2
    assert group["a"].statistics().restarts == 2


async def test_children_that_join_later_take_part_in_a_group_restart(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a"), strategy="one_for_all")
    await group.start(fake_actor(actor_log), name="late")

    await crash_and_settle(group["a"])

    assert lines_with(actor_log, "starts") == ["a starts", "late starts", "a starts", "late starts"]


async def test_a_group_restart_spares_a_child_in_its_first_start(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a"), strategy="one_for_all")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: group.start(fake_actor(actor_log, on_start=work(1)), name="late")
        )
        await settle()
        await crash_and_settle(group["a"])

    assert lines_with(actor_log, "is up") == ["a is up", "a is up", "late is up"]


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_a_sibling_restarts_though_the_crashed_child_is_stopped(
    system: Group, actor_log: ActorLog, strategy: str
) -> None:
    children = fake_actor_specs(actor_log, "a", "b")
    group = await system.start_group(children, strategy=strategy)  # type: ignore[arg-type]
    group["b"].tell(work(2))
    await settle()
    await crash_and_settle(group["a"])  # b is told to halt, and has two seconds of work in hand

    await group["a"].stop()
    await trio.sleep(5)

    assert await group["b"].ask(Say("back")) == "back"
    assert group.statistics().running == 1


async def test_a_sibling_restarts_though_the_crashed_child_is_stopped_in_back_off(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(
        fake_actor_specs(actor_log, "a", "b"), strategy="one_for_all", backoff_seconds=2.0
    )
    await crash_and_settle(group["a"])

    await group["a"].stop()
    await trio.sleep(5)

    assert group["b"].statistics().state == "running"


async def test_a_sibling_that_ignores_its_halt_is_cancelled(
    system: Group, actor_log: ActorLog
) -> None:
    stubborn = ChildSpec("b", fake_actor(actor_log), shutdown_seconds=2.0)
    group = await system.start_group(
        [*fake_actor_specs(actor_log, "a"), stubborn], strategy="one_for_all"
    )
    group["b"].tell(hang)
    await crash_and_settle(group["a"])

    await trio.sleep(2)
    await settle()

    assert lines_with(actor_log, "starts")[2:] == ["a starts", "b starts"]


async def test_one_childs_crash_never_cancels_a_sibling(system: Group) -> None:
    one, two = await system.start(FakeActor), await system.start(FakeActor)
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            assert await two.ask(Do(work(1))) == "done"

        nursery.start_soon(ask)
        await settle()
        one.tell(crash)


async def test_a_crash_changes_no_field_of_a_sibling(system: Group) -> None:
    one, two = await system.start(FakeActor), await system.start(FakeActor)
    two.tell(hang)
    await settle()
    two.tell("waits")
    before = two.statistics()

    await crash_and_settle(one)

    assert two.statistics() == before


async def test_counters_are_right_while_children_restart(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(
        fake_actor_specs(actor_log, "a", "b", "c"), backoff_seconds=10.0
    )
    await crash_and_settle(group["b"])
    during = group.statistics()
    await trio.sleep(20)
    after = group.statistics()

    assert (during.children, during.running, during.restarting, during.restarts) == (3, 2, 1, 0)
    assert (after.children, after.running, after.restarting, after.restarts) == (3, 3, 0, 1)


async def test_ten_thousand_children_come_and_go(system: Group) -> None:
    base = trio.lowlevel.current_statistics().tasks_living
    group = await system.start_group([], stop_order="together")
    refs = [await group.start(FakeActor) for _ in range(10_000)]
    assert group.statistics().running == 10_000

    for ref in refs[:5000]:
        ref.tell(finish)
    await settle()
    assert group.statistics().children == 5000
    await group.stop()

    await settle()
    assert trio.lowlevel.current_statistics().tasks_living == base


async def test_a_thousand_crashes_at_once_are_all_handled(system: Group) -> None:
    refs = [await system.start(FakeActor) for _ in range(1000)]

    for ref in refs:
        ref.tell(crash)
    await settle()

    assert system.statistics().running == 1000
    assert system.statistics().restarts == 1000


async def test_a_temporary_sibling_ends_though_the_crashed_child_is_stopped(
    system: Group, actor_log: ActorLog
) -> None:
    once = ChildSpec("t", fake_actor(actor_log, on_stop=work(1)), restart="temporary")
    group = await system.start_group(
        [*fake_actor_specs(actor_log, "a"), once], strategy="one_for_all"
    )
    probe = await Probe.start(system)
    probe.ref.watch(group["t"])
    group["a"].tell(crash)
    await settle()

    await group["a"].stop()

    assert (await probe.until(Ended)).reason == Stopped()


async def test_many_children_in_back_off_stop_in_linear_time(
    system: Group, actor_log: ActorLog
) -> None:
    group = await system.start_group(
        fake_actor_specs(actor_log, *map(str, range(200))), backoff_seconds=10.0, max_restarts=1000
    )
    for name in group:
        group[name].tell(crash)
    await settle()
    assert group.statistics().restarting == 200

    await group.stop()

    assert trio.current_time() == 0
    assert len(lines_with(actor_log, "starts")) == 200
