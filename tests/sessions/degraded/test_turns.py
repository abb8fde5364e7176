"""Turns that end, and agents that come and go, while the store is degraded."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import Restart, Session, Settings, Supervisor, TurnResult
from supervisor.drivers.python import AgentDied
from tests.sessions.cast import Follow, Player, Scene, numbers, records
from tests.sessions.degraded.frail import FrailStore, check_kept, make_known


@pytest.fixture
def settings() -> Settings:
    return Settings(restart=Restart(policy="on_crash"))


async def test_the_result_of_a_turn_arrives_when_it_is_durable(
    store: FrailStore, sup: Supervisor, session: Session, player: Player, nursery: trio.Nursery
) -> None:
    results: list[TurnResult] = []

    async def prompt() -> None:
        results.append(await session.prompt("first"))

    nursery.start_soon(prompt)
    scene = await player.next_scene()
    await make_known(store, sup)
    scene.finish("done")
    await trio.sleep(100)
    assert results == []

    await store.get_well()

    assert [(one.text, one.outcome) for one in results] == [("done", "completed")]
    await check_kept(store, session)


async def test_the_next_turn_begins_when_the_end_of_the_last_is_durable(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, player: Player
) -> None:
    await session.send("second")
    await make_known(store, sup)
    scene.finish("done")
    await trio.sleep(100)
    assert len(player.scenes) == 1

    await store.get_well()

    assert [one.turn.text for one in player.scenes] == ["first", "second"]
    kinds = [record.kind for record in await records(session)]
    assert kinds.index("turn_ended") < len(kinds) - kinds[::-1].index("turn_started")
    await check_kept(store, session)


async def test_everything_of_a_turn_is_before_its_end(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene
) -> None:
    await make_known(store, sup)
    await scene.do(scene.turn.say("one "))
    call = await scene.open_call("bash")
    await call.close()
    await scene.do(scene.turn.say("two"))
    scene.finish()
    await trio.sleep(10)

    await store.get_well()

    own = [one.kind for one in await records(session) if one.turn_id == scene.turn.id]
    assert own[-1] == "turn_ended"
    assert own.count("agent_text") == 2
    assert own.index("tool_call") < own.index("tool_ended")
    await check_kept(store, session)


async def test_a_child_is_not_told_of_before_it_is_durable(
    store: FrailStore, sup: Supervisor, session: Session, player: Player
) -> None:
    child = await session.spawn("player", "errand")
    errand = await player.next_scene()
    await make_known(store, sup)
    errand.finish("done")
    await trio.sleep(10)
    assert await records(session, "child_ended") == []

    await store.get_well()
    await trio.sleep(1)

    assert len(await records(session, "child_ended")) == 1
    await check_kept(store, session, child)


async def test_an_agent_that_dies_starts_again_when_its_death_is_durable(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, player: Player
) -> None:
    await session.send("second")
    await make_known(store, sup)
    scene.fail(AgentDied("on purpose"))
    await trio.sleep(100)
    assert len(player.scenes) == 1

    await store.get_well()
    await trio.sleep(100)

    assert [one.turn.text for one in player.scenes] == ["first", "second"]
    await check_kept(store, session)


async def test_a_session_that_waits_to_start_its_agent_again_can_be_stopped(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, player: Player
) -> None:
    await session.send("second")
    await make_known(store, sup)
    scene.fail(AgentDied("on purpose"))
    await trio.sleep(100)

    with trio.fail_after(1):
        await session.stop()

    await store.get_well()
    assert len(player.scenes) == 1
    await check_kept(store, session)


async def test_an_agent_that_raises_fails_its_turn_and_nothing_else(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene
) -> None:
    await make_known(store, sup)
    scene.fail(RuntimeError("on purpose"))
    await settle()

    await store.get_well()

    assert (await records(session, "turn_ended"))[-1].body["outcome"] == "failed"
    assert (await session.info()).phase == "idle"


async def test_a_session_goes_on_through_many_faults(
    store: FrailStore, session: Session, player: Player, follow: Follow
) -> None:
    seen = await follow(session)
    for number in range(5):
        await session.send(str(number))
        scene = await player.next_scene()
        store.fall_ill()
        await scene.do(scene.turn.say("word"))
        scene.finish()
        await trio.sleep(3)
        await store.get_well()

    assert numbers(seen) == [record.seq for record in await records(session)]
    assert len(await records(session, "turn_ended")) == 5
    await check_kept(store, session)
