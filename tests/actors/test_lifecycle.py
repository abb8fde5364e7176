"""Crashes, cancellations and ends of an actor at every moment of its lifecycle."""

import pytest
import trio

from actors import (
    Actor,
    ActorStopped,
    Crashed,
    Finished,
    Group,
    Killed,
    NameTaken,
    Stopped,
)
from actors.testing import settle
from tests.support.fake_actors import (
    Action,
    ActorLog,
    Do,
    FakeActor,
    IntendedCrash,
    Say,
    assert_nothing_is_left,
    crash,
    factory_sequence,
    fake_actor,
    finish,
    hang,
    ignore_cancelling,
    lines_with,
    work,
)

# Start -----------------------------------------------------------------------------------


async def test_start_returns_when_on_start_is_done(system: Group, actor_log: ActorLog) -> None:
    await system.start(fake_actor(actor_log, on_start=work(3)), name="a")

    assert actor_log == ["a starts", "a is up"]
    assert trio.current_time() == 3.0


async def test_a_crash_in_on_start_is_raised_and_leaves_no_child(
    system: Group, actor_log: ActorLog
) -> None:
    with pytest.raises(IntendedCrash):
        await system.start(fake_actor(actor_log, on_start=crash), name="a", restart="permanent")

    await settle()
    assert_nothing_is_left(system)
    assert actor_log == ["a starts"]


async def test_stop_actor_in_on_start_is_reported_and_leaves_nothing(
    system: Group, actor_log: ActorLog
) -> None:
    with pytest.raises(ActorStopped, match="before it was up"):
        await system.start(fake_actor(actor_log, on_start=finish), name="a")

    assert_nothing_is_left(system)
    assert actor_log == ["a starts"]


async def test_a_cancelled_start_cancels_on_start_and_leaves_nothing(
    system: Group, actor_log: ActorLog
) -> None:
    with trio.move_on_after(1) as scope:
        await system.start(fake_actor(actor_log, on_start=hang), name="a")

    assert scope.cancelled_caught
    assert_nothing_is_left(system)
    assert actor_log == ["a starts"]


async def test_a_cancelled_start_waits_for_the_end_of_a_slow_on_start(
    system: Group, actor_log: ActorLog
) -> None:
    with trio.move_on_after(1):
        await system.start(fake_actor(actor_log, on_start=ignore_cancelling), name="a")

    assert trio.current_time() == 2.0
    assert_nothing_is_left(system)
    assert actor_log == ["a starts", "a is up", "a stops, Killed"]


async def test_a_crash_in_the_constructor_is_raised_to_the_starter(system: Group) -> None:
    def make() -> FakeActor:
        raise IntendedCrash

    with pytest.raises(IntendedCrash):
        await system.start(make)

    assert_nothing_is_left(system)


async def test_a_name_is_free_again_after_a_failed_start(system: Group) -> None:
    with pytest.raises(IntendedCrash):
        await system.start(fake_actor(on_start=crash), name="a")

    ref = await system.start(FakeActor, name="a")

    assert await ref.ask(Say("hello")) == "hello"


async def test_a_name_is_taken_from_the_moment_a_start_begins(system: Group) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: system.start(fake_actor(on_start=work(1)), name="a"))
        await settle()

        with pytest.raises(NameTaken, match="'a'"):
            await system.start(FakeActor, name="a")


async def test_messages_to_an_actor_that_is_starting_wait_until_it_is_up(
    system: Group, actor_log: ActorLog
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: system.start(fake_actor(actor_log, on_start=work(1)), name="a"))
        await settle()

        system["a"].tell("early")

    await settle()
    assert actor_log == ["a starts", "a is up", "a early"]


async def test_messages_to_an_actor_that_fails_to_start_fail_with_actor_stopped(
    system: Group,
) -> None:
    async def crash_late() -> None:
        await trio.sleep(1)
        raise IntendedCrash

    async def start_in_vain() -> None:
        with pytest.raises(IntendedCrash):
            await system.start(fake_actor(on_start=crash_late), name="a")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(start_in_vain)
        await settle()

        with pytest.raises(ActorStopped):
            await system["a"].ask(Say("hello"))


async def test_a_stop_during_start_lets_on_start_finish_within_its_time(
    system: Group, actor_log: ActorLog
) -> None:
    async def start_in_vain() -> None:
        with pytest.raises(ActorStopped):
            await system.start(fake_actor(actor_log, on_start=work(1)), name="a")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(start_in_vain)
        await settle()
        await system["a"].stop()

    assert actor_log == ["a starts", "a is up", "a stops, Stopped", "a is gone"]
    assert_nothing_is_left(system)


async def test_a_stop_during_a_start_that_hangs_cancels_it_after_its_time(
    system: Group, actor_log: ActorLog
) -> None:
    async def start_in_vain() -> None:
        with pytest.raises(ActorStopped):
            await system.start(fake_actor(actor_log, on_start=hang), name="a", shutdown_seconds=2.0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(start_in_vain)
        await settle()
        await system["a"].stop()

    assert trio.current_time() == 2.0
    assert actor_log == ["a starts"]


async def test_an_actor_may_stop_itself_while_it_starts(system: Group) -> None:
    async def stop_myself() -> None:
        system["a"].stop_nowait()

    with pytest.raises(ActorStopped):
        await system.start(fake_actor(on_start=stop_myself), name="a")

    assert_nothing_is_left(system)


# Receive ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("action", "reason"), [(crash, "Crashed"), (finish, "Finished")])
async def test_on_stop_gets_the_exit_of_receive(
    system: Group, actor_log: ActorLog, action: Action, reason: str
) -> None:
    ref = await system.start(fake_actor(actor_log), name="a", restart="temporary")

    ref.tell(action)
    await ref.wait_stopped()

    assert actor_log[2:] == [f"a stops, {reason}", "a is gone"]


async def test_on_stop_is_called_exactly_once_for_every_on_start_that_succeeded(
    system: Group, actor_log: ActorLog
) -> None:
    ref = await system.start(fake_actor(actor_log), name="a")

    ref.tell(crash)
    ref.tell(crash)
    await settle()
    await ref.stop()

    assert len(lines_with(actor_log, "is up")) == len(lines_with(actor_log, "is gone")) == 3


async def test_a_receive_that_is_cancelled_gets_on_stop_with_killed(
    system: Group, actor_log: ActorLog
) -> None:
    ref = await system.start(fake_actor(actor_log), name="a", shutdown_seconds=1.0)
    ref.tell(hang)
    await settle()

    await ref.stop()

    assert actor_log[2:] == ["a stops, Killed"]
    assert await ref.wait_stopped() == Killed()


async def test_a_crash_fails_the_message_in_hand_and_keeps_the_rest(
    system: Group, actor_log: ActorLog
) -> None:
    ref = await system.start(fake_actor(actor_log), name="a")
    ref.tell(work(1))
    async with trio.open_nursery() as nursery:

        async def ask_for_trouble() -> None:
            with pytest.raises(IntendedCrash):
                await ref.ask(Do(crash))

        nursery.start_soon(ask_for_trouble)
        await settle()
        ref.tell("kept")

    await settle()
    assert lines_with(actor_log, "kept") == ["a kept"]


async def test_every_incarnation_is_a_new_instance_with_the_same_ref(system: Group) -> None:
    made: list[FakeActor] = []

    def make() -> FakeActor:
        made.append(FakeActor())
        return made[-1]

    ref = await system.start(make)
    ref.tell(crash)
    await settle()

    assert made[0] is not made[1]
    assert made[0].ref is made[1].ref is ref


async def test_an_actor_without_receive_fails_an_ask(system: Group) -> None:

    ref = await system.start(Actor)

    with pytest.raises(NotImplementedError, match="no receive"):
        await ref.ask(Say("hello"))


async def test_errors_of_a_nursery_inside_receive_are_a_crash_like_any_other(
    system: Group,
) -> None:
    async def crash_in_a_nursery() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(crash)

    ref = await system.start(FakeActor, restart="temporary")
    ref.tell(crash_in_a_nursery)

    assert isinstance(exit_ := await ref.wait_stopped(), Crashed)
    assert isinstance(exit_.error, ExceptionGroup)


async def test_a_kill_that_meets_a_nursery_inside_receive_is_still_a_kill(system: Group) -> None:
    async def hang_in_a_nursery() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hang)

    ref = await system.start(FakeActor, shutdown_seconds=1.0)
    ref.tell(hang_in_a_nursery)
    await settle()
    await ref.stop()

    assert await ref.wait_stopped() == Killed()


# Stop ------------------------------------------------------------------------------------


async def test_a_crash_in_on_stop_is_the_logged_exit_reason(
    system: Group, caplog: pytest.LogCaptureFixture
) -> None:
    ref = await system.start(fake_actor(on_stop=crash), name="a", restart="permanent")

    await ref.stop()

    assert isinstance(await ref.wait_stopped(), Crashed)
    assert "a failed in on_stop" in caplog.text
    assert_nothing_is_left(system)


async def test_a_crash_in_on_stop_does_not_hide_an_earlier_crash(system: Group) -> None:
    async def crash_too() -> None:
        raise ZeroDivisionError

    ref = await system.start(fake_actor(on_stop=crash_too), restart="temporary")
    ref.tell(crash)

    assert isinstance(exit_ := await ref.wait_stopped(), Crashed)
    assert isinstance(exit_.error, IntendedCrash)


async def test_a_crash_in_on_stop_after_a_normal_end_is_a_crash(
    system: Group, actor_log: ActorLog
) -> None:
    makers = (fake_actor(actor_log, on_stop=crash), fake_actor(actor_log))
    ref = await system.start(factory_sequence(*makers), name="a", restart="transient")

    ref.tell(finish)
    await settle()

    assert ref.statistics().restarts == 1


async def test_stop_actor_in_on_stop_of_a_stopped_actor_changes_nothing(system: Group) -> None:
    ref = await system.start(fake_actor(on_stop=finish))

    await ref.stop()

    assert await ref.wait_stopped() in (Stopped(), Finished())


async def test_stop_actor_in_on_stop_after_finishing_is_not_a_crash(system: Group) -> None:
    ref = await system.start(fake_actor(on_stop=finish), restart="transient")

    ref.tell(finish)
    await settle()

    assert ref.statistics().restarts == 0


async def test_an_on_stop_that_hangs_is_cancelled_after_its_time(
    system: Group, actor_log: ActorLog
) -> None:
    ref = await system.start(fake_actor(actor_log, on_stop=hang), name="a", shutdown_seconds=2.0)

    await ref.stop()

    assert trio.current_time() == 2.0
    assert await ref.wait_stopped() == Killed()
    assert actor_log[-1] == "a stops, Stopped"


async def test_the_message_in_hand_and_on_stop_share_their_time(system: Group) -> None:
    ref = await system.start(fake_actor(on_stop=hang), shutdown_seconds=3.0)
    ref.tell(work(2))
    await settle()

    await ref.stop()

    assert trio.current_time() == 3.0


async def test_an_on_stop_after_a_crash_has_a_limit_too(system: Group) -> None:
    ref = await system.start(fake_actor(on_stop=hang), restart="temporary", shutdown_seconds=2.0)

    ref.tell(crash)

    assert isinstance(await ref.wait_stopped(), Crashed)
    assert trio.current_time() == 2.0


async def test_on_stop_has_its_time_when_the_actor_is_stopped_at_once(
    system: Group, actor_log: ActorLog
) -> None:
    make = fake_actor(actor_log, on_stop=work(1))
    ref = await system.start(make, name="a", restart="temporary", shutdown_seconds=0)

    ref.tell(finish)

    assert await ref.wait_stopped() == Finished()
    assert actor_log[-1] == "a is gone"


async def test_a_stop_during_on_stop_after_a_crash_means_no_restart(
    system: Group, actor_log: ActorLog
) -> None:
    ref = await system.start(fake_actor(actor_log, on_stop=work(1)), name="a", restart="permanent")
    ref.tell(crash)
    await settle()

    await ref.stop()

    assert trio.current_time() == 1.0
    assert lines_with(actor_log, "starts") == ["a starts"]


async def test_messages_that_come_during_on_stop_after_a_crash_are_kept(
    system: Group, actor_log: ActorLog
) -> None:
    ref = await system.start(
        factory_sequence(fake_actor(actor_log, on_stop=work(1)), fake_actor(actor_log)), name="a"
    )
    ref.tell(crash)
    await settle()

    ref.tell("kept")
    await trio.sleep(2)

    assert lines_with(actor_log, "kept") == ["a kept"]


# Logging and grouped errors --------------------------------------------------------------


async def test_stop_actor_out_of_a_nursery_is_a_normal_end(system: Group) -> None:
    async def finish_in_a_nursery() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(finish)

    ref = await system.start(fake_actor())
    ref.tell(finish_in_a_nursery)

    assert await ref.wait_stopped() == Finished()
