"""Races that the attacks found, each as a minimal program."""

import random
from contextlib import suppress
from typing import Any

import trio

import supervisor
from actors.testing import explore, simulate
from supervisor import KeyTaken, Ladder, Session, Settings, SupervisorError, Turn
from tests.simulation.harness import Harness, open_harness, watch
from tests.simulation.timing import random_pause
from tests.simulation.violations import PropertyViolated

SEEDS = range(100)


@supervisor.agent("hang")
async def deaf(turn: Turn) -> None:
    """Ignore interrupts for as many seconds as the text says."""
    with trio.CancelScope(shield=True):
        await trio.sleep(float(turn.text))


async def end_with_the_ladder() -> None:
    settings = Settings(ladder=Ladder(ask_seconds=1.0))
    async with supervisor.open(agents=[deaf], settings=settings) as sup:
        session = await sup.create("hang")
        await session.send("1")
        await session.interrupt()

        assert (await session.prompt("0")).outcome == "completed"


def test_a_turn_that_ends_with_its_ladder_leaves_no_zombie() -> None:
    assert explore(end_with_the_ladder, seeds=SEEDS, max_failures=1, early_timeouts=True) == []


async def fence_a_zombie() -> None:
    settings = Settings(ladder=Ladder(ask_seconds=1.0))
    async with open_harness(settings=settings) as harness:
        session = await harness.sup.create("simulated")
        await harness.send(session, harness.text("hang"))
        await session.interrupt()
        await harness.store.claim([session.id])

        await harness.prompt(session, harness.text("say"))


def test_a_zombie_that_outlives_its_incarnation_is_cleaned_up() -> None:
    assert explore(fence_a_zombie, seeds=SEEDS, max_failures=1, early_timeouts=True) == []


async def write_while_deciding() -> None:
    async with open_harness() as harness:
        session = await harness.sup.create("simulated")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch_always, harness, session)
            await harness.send(session, harness.text("flood", "pause", "flood"))
            for _ in range(3):
                await harness.send(session, harness.text(), when_busy="queue")
                await random_pause()
            nursery.cancel_scope.cancel()


async def watch_always(harness: Harness, session: Session) -> None:
    await watch(harness, session, items=1_000)


def test_output_is_not_published_by_the_commit_of_something_older() -> None:
    assert (
        explore(write_while_deciding, seeds=range(500), max_failures=1, early_timeouts=True) == []
    )


async def replace_while_sending() -> None:
    async with open_harness() as harness:
        old = await harness.sup.create("simulated", key="simulated:here:me")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(harness.attempt, harness.sup.new("simulated:here:me"))
            for _ in range(3):
                await harness.send(old, harness.text())
                await random_pause()
        live = (await harness.sup.list(archived=False)).items
        if len(live) > 1:
            raise PropertyViolated(f"one key has {len(live)} holders")


def test_a_key_has_one_holder_when_woken_while_replaced() -> None:
    assert (
        explore(replace_while_sending, seeds=range(300), max_failures=1, early_timeouts=True) == []
    )


async def wake_into_store_fault() -> None:
    async with open_harness(settings=Settings(suspend_after_seconds=0.5)) as harness:
        session = await harness.sup.create("simulated")
        await trio.sleep(1.0)
        harness.store.faults.append("fails")

        await harness.send(session, harness.text())


def test_a_sender_gets_an_answer_when_the_wake_up_fails() -> None:
    assert explore(wake_into_store_fault, seeds=SEEDS, max_failures=1, early_timeouts=True) == []


async def fail_one_send() -> None:
    async with open_harness() as harness:
        session = await harness.sup.create("simulated")
        harness.store.faults.append(random.choice(("fails", "fails late", "refuses")))

        await harness.send(session, harness.text())


def test_a_sender_is_answered_by_the_next_incarnation_after_a_crash() -> None:
    assert explore(fail_one_send, seeds=SEEDS, max_failures=1, early_timeouts=True) == []


async def lose_the_answer_to_an_interrupt() -> None:
    async with open_harness() as harness:
        session = await harness.sup.create("simulated")
        await harness.send(session, harness.text("tool", "tool", "tool"))
        harness.store.faults.append(random.choice(("fails late", "fails")))
        await harness.interrupt(session)


def test_an_interrupt_that_hit_reports_its_target() -> None:
    assert (
        explore(lose_the_answer_to_an_interrupt, seeds=SEEDS, max_failures=1, early_timeouts=True)
        == []
    )


# Exit ----------------------------------------------------------------------------------


async def cancel_everything() -> float:
    with trio.CancelScope() as scope:
        async with open_harness() as harness:
            session = await harness.sup.create("simulated")
            await harness.send(session, harness.text("tool"))
            began = trio.current_time()
            scope.cancel()
            await trio.lowlevel.checkpoint()
    history = harness.oracle.history(session.id)
    if history.turn is not None:
        raise PropertyViolated(f"{history.turn} is open after the exit")
    return trio.current_time() - began


def test_a_cancelled_supervisor_interrupts_its_turns_and_exits_at_once() -> None:
    assert simulate(cancel_everything) < 1.0


async def ask_while_cancelled() -> None:
    async with trio.open_nursery() as outside:
        with trio.CancelScope() as scope:
            async with open_harness(outside=outside) as harness:
                session = await harness.sup.create("simulated")
                await harness.send(session, harness.text("hang"))
                outside.start_soon(harness.attempt, session.archive())
                outside.start_soon(harness.attempt, harness.sup.create("simulated"))
                outside.start_soon(harness.send, session, harness.text())
                scope.cancel()
                await trio.lowlevel.checkpoint()


def test_a_request_to_a_cancelled_supervisor_gets_a_typed_error() -> None:
    assert (
        explore(
            ask_while_cancelled, seeds=SEEDS, max_failures=1, max_steps=5_000, early_timeouts=True
        )
        == []
    )


async def watch_after_exit() -> None:
    async with open_harness() as harness:
        session = await harness.sup.create("simulated")
    await watch(harness, session, items=1_000)
    answer = await harness.attempt(session.wait_stopped())
    assert isinstance(answer, SupervisorError)


def test_a_watch_or_wait_after_the_exit_ends() -> None:
    simulate(watch_after_exit, early_timeouts=True)


async def exit_while_sending() -> None:
    async with trio.open_nursery() as outside, open_harness(outside=outside) as harness:
        session = await harness.sup.create("simulated")
        for _ in range(3):
            outside.start_soon(harness.send, session, harness.text())
        await random_pause()
    harness.oracle.close()


def test_an_input_accepted_during_the_exit_is_not_refused() -> None:
    assert explore(exit_while_sending, seeds=range(400), max_failures=1, early_timeouts=True) == []


async def wait_for_ending_turn() -> None:
    async with supervisor.open() as sup:
        store: Any = sup._services.store
        read = store.records

        async def read_slowly(*args: Any, **how: Any) -> Any:  # noqa: ANN401 - the arguments of the original
            found = await read(*args, **how)
            for _ in range(random.randrange(10)):
                await trio.lowlevel.checkpoint()
            return found

        store.records = read_slowly
        session = await sup.create("echo")
        receipt = await session.send("one two three")
        assert (await session.result(receipt.input_id)).outcome == "completed"


def test_a_wait_ends_when_the_turn_ends_during_the_read() -> None:
    assert (
        explore(wait_for_ending_turn, seeds=range(300), max_failures=1, early_timeouts=True) == []
    )


async def get_key_during_create() -> None:
    async with supervisor.open() as sup:

        async def create() -> None:
            with suppress(KeyTaken):  # another caller was faster
                await sup.create("echo", key="echo:here:me", idempotency_key="once")

        async def get() -> None:
            session = await sup.get_or_create("echo:here:me")
            await session.info()  # raises if the session does not exist

        async with trio.open_nursery() as nursery:
            nursery.start_soon(create)
            nursery.start_soon(get)


def test_a_key_created_under_an_idempotency_key_has_an_existing_holder() -> None:
    assert explore(get_key_during_create, seeds=SEEDS, max_failures=1, early_timeouts=True) == []
