import math

import pytest
import trio
from attrs import frozen

from actors import (
    Actor,
    ActorStopped,
    Ask,
    AskSelf,
    AskTimeout,
    BadSpec,
    Group,
    MailboxFull,
    Ref,
    open_actors,
)
from actors.testing import settle
from tests.support.fake_actors import (
    ActorLog,
    Do,
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
    return await system.start(fake_actor(actor_log), name="a", shutdown_seconds=1.0)


# Answers ---------------------------------------------------------------------------------


async def test_an_ask_is_answered_with_the_return_value_of_receive(ref: Ref) -> None:
    assert await ref.ask(Say("hello")) == "hello"


async def test_none_is_an_answer(ref: Ref) -> None:
    async def give_nothing() -> None:
        await trio.lowlevel.checkpoint()

    assert await ref.ask(Do(give_nothing)) is None


async def test_every_asker_gets_its_own_answer(ref: Ref) -> None:
    answers: dict[str, str] = {}

    async def ask(text: str) -> None:
        answers[text] = await ref.ask(Say(text))

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(ask, str(number))

    assert len(answers) == 50
    assert all(asked == answered for asked, answered in answers.items())


async def test_an_urgent_ask_overtakes_ordinary_messages(ref: Ref, actor_log: ActorLog) -> None:
    async def look_into_the_diary() -> list[str]:
        return list(lines_with(actor_log, "ordinary"))

    ref.tell(work(1))
    ref.tell("ordinary")

    assert await ref.ask(Do(look_into_the_diary), urgent=True) == []


async def test_one_message_is_handled_at_a_time(ref: Ref) -> None:
    inside = [0, 0]

    async def count() -> None:
        inside[0] += 1
        inside[1] = max(inside)
        await trio.sleep(0.1)
        inside[0] -= 1

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(ref.ask, Do(count))

    assert inside == [0, 1]


# Time-outs -------------------------------------------------------------------------------


async def test_an_ask_times_out_after_exactly_its_time(ref: Ref) -> None:
    with pytest.raises(AskTimeout, match="within 2 s") as late:
        await ref.ask(Do(work(10)), timeout_seconds=2.0)

    assert trio.current_time() == 2.0
    assert (late.value.name, late.value.timeout_seconds) == ("a", 2.0)
    assert isinstance(late.value, TimeoutError)


async def test_the_default_timeout_of_an_ask_is_five_seconds(ref: Ref) -> None:
    with pytest.raises(AskTimeout):
        await ref.ask(Do(hang))

    assert trio.current_time() == 5.0


async def test_an_ask_may_wait_for_ever(ref: Ref) -> None:
    assert await ref.ask(Do(work(1e6)), timeout_seconds=math.inf) == "done"


async def test_time_outs_are_independent_of_each_other(ref: Ref) -> None:
    ref.tell(hang)
    late: list[float] = []

    async def ask(seconds: float) -> None:
        with pytest.raises(AskTimeout):
            await ref.ask(Say("x"), timeout_seconds=seconds)
        late.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        for seconds in (3.0, 1.0, 2.0):
            nursery.start_soon(ask, seconds)

    assert late == [1.0, 2.0, 3.0]


async def test_a_late_answer_is_dropped_and_the_next_ask_gets_its_own(ref: Ref) -> None:
    with pytest.raises(AskTimeout):
        await ref.ask(Do(work(10)), timeout_seconds=1.0)

    assert await ref.ask(Say("mine"), timeout_seconds=20.0) == "mine"


async def test_a_late_failure_is_dropped_too(ref: Ref) -> None:
    async def crash_late() -> None:
        await trio.sleep(10)
        raise IntendedCrash

    with pytest.raises(AskTimeout):
        await ref.ask(Do(crash_late), timeout_seconds=1.0)

    assert await ref.ask(Say("mine"), timeout_seconds=20.0) == "mine"


async def test_a_timed_out_message_may_still_be_handled(ref: Ref) -> None:
    with pytest.raises(AskTimeout):
        await ref.ask(Do(work(10)), timeout_seconds=1.0)

    await trio.sleep(20)

    assert ref.statistics().handled == 1


async def test_thousands_of_answered_asks_do_not_disturb_a_time_out(
    ref: Ref, system: Group
) -> None:
    other = await system.start(fake_actor())
    other.tell(hang)
    async with trio.open_nursery() as nursery:

        async def wait_in_vain() -> None:
            with pytest.raises(AskTimeout):
                await other.ask(Say("x"), timeout_seconds=30.0)

        nursery.start_soon(wait_in_vain)
        for number in range(3000):
            await ref.ask(Say(str(number)))

    assert trio.current_time() == 30.0


@pytest.mark.parametrize("seconds", [-1.0, math.nan, None, "5"])
async def test_an_invalid_time_out_is_refused_naming_the_field(ref: Ref, seconds: float) -> None:
    with pytest.raises(BadSpec) as refusal:
        await ref.ask(Say("x"), timeout_seconds=seconds)

    assert refusal.value.field == "timeout_seconds"
    assert ref.statistics().handled == 0


async def test_only_an_ask_can_be_asked(ref: Ref) -> None:
    with pytest.raises(BadSpec, match="tell") as refusal:
        await ref.ask("hello")  # type: ignore[arg-type]

    assert refusal.value.field == "message"


# Failures --------------------------------------------------------------------------------


async def test_an_exception_of_receive_is_raised_in_the_asker(ref: Ref) -> None:
    with pytest.raises(IntendedCrash):
        await ref.ask(Do(crash))


async def test_a_handled_ask_fails_with_actor_stopped_when_its_actor_finishes(ref: Ref) -> None:
    with pytest.raises(ActorStopped, match="effects are unknown"):
        await ref.ask(Do(finish))


async def test_a_handled_ask_fails_with_actor_stopped_when_its_actor_is_cancelled(
    ref: Ref,
) -> None:
    async def stop_it_soon() -> None:
        await settle()
        await ref.stop()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_it_soon)

        with pytest.raises(ActorStopped, match="effects are unknown"):
            await ref.ask(Do(hang))


async def test_asks_behind_a_crash_are_answered_by_the_next_incarnation(ref: Ref) -> None:
    ref.tell(work(1))
    ref.tell(crash)

    assert await ref.ask(Say("still here")) == "still here"
    assert ref.statistics().restarts == 1


async def test_asks_waiting_in_a_mailbox_fail_when_the_actor_stops(ref: Ref) -> None:
    ref.tell(work(1))
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(ActorStopped):
                await ref.ask(Say("x"))
            assert trio.current_time() == 0

        nursery.start_soon(ask)
        await settle()
        ref.stop_nowait()


async def test_asking_a_stopping_actor_fails_at_once(ref: Ref) -> None:
    ref.tell(work(0.5))
    await settle()
    ref.stop_nowait()

    with pytest.raises(ActorStopped):
        await ref.ask(Say("x"))

    assert trio.current_time() == 0


async def test_asking_an_ended_actor_fails_at_once(ref: Ref) -> None:
    await ref.stop()

    with pytest.raises(ActorStopped, match="a is stopping or has ended"):
        await ref.ask(Say("x"))


async def test_asking_after_the_whole_system_ended_fails_at_once() -> None:
    async with open_actors() as system:
        ref = await system.start(fake_actor())

    with pytest.raises(ActorStopped):
        await ref.ask(Say("x"))


async def test_asking_a_full_mailbox_fails_at_once(system: Group) -> None:
    ref = await system.start(fake_actor(), capacity=1)
    ref.tell(hang)
    await settle()
    ref.tell("full")

    with pytest.raises(MailboxFull):
        await ref.ask(Say("x"))

    assert trio.current_time() == 0


async def test_an_actor_that_asks_itself_gets_an_error_at_once(ref: Ref) -> None:
    async def ask_myself() -> object:
        with pytest.raises(AskSelf, match="ask itself"):
            await ref.ask(Say("x"))
        return trio.current_time()

    assert await ref.ask(Do(ask_myself)) == 0


async def test_an_actor_cannot_ask_itself_in_any_method(system: Group) -> None:
    refused: list[float] = []

    async def ask_myself() -> None:
        with pytest.raises(AskSelf):
            await system["me"].ask(Say("x"))
        refused.append(trio.current_time())

    me = await system.start(fake_actor(on_start=ask_myself, on_stop=ask_myself), name="me")
    await me.stop()

    assert refused == [0, 0]


async def test_an_actor_may_ask_another_actor(ref: Ref, system: Group) -> None:
    other = await system.start(fake_actor())

    assert await ref.ask(Do(lambda: other.ask(Say("passed on")))) == "passed on"


# Cancellation ----------------------------------------------------------------------------


async def test_the_answer_to_a_cancelled_asker_is_dropped(ref: Ref) -> None:
    with trio.move_on_after(1):
        await ref.ask(Do(work(2)))
    await trio.sleep(5)

    assert await ref.ask(Say("mine")) == "mine"
    assert ref.statistics().restarts == 0


async def test_two_actors_that_ask_each_other_time_out(system: Group) -> None:
    one = await system.start(fake_actor(), name="one")
    two = await system.start(fake_actor(), name="two")
    one.tell(lambda: two.ask(Say("x"), timeout_seconds=3.0))

    with pytest.raises((AskTimeout, ActorStopped)):
        await two.ask(Do(lambda: one.ask(Say("x"), timeout_seconds=2.0)))

    await one.stop()
    await two.stop()


@frozen
class Number(Ask[int]):
    pass


async def test_a_timeout_out_of_range_is_refused_before_the_message_is_sent(
    system: Group,
) -> None:
    ref = await system.start(fake_actor())

    with pytest.raises(BadSpec, match="timeout_seconds"):
        await ref.ask(Number(), timeout_seconds=10**400)

    assert ref.statistics().waiting == 0


async def test_an_actor_cannot_ask_itself_from_its_own_nursery(system: Group) -> None:
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
