"""Draining: new work is refused; and leaving in a hurry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

import supervisor
from supervisor import (
    Phase,
    Session,
    SessionNotActive,
    Settings,
    Supervisor,
    SupervisorError,
)
from supervisor.core.records import Record
from tests.support.fake_agents import FakeAgent
from tests.support.shutdown_harness import EXIT_SECONDS, Harness, begin


@pytest.fixture
def settings() -> Settings:
    return Settings(exit_seconds=EXIT_SECONDS)


class Boom(Exception):
    """What a block raises."""


@pytest.fixture
def harness(fake_agent: FakeAgent, shielded_agent: FakeAgent) -> Harness:
    return Harness(fake_agent, shielded_agent)


# New work while leaving -----------------------------------------------------------------


NEW_WORK: dict[str, Callable[[Supervisor, Session], Awaitable[object]]] = {
    "create": lambda sup, session: sup.create("echo"),
    "get_or_create": lambda sup, session: sup.get_or_create("echo:irc:ann"),
    "new": lambda sup, session: sup.new("echo:irc:ann"),
    "send": lambda sup, session: session.send("hello"),
    "prompt": lambda sup, session: session.prompt("hello"),
    "steer": lambda sup, session: session.steer("hello"),
    "resume": lambda sup, session: session.resume(),
    "fork": lambda sup, session: session.fork(),
    "clear": lambda sup, session: session.clear(),
}


@pytest.mark.parametrize("name", NEW_WORK)
async def test_new_work_is_refused_while_draining(
    harness: Harness, fake_agent: FakeAgent, name: str, nursery: trio.Nursery
) -> None:
    async with harness.open() as sup:
        session, run = await begin(sup, fake_agent)
        nursery.start_soon(sup.drain)
        await trio.testing.wait_all_tasks_blocked()
        before = [info.id for info in (await sup.list()).items]

        with pytest.raises(SessionNotActive) as refused:
            await NEW_WORK[name](sup, session)

        assert refused.value.hint
        assert [info.id for info in (await sup.list()).items] == before
        run.finish()


async def test_stops_and_interrupts_work_while_draining(
    harness: Harness, fake_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    async with harness.open() as sup:
        session, run = await begin(sup, fake_agent)
        nursery.start_soon(sup.drain)
        await trio.testing.wait_all_tasks_blocked()

        report = await session.interrupt()

        assert report.stopped == 1
        assert run.over.is_set()


async def test_draining_suspends_all_sessions_and_keeps_reads(harness: Harness) -> None:
    async with harness.open() as sup:
        session = await sup.create("scripted")
        await session.send("sleep 4\nsay done")
        began = trio.current_time()

        await sup.drain()

        assert trio.current_time() == began + 4.0
        assert (await session.info()).phase is Phase.SUSPENDED
        assert [message.text for message in await session.transcript()][-1] == "done"


async def test_draining_twice_before_leaving_takes_no_more_time(harness: Harness) -> None:
    async with harness.open() as sup:
        await (await sup.create("scripted")).send("sleep 1000")
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sup.drain)
            nursery.start_soon(sup.drain)

    assert trio.current_time() == began + EXIT_SECONDS


# After leaving --------------------------------------------------------------------------


SENT_LATE: dict[str, Callable[[Supervisor, Session], Awaitable[object]]] = {
    **NEW_WORK,
    "interrupt": lambda sup, session: session.interrupt(),
    "stop": lambda sup, session: session.stop(),
    "append": lambda sup, session: session.append("user", "a note"),
    "set": lambda sup, session: session.set(title="New"),
    "archive": lambda sup, session: session.archive(),
    "unarchive": lambda sup, session: session.unarchive(),
    "edit_input": lambda sup, session: session.edit_input("in_1", "x"),
    "cancel_input": lambda sup, session: session.cancel_input("in_1"),
    "move_input": lambda sup, session: session.move_input("in_1", 0),
    "promote_input": lambda sup, session: session.promote_input("in_1"),
    "remove_rule": lambda sup, session: session.remove_rule("req_1"),
    "delete": lambda sup, session: sup.delete(session.id),
    "reset": lambda sup, session: sup.reset("echo:irc:bob"),
    "answer": lambda sup, session: sup.answer("req_1", "allow_once"),
    "wait_stopped": lambda sup, session: session.wait_stopped(),
}


@pytest.mark.parametrize("name", SENT_LATE)
async def test_send_after_leaving_raises_at_once(harness: Harness, name: str) -> None:
    async with harness.open() as sup:
        session = await sup.create("echo", key="echo:irc:bob")
    before = await harness.row(sup, session)

    with trio.fail_after(1.0), pytest.raises(SupervisorError) as late:
        await SENT_LATE[name](sup, session)

    assert late.value.hint
    assert await harness.row(sup, session) == before


async def test_watching_after_leaving_does_not_wait_for_ever(harness: Harness) -> None:
    async with harness.open() as sup:
        session = await sup.create("echo")
    kinds: list[str] = []

    with trio.move_on_after(1.0) as patience:
        try:
            async with session.watch() as feed:
                kinds = [item.kind async for item in feed if isinstance(item, Record)]
        except SupervisorError:
            pass

    assert not patience.cancelled_caught
    assert kinds == [] or kinds[-1] == "session_suspended"


async def test_watching_everything_after_leaving_does_not_wait_for_ever(harness: Harness) -> None:
    async with harness.open() as sup:
        await sup.create("echo")

    with trio.move_on_after(1.0) as patience:
        try:
            async with sup.watch() as feed:
                assert [record async for record in feed]
        except SupervisorError:
            pass

    assert not patience.cancelled_caught


# Leaving in a hurry ---------------------------------------------------------------------


async def test_an_exception_of_the_block_is_raised_bare_and_at_once(harness: Harness) -> None:
    began = trio.current_time()

    with pytest.raises(Boom):  # noqa: PT012 - the block is what is tested
        async with harness.open() as sup:
            session = await sup.create("scripted")
            await session.send("sleep 1000")
            await session.send("say second")
            raise Boom

    stored = await harness.row(sup, session)
    assert trio.current_time() == began
    assert (stored.row.phase, len(stored.row.inputs)) == (Phase.SUSPENDED, 1)


async def test_a_refusal_inside_the_block_is_raised_without_a_group(harness: Harness) -> None:
    with pytest.raises(supervisor.AgentUnknown):
        async with harness.open() as sup:
            await sup.create("nobody")


async def test_a_keyboard_interrupt_is_raised_without_a_group(harness: Harness) -> None:
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the block is what is tested
        async with harness.open() as sup:
            await sup.create("echo")
            raise KeyboardInterrupt


async def test_a_cancelled_block_is_left_at_once(harness: Harness) -> None:
    began = trio.current_time()

    with trio.move_on_after(3.0) as scope:
        async with harness.open() as sup:
            session = await sup.create("scripted")
            await session.send("sleep 1000")
            await trio.sleep_forever()

    [interrupted] = await harness.records(sup, session, "interrupted")
    assert scope.cancelled_caught
    assert trio.current_time() == began + 3.0
    assert interrupted.body["reason"] == "shutdown"
    assert (await harness.row(sup, session)).row.phase is Phase.SUSPENDED


async def test_a_cancellation_during_the_exit_shortens_it(harness: Harness) -> None:
    with trio.move_on_after(3.0) as scope:
        async with harness.open() as sup:
            session = await sup.create("scripted")
            await session.send("sleep 1000")
            began = trio.current_time()

    [ended] = await harness.records(sup, session, "turn_ended")
    assert scope.cancelled_caught
    assert trio.current_time() == began + 3.0
    assert ended.body["outcome"] == "interrupted"


async def test_leaving_in_the_middle_of_create_leaves_nothing_half_done(harness: Harness) -> None:
    heard: list[object] = []

    async def create(sup: Supervisor) -> None:
        try:
            heard.append(await sup.create("echo"))
        except SupervisorError as error:
            heard.append(error)

    async with trio.open_nursery() as nursery, harness.open() as sup:
        for _ in range(20):
            nursery.start_soon(create, sup)
        await trio.lowlevel.checkpoint()

    phases = {stored.row.phase async for stored in sup._services.store.rows()}
    assert len(heard) == 20
    assert phases <= {Phase.SUSPENDED, Phase.STOPPED}
