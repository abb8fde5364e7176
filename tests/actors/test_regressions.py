"""Bugs that were met once, each by the shortest way to it."""

import threading
from functools import partial
from typing import Any

import pytest
import trio
from attrs import frozen

from actors import (
    Actor,
    ActorStopped,
    Ask,
    AskSelf,
    BadSpec,
    ChildSpec,
    Ended,
    Finished,
    GaveUp,
    Group,
    GroupSpec,
    RestartPolicy,
    Stopped,
    UnknownActor,
    open_actors,
)
from actors.testing import Probe, explore, settle, simulate
from tests.actors.cast import Diary, crash, finish, in_turn, only, perform, player, troupe, work

CHILD_FIELDS = ("shutdown_seconds",)


@frozen
class Number(Ask[int]):
    pass


async def test_nobody_starts_anything_in_a_group_that_was_never_up(
    system: Group, diary: Diary
) -> None:
    slow = ChildSpec("x", player(diary, on_start=work(2)))
    async with trio.open_nursery() as nursery:

        async def begin() -> None:
            await system.start_group([slow, ChildSpec("g", GroupSpec([]))], name="o")

        nursery.start_soon(begin)
        await settle()

        with pytest.raises(ActorStopped, match="not up"):
            await system.group("o").group("g").start(player(diary))


async def stop_a_permanent_group_that_is_being_restarted(system: Group) -> None:
    slow_again = in_turn(player(), player(on_start=work(1)))
    spec = GroupSpec([ChildSpec("a", player()), ChildSpec("b", slow_again)], max_restarts=0)
    outer = await system.start_group(
        [ChildSpec("side", player()), ChildSpec("g", spec, restart="permanent")], max_restarts=1
    )
    outer.group("g")["a"].tell(crash)
    await settle()

    await outer.group("g").stop()
    await settle()

    assert outer["side"].statistics().state == "running"
    assert outer.statistics().state == "running"


def test_a_stop_of_a_permanent_group_that_is_being_restarted_is_not_a_crash() -> None:
    play = stop_a_permanent_group_that_is_being_restarted

    assert explore(perform, play, seeds=range(100)) == []


async def test_a_temporary_bystander_is_over_though_the_one_that_crashed_is_stopped_meanwhile(
    system: Group, diary: Diary
) -> None:
    once = ChildSpec("t", player(diary, on_stop=work(1)), restart="temporary")
    group = await system.start_group([*troupe(diary, "a"), once], strategy="one_for_all")
    probe = await Probe.start(system)
    probe.ref.watch(group["t"])
    group["a"].tell(crash)
    await settle()

    await group["a"].stop()

    assert (await probe.until(Ended)).reason == Stopped()


async def a_waiter_takes_it_over(system: Group) -> None:
    ref = await system.start(player(), restart=RestartPolicy(max_restarts=0))

    async def wait() -> None:
        with pytest.raises(GaveUp):
            await ref.wait_stopped()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await settle()
        ref.tell(crash)
    await settle()


@pytest.mark.parametrize("policy", ["shuffle", "walk", "pct"])
def test_a_failure_told_to_a_waiter_never_leaves_as_well(policy: str) -> None:
    failing = explore(perform, a_waiter_takes_it_over, seeds=range(100), policy=policy)  # type: ignore[arg-type]

    assert failing == []


@pytest.mark.parametrize(
    "field", ["within_seconds", "backoff_seconds", "max_backoff_seconds", "shutdown_seconds"]
)
def test_a_number_beyond_all_clocks_is_refused_naming_the_field(field: str) -> None:
    huge: dict[str, Any] = {field: 10**400}
    make: Any = partial(ChildSpec, "a", Actor) if field in CHILD_FIELDS else RestartPolicy

    with pytest.raises(BadSpec) as refusal:
        make(**huge)

    assert refusal.value.field == field


async def test_a_time_out_beyond_all_clocks_is_refused_before_anything_is_sent(
    system: Group,
) -> None:
    ref = await system.start(player())

    with pytest.raises(BadSpec, match="timeout_seconds"):
        await ref.ask(Number(), timeout_seconds=10**400)

    assert ref.statistics().waiting == 0


async def test_each_message_goes_to_one_of_those_who_wait_at_a_probe(system: Group) -> None:
    probe = await Probe.start(system)
    got: list[object] = []

    async def wait() -> None:
        got.append(await probe.next())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await settle()
        probe.ref.tell(1)
        await settle()
        probe.ref.tell(2)

    assert sorted(got, key=str) == [1, 2]


async def test_a_message_from_a_foreign_thread_is_refused_and_not_taken(system: Group) -> None:
    ref = await system.start(player())
    await settle()
    raised: list[Exception] = []

    def tell() -> None:
        try:
            ref.tell("from afar")
        except RuntimeError as error:
            raised.append(error)

    thread = threading.Thread(target=tell)
    thread.start()
    thread.join()

    assert len(raised) == 1
    assert ref.statistics().waiting == 0
    ref.tell("from here")
    await settle()
    assert ref.statistics().handled == 1


async def test_asking_oneself_from_a_task_of_ones_own_is_an_error_at_once(system: Group) -> None:
    class Selfish(Actor):
        async def receive(self, _message: object) -> int:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.ref.ask, Number())
            return 1

    ref = await system.start(Selfish, restart="temporary")

    with pytest.raises(ExceptionGroup) as failure:
        await ref.ask(Number())
    assert failure.group_contains(AskSelf)
    assert trio.current_time() == 0


async def test_what_is_no_handle_is_refused_with_a_typed_error(system: Group) -> None:
    ref = await system.start(player())

    with pytest.raises(BadSpec, match="cannot be watched"):
        ref.watch(None)  # type: ignore[arg-type]
    with pytest.raises(UnknownActor):
        system[[]]  # type: ignore[index]


def test_a_simulation_without_a_bound_on_its_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="max_steps"):
        simulate(trio.sleep, 1, max_steps=None)  # type: ignore[arg-type]


async def test_many_children_in_back_off_stop_without_looking_at_each_other(
    system: Group, diary: Diary
) -> None:
    group = await system.start_group(
        troupe(diary, *map(str, range(200))), backoff_seconds=10.0, max_restarts=1000
    )
    for name in group:
        group[name].tell(crash)
    await settle()
    assert group.statistics().restarting == 200

    await group.stop()

    assert trio.current_time() == 0
    assert len(only(diary, "starts")) == 200


async def test_nobody_starts_anything_in_a_group_that_is_being_halted(
    system: Group, diary: Diary
) -> None:
    slow = ChildSpec("b", player(diary, on_stop=work(1)))
    group = await system.start_group(
        [*troupe(diary, "a"), ChildSpec("inner", GroupSpec([slow]))], strategy="one_for_all"
    )
    group["a"].tell(crash)
    await settle()

    with pytest.raises(ActorStopped, match="not up"):
        await group.group("inner").start(player(diary))


async def test_open_actors_can_be_cancelled_before_it_begins() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        async with open_actors():
            pytest.fail("it began")

    assert scope.cancelled_caught


async def open_and_be_cancelled_anywhere() -> None:
    with trio.move_on_after(1.0):
        async with open_actors() as system:
            await system.start_group([ChildSpec("a", player(on_start=work(1)))])
            await trio.sleep(2.0)


def test_open_actors_can_be_cancelled_anywhere() -> None:
    assert explore(open_and_be_cancelled_anywhere, seeds=range(300)) == []


@pytest.mark.parametrize("depth", [0, 1, 2])
async def test_who_waits_for_the_one_at_the_bottom_has_taken_the_failure_over(
    system: Group, depth: int
) -> None:
    spec = GroupSpec([ChildSpec("x", player())], max_restarts=0)
    for _ in range(depth):
        spec = GroupSpec([ChildSpec("g", spec)], max_restarts=0)
    group = await system.start_group(spec.children, max_restarts=0)
    for _ in range(depth):
        group = group.group("g")
    group["x"].tell(crash)

    with pytest.raises(GaveUp):
        await group["x"].wait_stopped()
    await settle()


async def test_a_crash_in_a_start_that_was_called_off_is_logged(
    system: Group, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("in the clean-up")

    with trio.move_on_after(1.0):
        await system.start(player(on_start=fail_when_cancelled))

    assert "in the clean-up" in caplog.text


async def test_the_blocks_own_error_is_kept_when_worse_follows() -> None:
    async def exit_all() -> None:
        raise SystemExit

    async def play(system: Group) -> None:
        await system.start(player(on_stop=exit_all))
        raise ValueError("the first error")

    with pytest.raises(BaseExceptionGroup) as failure:
        await perform(play)

    context: BaseException | None = failure.value
    chain = []
    while context is not None:
        chain.append(repr(context))
        context = context.__context__
    assert "the first error" in " ".join(chain)


async def test_stop_actor_out_of_a_nursery_is_a_normal_end(system: Group) -> None:
    async def finish_in_a_nursery() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(finish)

    ref = await system.start(player())
    ref.tell(finish_in_a_nursery)

    assert await ref.wait_stopped() == Finished()


async def test_a_stop_of_a_group_that_fell_first_and_will_be_back_is_not_a_failure(
    system: Group,
) -> None:
    inner = GroupSpec([ChildSpec("x", player())], max_restarts=0)
    middle = GroupSpec([ChildSpec("inner", inner)], max_restarts=0)
    outer = await system.start_group([ChildSpec("middle", middle)], backoff_seconds=60.0)
    fallen = outer.group("middle").group("inner")
    fallen["x"].tell(crash)
    await settle()
    assert outer.group("middle").statistics().state == "restarting"

    await fallen.stop()

    assert await fallen.wait_stopped() == Stopped()
