"""While the store is degraded nothing new is taken: refused in words, and nothing left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import attrs
import pytest

from supervisor import Info, Session, StoreDegraded, Supervisor
from tests.support.fake_agents import AgentRun, FakeAgent
from tests.support.fake_store import HINT, PROBLEM, FailingStore, check_stored, degrade

ApiCall: TypeAlias = Callable[[Supervisor, Session], Awaitable[Any]]
KEY = "fake:chat:ann"

OF_RUNNING: dict[str, ApiCall] = {
    "send": lambda _, session: session.send("more"),
    "prompt": lambda _, session: session.prompt("more"),
    "send to interrupt": lambda _, session: session.send("more", when_busy="interrupt"),
    "send to steer": lambda _, session: session.send("more", when_busy="steer"),
    "steer": lambda _, session: session.steer("left"),
    "interrupt and replace": lambda _, session: session.interrupt(replace_with="more"),
    "spawn": lambda _, session: session.spawn("echo", "errand"),
    "set": lambda _, session: session.set(title="another"),
    "seen": lambda _, session: session.seen(1),
    "clear": lambda _, session: session.clear(),
    "append": lambda _, session: session.append("user", "by the way"),
    "fork": lambda _, session: session.fork(),
    "delete": lambda sup, session: sup.delete(session.id),
    "create": lambda sup, _: sup.create("echo"),
    "create with a key": lambda sup, _: sup.create("fake", key=KEY),
    "create once": lambda sup, _: sup.create("echo", idempotency_key="k"),
    "get or create": lambda sup, _: sup.get_or_create(KEY),
    "new": lambda sup, _: sup.new(KEY),
}
OF_STOPPED: dict[str, ApiCall] = {
    "send": lambda _, session: session.send("more"),
    "resume": lambda _, session: session.resume(),
    "clear": lambda _, session: session.clear(),
    "append": lambda _, session: session.append("user", "by the way"),
    "set": lambda _, session: session.set(tags=["a"]),
    "archive": lambda _, session: session.archive(),
    "fork": lambda _, session: session.fork(),
    "delete": lambda sup, session: sup.delete(session.id),
}


async def refused(store: FailingStore, sup: Supervisor, session: Session, call: ApiCall) -> None:
    """It is refused while the store is ill, and when it is well nothing has come of it."""
    before = await _seen(sup, session)
    await degrade(store, sup)

    with pytest.raises(StoreDegraded) as refusal:
        await call(sup, session)

    assert (refusal.value.code, refusal.value.hint) == ("store_degraded", HINT)
    assert refusal.value.args[0] == PROBLEM
    assert _without_running_time(await session.info()) == before[-2]
    await store.recover()
    assert await _seen(sup, session) == before
    await check_stored(store, session)


async def _seen(sup: Supervisor, session: Session) -> tuple[Any, ...]:
    infos = [*(await sup.list()).items, await session.info()]
    return (*map(_without_running_time, infos), await session.history())


def _without_running_time(info: Info) -> Info:
    """Return the info without the time of turns: the running turn goes on during the test."""
    return attrs.evolve(info, spent=attrs.evolve(info.spent, wall_seconds=0.0))


@pytest.mark.parametrize("call", OF_RUNNING.values(), ids=OF_RUNNING)
async def test_a_running_session_takes_nothing_new(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, call: ApiCall
) -> None:
    await refused(store, sup, session, call)


@pytest.mark.parametrize("call", OF_STOPPED.values(), ids=OF_STOPPED)
async def test_a_stopped_session_takes_nothing_new(
    store: FailingStore, sup: Supervisor, session: Session, call: ApiCall
) -> None:
    await session.stop()
    await refused(store, sup, session, call)


async def test_unarchiving_is_refused_while_degraded(
    store: FailingStore, sup: Supervisor, session: Session
) -> None:
    await session.stop()
    await session.archive()
    await refused(store, sup, session, lambda _, session: session.unarchive())


@pytest.mark.parametrize("verb", ["edit", "move", "promote", "cancel"])
async def test_queued_inputs_stay_unchanged_while_degraded(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, verb: str
) -> None:
    waits = (await session.send("second")).input_id
    calls: dict[str, ApiCall] = {
        "edit": lambda _, session: session.edit_input(waits, "another"),
        "move": lambda _, session: session.move_input(waits, 0),
        "promote": lambda _, session: session.promote_input(waits),
        "cancel": lambda _, session: session.cancel_input(waits),
    }
    await refused(store, sup, session, calls[verb])


async def test_a_spawn_is_refused_and_the_turn_continues(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    await degrade(store, sup)

    with pytest.raises(StoreDegraded):
        await run.do(run.turn.spawn("echo", "errand"))

    assert (await session.info()).phase == "running"
    assert len(await sup.tree()) == 1


async def test_the_holder_of_a_key_is_found_while_degraded(
    store: FailingStore, sup: Supervisor
) -> None:
    bearer = await sup.create("fake", key=KEY)
    await degrade(store, sup)

    assert await sup.get_or_create(KEY) == bearer


async def test_a_key_is_free_after_its_session_was_refused(
    store: FailingStore, sup: Supervisor
) -> None:
    await degrade(store, sup)
    with pytest.raises(StoreDegraded):
        await sup.create("fake", key=KEY)
    await store.recover()

    assert (await (await sup.create("fake", key=KEY)).info()).phase == "idle"


async def test_a_refused_input_is_accepted_after_recovery(
    store: FailingStore, sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    await degrade(store, sup)
    with pytest.raises(StoreDegraded):
        await session.send("hello")
    await store.recover()

    await session.send("hello")

    assert (await fake_agent.next_run()).turn.text == "hello"


async def test_suspended_and_live_sessions_raise_the_same_error(
    store: FailingStore, sup: Supervisor, session: Session
) -> None:
    await session.stop()
    await degrade(store, sup)

    with pytest.raises(StoreDegraded):
        await session.resume()


async def test_waking_a_session_into_a_degraded_store_raises_the_same_error(
    store: FailingStore, session: Session
) -> None:
    await session.stop()
    store.start_failing()  # not yet noticed

    with pytest.raises(StoreDegraded) as refusal:
        await session.send("hello")

    assert refusal.value.hint == HINT


async def test_deleting_into_a_degraded_store_raises_the_same_error(
    store: FailingStore, sup: Supervisor, session: Session
) -> None:
    await session.stop()
    store.start_failing()

    with pytest.raises(StoreDegraded):
        await sup.delete(session.id)

    await store.recover()
    assert await sup.exists(session.id)
