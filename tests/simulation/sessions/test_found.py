"""Races that the attacks have found, each as a program that is as small as it gets."""

import random
from contextlib import suppress
from typing import Any

import trio

import supervisor
from actors.testing import explore, simulate
from supervisor import KeyTaken, Ladder, Session, Settings, SupervisorError, Turn
from tests.simulation.ledger import PromiseBroken
from tests.simulation.stage import wander

from .stage import Stage, open_stage, watch

SEEDS = range(100)


@supervisor.agent("deaf")
async def deaf(turn: Turn) -> None:
    """Hears nothing for so many seconds as its text says."""
    with trio.CancelScope(shield=True):
        await trio.sleep(float(turn.text))


async def end_with_the_ladder() -> None:
    settings = Settings(ladder=Ladder(ask_seconds=1.0))
    async with supervisor.open(agents=[deaf], settings=settings) as sup:
        session = await sup.create("deaf")
        await session.send("1")
        await session.interrupt()

        assert (await session.prompt("0")).outcome == "completed"


def test_a_turn_that_ends_with_its_ladder_leaves_no_zombie() -> None:
    assert explore(end_with_the_ladder, seeds=SEEDS, max_failures=1) == []


async def fence_a_zombie() -> None:
    settings = Settings(ladder=Ladder(ask_seconds=1.0))
    async with open_stage(settings=settings) as stage:
        session = await stage.sup.create("player")
        await stage.send(session, stage.text("hang"))
        await session.interrupt()
        await stage.store.claim([session.id])

        await stage.prompt(session, stage.text("say"))


def test_a_zombie_that_outlives_its_incarnation_is_still_buried() -> None:
    assert explore(fence_a_zombie, seeds=SEEDS, max_failures=1) == []


async def write_while_deciding() -> None:
    async with open_stage() as stage:
        session = await stage.sup.create("player")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch_always, stage, session)
            await stage.send(session, stage.text("flood", "wander", "flood"))
            for _ in range(3):
                await stage.send(session, stage.text(), when_busy="queue")
                await wander()
            nursery.cancel_scope.cancel()


async def watch_always(stage: Stage, session: Session) -> None:
    await watch(stage, session, items=1_000)


def test_output_is_not_published_by_the_commit_of_something_older() -> None:
    assert explore(write_while_deciding, seeds=range(500), max_failures=1) == []


async def replace_while_it_is_wanted() -> None:
    async with open_stage() as stage:
        old = await stage.sup.create("player", key="player:here:me")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.try_to, stage.sup.new("player:here:me"))
            for _ in range(3):
                await stage.send(old, stage.text())
                await wander()
        live = (await stage.sup.list(archived=False)).items
        if len(live) > 1:
            raise PromiseBroken(f"one key has {len(live)} bearers")


def test_a_key_has_one_bearer_though_the_old_one_is_woken_while_replaced() -> None:
    assert explore(replace_while_it_is_wanted, seeds=range(300), max_failures=1) == []


async def wake_into_trouble() -> None:
    async with open_stage(settings=Settings(suspend_after_seconds=0.5)) as stage:
        session = await stage.sup.create("player")
        await trio.sleep(1.0)
        stage.store.troubles.append("fails")

        await stage.send(session, stage.text())


def test_whoever_wakes_a_session_into_trouble_gets_an_answer_or_a_typed_error() -> None:
    assert explore(wake_into_trouble, seeds=SEEDS, max_failures=1) == []


async def trouble_one_sender() -> None:
    async with open_stage() as stage:
        session = await stage.sup.create("player")
        stage.store.troubles.append(random.choice(("fails", "fails late", "refuses")))

        await stage.send(session, stage.text())


def test_a_sender_whose_incarnation_crashed_is_answered_by_the_next_one() -> None:
    assert explore(trouble_one_sender, seeds=SEEDS, max_failures=1) == []


async def lose_the_answer_to_an_interrupt() -> None:
    async with open_stage() as stage:
        session = await stage.sup.create("player")
        await stage.send(session, stage.text("tool", "tool", "tool"))
        stage.store.troubles.append(random.choice(("fails late", "fails")))
        await stage.interrupt(session)


def test_an_interrupt_that_hit_does_not_say_that_it_missed() -> None:
    assert explore(lose_the_answer_to_an_interrupt, seeds=SEEDS, max_failures=1) == []


# Leaving ----------------------------------------------------------------------------------


async def cancel_everything() -> float:
    with trio.CancelScope() as scope:
        async with open_stage() as stage:
            session = await stage.sup.create("player")
            await stage.send(session, stage.text("tool"))
            began = trio.current_time()
            scope.cancel()
            await trio.lowlevel.checkpoint()
    book = stage.referee.book(session.id)
    if book.turn is not None:
        raise PromiseBroken(f"{book.turn} is open after leaving")
    return trio.current_time() - began


def test_a_cancelled_supervisor_interrupts_its_turns_and_leaves_at_once() -> None:
    assert simulate(cancel_everything, early_timeouts=False) < 1.0


async def ask_while_cancelled() -> None:
    async with trio.open_nursery() as outside:
        with trio.CancelScope() as scope:
            async with open_stage(outside=outside) as stage:
                session = await stage.sup.create("player")
                await stage.send(session, stage.text("hang"))
                outside.start_soon(stage.try_to, session.archive())
                outside.start_soon(stage.try_to, stage.sup.create("player"))
                outside.start_soon(stage.send, session, stage.text())
                scope.cancel()
                await trio.lowlevel.checkpoint()


def test_who_asks_a_cancelled_supervisor_gets_a_typed_error() -> None:
    assert explore(ask_while_cancelled, seeds=SEEDS, max_failures=1, max_steps=5_000) == []


async def come_too_late() -> None:
    async with open_stage() as stage:
        session = await stage.sup.create("player")
    await watch(stage, session, items=1_000)
    answer = await stage.try_to(session.wait_stopped())
    assert isinstance(answer, SupervisorError)


def test_who_watches_or_waits_after_the_end_is_not_left_waiting() -> None:
    simulate(come_too_late)


async def leave_while_sending() -> None:
    async with trio.open_nursery() as outside, open_stage(outside=outside) as stage:
        session = await stage.sup.create("player")
        for _ in range(3):
            outside.start_soon(stage.send, session, stage.text())
        await wander()
    stage.referee.close()


def test_what_was_accepted_on_the_way_out_is_not_called_refused() -> None:
    assert explore(leave_while_sending, seeds=range(400), max_failures=1) == []


async def wait_for_one_that_ends_meanwhile() -> None:
    async with supervisor.open() as sup:
        store: Any = sup._house.store
        read = store.records

        async def read_slowly(*args: Any, **how: Any) -> Any:  # noqa: ANN401 - whatever it takes
            found = await read(*args, **how)
            for _ in range(random.randrange(10)):
                await trio.lowlevel.checkpoint()
            return found

        store.records = read_slowly
        session = await sup.create("echo")
        receipt = await session.send("one two three")
        assert (await session.result(receipt.input_id)).outcome == "completed"


def test_a_turn_that_ends_while_its_records_are_read_is_not_waited_for_for_ever() -> None:
    assert explore(wait_for_one_that_ends_meanwhile, seeds=range(300), max_failures=1) == []


async def take_a_key_that_is_being_given() -> None:
    async with supervisor.open() as sup:

        async def create() -> None:
            with suppress(KeyTaken):  # somebody else was faster
                await sup.create("echo", key="echo:here:me", idempotency_key="once")

        async def get() -> None:
            session = await sup.get_or_create("echo:here:me")
            await session.info()  # which raises if nobody is there

        async with trio.open_nursery() as nursery:
            nursery.start_soon(create)
            nursery.start_soon(get)


def test_a_key_that_is_given_under_an_idempotency_key_has_a_bearer_who_is_there() -> None:
    assert explore(take_a_key_that_is_being_given, seeds=SEEDS, max_failures=1) == []
