import threading

import pytest
import trio

from actors import (
    ActorStopped,
    AskSelf,
    Crashed,
    Exit,
    Finished,
    GaveUp,
    Group,
    Killed,
    MailboxFull,
    Ref,
    RestartPolicy,
    Statistics,
    Stopped,
    UnknownActor,
)
from actors.testing import settle
from tests.support.fake_actors import (
    ActorLog,
    Do,
    FakeActor,
    IntendedCrash,
    Say,
    crash,
    fake_actor,
    finish,
    hang,
    lines_with,
    work,
)


@pytest.fixture
async def ref(system: Group, actor_log: ActorLog) -> Ref:
    return await system.start(fake_actor(actor_log), name="a", shutdown_seconds=1.0, capacity=10)


# Telling ---------------------------------------------------------------------------------


async def test_told_messages_arrive_in_order(ref: Ref, actor_log: ActorLog) -> None:
    for message in ("one", "two", "three"):
        ref.tell(message)
    await settle()

    assert actor_log == ["a starts", "a is up", "a one", "a two", "a three"]


async def test_an_urgent_message_overtakes_ordinary_messages(ref: Ref, actor_log: ActorLog) -> None:
    ref.tell("ordinary")
    ref.tell("urgent", urgent=True)
    await settle()

    assert lines_with(actor_log, "ordinary", "urgent") == ["a urgent", "a ordinary"]


async def test_an_actor_may_tell_itself(ref: Ref, actor_log: ActorLog) -> None:
    async def tell_myself() -> None:
        ref.tell("note to self")

    await ref.ask(Do(tell_myself))
    await settle()

    assert lines_with(actor_log, "note to self")


async def test_messages_an_actor_tells_itself_in_on_start_come_first(
    system: Group, actor_log: ActorLog
) -> None:
    async def tell_myself() -> None:
        system["b"].tell("mine")

    ref = await system.start(fake_actor(actor_log, on_start=tell_myself), name="b")
    ref.tell("yours")
    await settle()

    assert lines_with(actor_log, "mine", "yours") == ["b mine", "b yours"]


async def test_telling_a_full_mailbox_returns_the_message(ref: Ref) -> None:
    ref.tell(hang)
    await settle()
    for number in range(10):
        ref.tell(str(number))

    with pytest.raises(MailboxFull) as refusal:
        ref.tell("one too many")

    assert refusal.value.message == "one too many"
    assert ref.statistics().waiting == 10


async def test_a_full_mailbox_still_takes_an_urgent_message(ref: Ref) -> None:
    ref.tell(hang)
    await settle()
    for number in range(10):
        ref.tell(str(number))

    ref.tell("urgent", urgent=True)

    assert ref.statistics().waiting_urgent == 1


async def test_telling_a_stopping_or_ended_actor_is_refused(ref: Ref) -> None:
    ref.tell(work(0.5))
    await settle()

    ref.stop_nowait()
    with pytest.raises(ActorStopped):
        ref.tell("late")
    await ref.wait_stopped()
    with pytest.raises(ActorStopped):
        ref.tell("later", urgent=True)


async def test_a_ref_outlives_restarts(ref: Ref) -> None:
    ref.tell(crash)

    assert await ref.ask(Say("hello")) == "hello"


async def test_the_repr_of_a_ref_has_name_and_state(ref: Ref) -> None:
    assert repr(ref) == "<Ref 'a' running>"


# Stopping --------------------------------------------------------------------------------


async def test_stop_returns_when_the_actor_has_ended(ref: Ref, actor_log: ActorLog) -> None:
    await ref.stop()

    assert actor_log[-1] == "a is gone"
    assert await ref.wait_stopped() == Stopped()


async def test_stop_finishes_the_current_message_and_drops_waiting_messages(
    ref: Ref, actor_log: ActorLog
) -> None:
    async def finish_the_line() -> None:
        await trio.sleep(0.5)
        actor_log.append("a finished the line")

    ref.tell(finish_the_line)
    await settle()
    ref.tell("never read")

    await ref.stop()

    assert actor_log[2:] == ["a finished the line", "a stops, Stopped", "a is gone"]


async def test_a_stop_is_not_delayed_by_a_full_mailbox(ref: Ref) -> None:
    for _ in range(10):
        ref.tell(work(0.5))
    await settle()

    await ref.stop()

    assert trio.current_time() == 0.5
    assert ref.statistics().lost == 9


async def test_stop_of_a_stopped_actor_has_no_effect(ref: Ref) -> None:
    await ref.stop()

    await ref.stop()
    ref.stop_nowait()

    assert await ref.wait_stopped() == Stopped()


async def test_stop_of_an_unknown_actor_says_so(system: Group) -> None:
    with pytest.raises(UnknownActor, match="'nobody'"):
        await system["nobody"].stop()


async def test_many_tasks_may_stop_an_actor_at_once(ref: Ref, actor_log: ActorLog) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(ref.stop)

    assert lines_with(actor_log, "stops, Stopped") == ["a stops, Stopped"]


async def test_an_actor_cannot_wait_for_its_own_stop(ref: Ref) -> None:
    async def stop_myself() -> None:
        with pytest.raises(AskSelf, match="StopActor"):
            await ref.stop()

    await ref.ask(Do(stop_myself))

    assert ref.statistics().state == "running"


async def test_an_actor_may_begin_to_stop_itself(ref: Ref, actor_log: ActorLog) -> None:
    async def stop_myself() -> str:
        ref.stop_nowait()
        await trio.sleep(0.1)
        return "the last word"

    assert await ref.ask(Do(stop_myself)) == "the last word"
    assert await ref.wait_stopped() == Stopped()


async def test_a_stop_continues_when_its_caller_times_out(ref: Ref) -> None:
    ref.tell(work(0.5))
    await settle()

    with trio.move_on_after(0.1) as impatience:
        await ref.stop()

    assert impatience.cancelled_caught
    assert ref.statistics().state == "stopping"
    assert await ref.wait_stopped() == Stopped()


# Waiting ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("action", "end"), [(finish, Finished), (crash, Crashed)])
async def test_wait_stopped_returns_the_exit_of_a_temporary_actor(
    system: Group, action: object, end: type[Exit]
) -> None:
    ref = await system.start(FakeActor, restart="temporary")

    ref.tell(action)

    assert isinstance(await ref.wait_stopped(), end)


async def test_wait_stopped_carries_the_error_of_a_crash(system: Group) -> None:
    ref = await system.start(FakeActor, restart="temporary")

    ref.tell(crash)

    assert isinstance(exit_ := await ref.wait_stopped(), Crashed)
    assert isinstance(exit_.error, IntendedCrash)


async def test_wait_stopped_returns_killed_for_a_killed_actor(ref: Ref) -> None:
    ref.tell(hang)
    await settle()

    await ref.stop()

    assert await ref.wait_stopped() == Killed()


async def test_wait_stopped_does_not_take_a_restart_for_an_end(ref: Ref) -> None:
    with trio.move_on_after(10) as patience:
        ref.tell(crash)
        await ref.wait_stopped()

    assert patience.cancelled_caught
    assert ref.statistics().restarts == 1


async def test_wait_stopped_raises_that_the_actor_was_given_up(system: Group) -> None:
    ref = await system.start(FakeActor, name="a", restart=RestartPolicy(max_restarts=0))
    ref.tell(crash)

    for _ in range(2):
        with pytest.raises(GaveUp, match="a was given up: a crashed with IntendedCrash") as failure:
            await ref.wait_stopped()

        assert isinstance(failure.value.__cause__, IntendedCrash)


async def test_every_waiter_gets_the_exit(ref: Ref) -> None:
    ends: list[Exit] = []

    async def wait() -> None:
        ends.append(await ref.wait_stopped())

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(wait)
        await settle()
        ref.stop_nowait()

    assert ends == [Stopped()] * 5


async def test_cancelling_wait_stopped_changes_nothing(ref: Ref) -> None:
    with trio.move_on_after(1):
        await ref.wait_stopped()

    assert await ref.ask(Say("hello")) == "hello"


async def test_an_actor_cannot_wait_for_its_own_end(ref: Ref) -> None:
    async def wait_for_myself() -> None:
        with pytest.raises(AskSelf):
            await ref.wait_stopped()

    await ref.ask(Do(wait_for_myself))


# Statistics ------------------------------------------------------------------------------


async def test_statistics_are_a_frozen_picture_of_the_instant(ref: Ref) -> None:
    await ref.ask(Say("hello"))
    ref.tell(hang)
    await settle()
    ref.tell("waits")
    ref.tell("waits", urgent=True)

    assert ref.statistics() == Statistics(
        name="a",
        state="running",
        waiting=1,
        waiting_urgent=1,
        capacity=10,
        handled=2,
        lost=0,
        restarts=0,
    )


async def test_messages_inside_a_stopped_mailbox_are_counted_as_lost(ref: Ref) -> None:
    ref.tell(work(0.5))
    await settle()
    ref.tell("one")
    ref.tell("two", urgent=True)

    await ref.stop()

    statistics = ref.statistics()
    assert (statistics.state, statistics.handled, statistics.lost) == ("stopped", 1, 2)
    assert (statistics.waiting, statistics.waiting_urgent) == (0, 0)


async def test_the_state_follows_the_lifecycle_of_the_actor(system: Group) -> None:
    patient = RestartPolicy(backoff_seconds=10.0)
    seen: list[str] = []

    async def look() -> None:
        seen.append(system["a"].statistics().state)

    ref = await system.start(fake_actor(on_start=look, on_stop=look), name="a", restart=patient)
    await ref.ask(Do(look))
    ref.tell(crash)
    await settle()
    await look()
    await trio.sleep(20)
    await ref.stop()
    seen.append(ref.statistics().state)

    assert seen[:2] == ["starting", "running"]
    assert seen[-4:] == ["restarting", "starting", "stopping", "stopped"]


async def test_counters_go_on_over_restarts(ref: Ref) -> None:
    for _ in range(2):
        ref.tell(crash)
        await ref.ask(Say("hello"))

    statistics = ref.statistics()
    assert (statistics.handled, statistics.restarts, statistics.lost) == (4, 2, 0)


async def test_a_message_from_a_foreign_thread_is_refused(system: Group) -> None:
    ref = await system.start(fake_actor())
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
