"""What met the store's trouble and is certainly not written: refused, and as if never asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from actors.testing import settle
from supervisor import Limits, Session, StoreDegraded, Supervisor
from tests.sessions.cast import Player, Scene, outcomes, records, texts, waiting_texts
from tests.sessions.degraded.frail import FrailStore, check_kept

Ask = Callable[[Supervisor, Session], Awaitable[object]]


@pytest.fixture
def store(store: FrailStore) -> FrailStore:
    store.is_certain = True
    return store


ASKED: dict[str, Ask] = {
    "send": lambda _, session: session.send("second"),
    "steer": lambda _, session: session.steer("softer"),
    "interrupt for another": lambda _, session: session.send("second", when_busy="interrupt"),
    "replace": lambda _, session: session.interrupt("turn", replace_with="second"),
    "spawn": lambda _, session: session.spawn("player", "errand"),
    "set": lambda _, session: session.set(title="another"),
    "clear": lambda _, session: session.clear(),
    "create": lambda sup, _: sup.create("player", key="player:a:b"),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
async def test_it_is_refused_at_once_and_nothing_of_it_is_left(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, ask: Ask
) -> None:
    before = await session.info()
    store.fall_ill()

    with pytest.raises(StoreDegraded, match="the disk is full"), trio.fail_after(1):
        await ask(sup, session)

    assert await session.info() == before
    assert [info.id for info in await sup.list()] == [session.id]
    await store.get_well()
    assert (await session.info()).last_seq == before.last_seq
    assert await outcomes(session) == {scene.turn.input_id: ["delivered"]}
    await check_kept(store, session)


async def test_whoever_asks_again_afterwards_is_answered_as_if_for_the_first_time(
    store: FrailStore, session: Session, scene: Scene
) -> None:
    store.fall_ill()
    with pytest.raises(StoreDegraded):
        await session.send("second", idempotency_key="k")
    await store.get_well()

    receipt = await session.send("another text", idempotency_key="k")

    assert receipt.status == "queued"
    assert await waiting_texts(session) == ["another text"]
    await check_kept(store, session)


async def test_what_the_agent_has_said_before_is_written_and_what_it_says_after_too(
    store: FrailStore, session: Session, scene: Scene
) -> None:
    await scene.do(scene.turn.say("before "))
    store.fall_ill()
    with pytest.raises(StoreDegraded):
        await session.send("second")
    await scene.do(scene.turn.say("after"))
    await store.get_well()
    await trio.sleep(1.0)

    assert "".join(texts(await records(session, "agent_text"))) == "before after"
    assert await waiting_texts(session) == []
    await check_kept(store, session)


async def test_what_came_before_output_that_has_its_number_waits_instead(
    store: FrailStore, session: Session, scene: Scene, nursery: trio.Nursery
) -> None:
    store.fall_ill()
    store.fails_after_seconds = 1.0
    nursery.start_soon(session.send, "second")
    await settle()
    await scene.do(scene.turn.plan(["one"]))  # numbered while the commit is under way
    await trio.sleep(2.0)
    await store.get_well()

    assert await waiting_texts(session) == ["second"]
    await check_kept(store, session)


async def test_a_place_that_was_taken_for_it_is_free_again(
    store: FrailStore, sup: Supervisor, player: Player
) -> None:
    session = await sup.create("player", limits=Limits(max_children=1))
    store.fall_ill()
    with pytest.raises(StoreDegraded):
        await session.spawn("player", "errand")
    await store.get_well()

    await session.spawn("player", "errand")

    assert len((await session.info()).children) == 1


async def test_brakes_are_not_refused(store: FrailStore, session: Session, scene: Scene) -> None:
    store.fall_ill()

    assert (await session.interrupt()).stopped == 1
    await session.stop()

    assert (await session.info()).phase == "stopped"
    await store.get_well()
    await check_kept(store, session)
