from collections import deque

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors import ActorStopped, Group, MailboxFull, RestartPolicy
from actors._mailbox import EMPTY, Mailbox
from actors.testing import settle
from tests.support.fake_actors import ActorLog, crash, fake_actor, lines_with


def box(capacity: int = 3) -> Mailbox:
    return Mailbox("box", capacity)


async def wait_for_message(mailbox: Mailbox) -> None:
    """Wait as the task of an actor does."""

    def abort(_: object) -> trio.lowlevel.Abort:
        mailbox.reader = None
        return trio.lowlevel.Abort.SUCCEEDED

    mailbox.park(trio.lowlevel.current_task())
    await trio.lowlevel.wait_task_rescheduled(abort)


def everything_in(mailbox: Mailbox) -> list[object]:
    return list(iter(mailbox.take, EMPTY))


def test_messages_are_received_in_the_order_of_sending() -> None:
    mailbox = box()

    for message in "abc":
        mailbox.put(message)

    assert everything_in(mailbox) == ["a", "b", "c"]


def test_urgent_messages_come_out_first_and_in_their_own_order() -> None:
    mailbox = box()

    mailbox.put("a")
    mailbox.put("x", urgent=True)
    mailbox.put("y", urgent=True)

    assert everything_in(mailbox) == ["x", "y", "a"]


def test_an_empty_mailbox_returns_empty_and_none_is_a_message() -> None:
    mailbox = box()
    assert mailbox.take() is EMPTY

    mailbox.put(None)

    assert mailbox.take() is None


@pytest.mark.parametrize("urgent", [False, True])
def test_a_full_mailbox_refuses_and_returns_the_message(*, urgent: bool) -> None:
    mailbox = box(capacity=1)
    mailbox.put("first", urgent=urgent)

    with pytest.raises(MailboxFull) as refusal:
        mailbox.put("second", urgent=urgent)

    assert refusal.value.message == "second"
    assert (refusal.value.name, refusal.value.capacity) == ("box", 1)
    assert everything_in(mailbox) == ["first"]


def test_ordinary_messages_never_block_an_urgent_message() -> None:
    mailbox = box(capacity=1)
    mailbox.put("ordinary")

    mailbox.put("urgent", urgent=True)

    assert (mailbox.waiting, mailbox.waiting_urgent) == (1, 1)


def test_a_place_is_free_again_when_a_message_was_taken() -> None:
    mailbox = box(capacity=1)
    mailbox.put("first")
    mailbox.take()

    mailbox.put("second")

    assert mailbox.take() == "second"


def test_closing_returns_all_messages_urgent_first() -> None:
    mailbox = box()
    mailbox.put("a")
    mailbox.put("x", urgent=True)

    assert mailbox.close() == ["x", "a"]
    assert mailbox.closed
    assert everything_in(mailbox) == []


def test_closing_twice_is_fine() -> None:
    mailbox = box()
    mailbox.put("a")
    mailbox.close()

    assert mailbox.close() == []


@pytest.mark.parametrize("urgent", [False, True])
def test_a_closed_mailbox_refuses(*, urgent: bool) -> None:
    mailbox = box()
    mailbox.close()

    with pytest.raises(ActorStopped, match="box"):
        mailbox.put("late", urgent=urgent)

    assert everything_in(mailbox) == []


def test_a_reserved_message_fits_into_a_full_mailbox() -> None:
    mailbox = box(capacity=1)
    mailbox.put("a")

    mailbox.put_reserved("news")

    assert everything_in(mailbox) == ["a", "news"]


def test_a_reserved_message_to_a_closed_mailbox_is_ignored() -> None:
    mailbox = box()
    mailbox.close()

    mailbox.put_reserved("news")

    assert everything_in(mailbox) == []


@given(st.lists(st.sampled_from(["put", "put urgent", "take"]), max_size=60))
def test_a_lane_never_exceeds_its_bound_and_no_message_is_lost(moves: list[str]) -> None:
    mailbox, urgent, ordinary = box(), deque[object](), deque[object]()

    for number, move in enumerate(moves):
        lane = urgent if move == "put urgent" else ordinary
        if move == "take":
            expected = (urgent or ordinary or deque([EMPTY])).popleft()
            assert mailbox.take() == expected
        elif len(lane) < 3:
            mailbox.put(number, urgent=lane is urgent)
            lane.append(number)
        else:
            with pytest.raises(MailboxFull):
                mailbox.put(number, urgent=lane is urgent)

    assert mailbox.close() == [*urgent, *ordinary]


async def test_a_cancelled_reader_loses_no_message() -> None:
    mailbox = box()

    with trio.move_on_after(1):
        await wait_for_message(mailbox)
    mailbox.put("a")

    assert mailbox.take() == "a"


async def test_a_reader_cancelled_after_its_wake_up_loses_no_message() -> None:
    mailbox = box()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for_message, mailbox)
        await settle()

        mailbox.put("a")
        nursery.cancel_scope.cancel()

    assert everything_in(mailbox) == ["a"]


async def test_every_message_and_closing_wake_the_reader() -> None:
    mailbox = box()
    for wake in (
        lambda: mailbox.put("a"),
        lambda: mailbox.put("x", urgent=True),
        lambda: mailbox.put_reserved("news"),
        mailbox.close,
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for_message, mailbox)
            await settle()
            wake()


async def test_a_long_burst_lets_other_tasks_run(system: Group, actor_log: ActorLog) -> None:
    ref = await system.start(fake_actor(actor_log), name="a", capacity=2000)
    for _ in range(2000):
        ref.tell("line")

    await trio.lowlevel.checkpoint()
    await trio.lowlevel.checkpoint()

    assert 0 < ref.statistics().handled < 2000


async def test_no_message_is_lost_when_its_reader_crashes(
    system: Group, actor_log: ActorLog
) -> None:
    ref = await system.start(fake_actor(actor_log), name="a")

    for message in ("one", crash, "two", crash, "three"):
        ref.tell(message)
    await settle()

    assert lines_with(actor_log, "one", "two", "three") == ["a one", "a two", "a three"]


async def test_messages_are_kept_during_back_off_within_capacity(
    system: Group, actor_log: ActorLog
) -> None:
    patient = RestartPolicy(backoff_seconds=10.0)
    ref = await system.start(fake_actor(actor_log), name="a", restart=patient, capacity=1)
    ref.tell(crash)
    await settle()

    ref.tell("kept")
    with pytest.raises(MailboxFull):
        ref.tell("refused")
    await trio.sleep(11)

    assert lines_with(actor_log, "kept", "refused") == ["a kept"]
