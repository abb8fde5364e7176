"""While the store is degraded nothing new is taken: refused in words, and nothing left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from supervisor import Session, StoreDegraded, Supervisor
from tests.sessions.cast import Player, Scene
from tests.sessions.degraded.frail import HINT, PROBLEM, FrailStore, check_kept, make_known

Wish: TypeAlias = Callable[[Supervisor, Session], Awaitable[Any]]
KEY = "player:chat:ann"

OF_RUNNING: dict[str, Wish] = {
    "send": lambda _, session: session.send("more"),
    "prompt": lambda _, session: session.prompt("more"),
    "send to interrupt": lambda _, session: session.send("more", when_busy="interrupt"),
    "send to steer": lambda _, session: session.send("more", when_busy="steer"),
    "steer": lambda _, session: session.steer("left"),
    "interrupt and replace": lambda _, session: session.interrupt(replace_with="more"),
    "spawn": lambda _, session: session.spawn("echo", "errand"),
    "set": lambda _, session: session.set(title="another"),
    "clear": lambda _, session: session.clear(),
    "append": lambda _, session: session.append("user", "by the way"),
    "fork": lambda _, session: session.fork(),
    "delete": lambda sup, session: sup.delete(session.id),
    "create": lambda sup, _: sup.create("echo"),
    "create with a key": lambda sup, _: sup.create("player", key=KEY),
    "create once": lambda sup, _: sup.create("echo", idempotency_key="k"),
    "get or create": lambda sup, _: sup.get_or_create(KEY),
    "new": lambda sup, _: sup.new(KEY),
}
OF_STOPPED: dict[str, Wish] = {
    "send": lambda _, session: session.send("more"),
    "resume": lambda _, session: session.resume(),
    "clear": lambda _, session: session.clear(),
    "append": lambda _, session: session.append("user", "by the way"),
    "set": lambda _, session: session.set(tags=["a"]),
    "archive": lambda _, session: session.archive(),
    "fork": lambda _, session: session.fork(),
    "delete": lambda sup, session: sup.delete(session.id),
}


async def refused(store: FrailStore, sup: Supervisor, session: Session, wish: Wish) -> None:
    """It is refused while the store is ill, and when it is well nothing has come of it."""
    before = [await sup.list(), await session.info(), await session.history()]
    await make_known(store, sup)

    with pytest.raises(StoreDegraded) as refusal:
        await wish(sup, session)

    assert (refusal.value.code, refusal.value.hint) == ("store_degraded", HINT)
    assert refusal.value.args[0] == PROBLEM
    assert await session.info() == before[1]
    await store.get_well()
    assert [await sup.list(), await session.info(), await session.history()] == before
    await check_kept(store, session)


@pytest.mark.parametrize("wish", OF_RUNNING.values(), ids=OF_RUNNING)
async def test_a_running_session_takes_nothing_new(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, wish: Wish
) -> None:
    await refused(store, sup, session, wish)


@pytest.mark.parametrize("wish", OF_STOPPED.values(), ids=OF_STOPPED)
async def test_a_stopped_session_takes_nothing_new(
    store: FrailStore, sup: Supervisor, session: Session, wish: Wish
) -> None:
    await session.stop()
    await refused(store, sup, session, wish)


async def test_an_archived_session_stays_so(
    store: FrailStore, sup: Supervisor, session: Session
) -> None:
    await session.stop()
    await session.archive()
    await refused(store, sup, session, lambda _, session: session.unarchive())


@pytest.mark.parametrize("verb", ["edit", "move", "promote", "cancel"])
async def test_what_waits_in_the_queue_stays_as_it_is(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, verb: str
) -> None:
    waits = (await session.send("second")).input_id
    wishes: dict[str, Wish] = {
        "edit": lambda _, session: session.edit_input(waits, "another"),
        "move": lambda _, session: session.move_input(waits, 0),
        "promote": lambda _, session: session.promote_input(waits),
        "cancel": lambda _, session: session.cancel_input(waits),
    }
    await refused(store, sup, session, wishes[verb])


async def test_an_agent_that_would_spawn_is_refused_and_its_turn_goes_on(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene
) -> None:
    await make_known(store, sup)

    with pytest.raises(StoreDegraded):
        await scene.do(scene.turn.spawn("echo", "errand"))

    assert (await session.info()).phase == "running"
    assert len(await sup.tree()) == 1


async def test_whoever_bears_a_key_is_still_found(store: FrailStore, sup: Supervisor) -> None:
    bearer = await sup.create("player", key=KEY)
    await make_known(store, sup)

    assert await sup.get_or_create(KEY) == bearer


async def test_a_key_is_free_after_its_session_was_refused(
    store: FrailStore, sup: Supervisor
) -> None:
    await make_known(store, sup)
    with pytest.raises(StoreDegraded):
        await sup.create("player", key=KEY)
    await store.get_well()

    assert (await (await sup.create("player", key=KEY)).info()).phase == "idle"


async def test_what_was_refused_is_taken_when_the_store_is_well(
    store: FrailStore, sup: Supervisor, session: Session, player: Player
) -> None:
    await make_known(store, sup)
    with pytest.raises(StoreDegraded):
        await session.send("hello")
    await store.get_well()

    await session.send("hello")

    assert (await player.next_scene()).turn.text == "hello"


async def test_a_session_at_rest_says_the_same_as_one_that_is_awake(
    store: FrailStore, sup: Supervisor, session: Session
) -> None:
    await session.stop()
    await make_known(store, sup)

    with pytest.raises(StoreDegraded):
        await session.resume()


async def test_whoever_finds_out_by_waking_a_session_is_told_the_same(
    store: FrailStore, session: Session
) -> None:
    await session.stop()
    store.fall_ill()  # and nobody knows

    with pytest.raises(StoreDegraded) as refusal:
        await session.send("hello")

    assert refusal.value.hint == HINT


async def test_whoever_finds_out_by_deleting_is_told_the_same(
    store: FrailStore, sup: Supervisor, session: Session
) -> None:
    await session.stop()
    store.fall_ill()

    with pytest.raises(StoreDegraded):
        await sup.delete(session.id)

    await store.get_well()
    assert await sup.exists(session.id)
