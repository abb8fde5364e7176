"""Time goes on while the store is degraded: deadlines, silence, time-outs, lives that are over."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import Restart, Session, Settings, Supervisor
from supervisor.drivers.python import AgentDied
from tests.sessions.cast import Player, Scene, outcomes, records
from tests.sessions.degraded.frail import FrailStore, check_kept, make_known


@pytest.fixture
def settings() -> Settings:
    return Settings(
        quiet_after_seconds=10.0,
        stalled_after_seconds=20.0,
        on_stall="interrupt",
        permission_timeout_seconds=15.0,
        suspend_after_seconds=30.0,
    )


@pytest.fixture
async def sup(player: Player, kid: Player, settings: Settings) -> AsyncIterator[Supervisor]:
    agents = [player.agent, kid.agent]
    async with supervisor.open(":memory:", agents=agents, settings=settings) as opened:
        try:
            yield opened
        finally:
            player.dismiss()
            kid.dismiss()


async def test_a_turn_that_is_silent_is_interrupted_in_time(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene
) -> None:
    await make_known(store, sup)

    with trio.fail_after(22):
        await scene.over.wait()

    await store.get_well()
    kinds = [record.kind for record in await records(session)]
    assert kinds.count("stalled") == 1
    await check_kept(store, session)


async def test_a_turn_that_waits_for_the_store_is_nobodys_stall(
    store: FrailStore, session: Session, player: Player, nursery: trio.Nursery
) -> None:
    store.fall_ill()
    nursery.start_soon(session.send, "hello")

    await trio.sleep(100)
    await store.get_well()

    assert [scene.turn.text for scene in player.scenes] == ["hello"]
    assert await records(session, "stalled") == []
    assert not player.scenes[0].over.is_set()
    await check_kept(store, session)


async def test_an_agent_that_is_slowed_by_the_store_is_not_stalled(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene
) -> None:
    async def talk() -> None:
        while True:
            await scene.turn.say("x" * 1024)

    await make_known(store, sup)
    scene.begin(talk())

    await trio.sleep(100)

    assert not scene.over.is_set()


async def test_a_turn_ends_at_its_deadline(
    store: FrailStore, sup: Supervisor, player: Player
) -> None:
    session = await sup.create("player", turn_deadline_seconds=5.0)
    await session.send("first")
    scene = await player.next_scene()
    await make_known(store, sup)

    with trio.fail_after(6):
        await scene.over.wait()

    await store.get_well()
    assert (await records(session, "turn_ended"))[-1].body["outcome"] == "timed_out"
    await check_kept(store, session)


async def test_a_question_that_nobody_answers_is_rejected_in_time(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene
) -> None:
    deed = scene.begin(scene.turn.ask("may I?", tool="bash"))
    await settle()
    await make_known(store, sup)

    with trio.fail_after(16):
        assert not await deed.wait()

    await store.get_well()
    assert await sup.permissions() == ()
    await check_kept(store, session)


async def test_a_question_that_nobody_can_see_is_seen_when_the_store_is_back(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene
) -> None:
    await make_known(store, sup)
    scene.begin(scene.turn.ask("may I?", tool="bash"))
    await trio.sleep(5)
    assert await sup.permissions() == ()

    await store.get_well()

    assert [one.tool for one in await sup.permissions()] == ["bash"]


async def test_an_input_expires_though_nobody_can_write_it_down(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, player: Player
) -> None:
    late = await session.send("second", ttl_seconds=5.0)
    await make_known(store, sup)
    await trio.sleep(10)
    scene.finish()

    await store.get_well()

    assert (await outcomes(session))[late.input_id] == ["expired"]
    assert len(player.scenes) == 1
    await check_kept(store, session)


async def test_an_input_of_a_session_at_rest_expires_when_the_store_is_back(
    store: FrailStore, sup: Supervisor, player: Player
) -> None:
    session = await sup.create("player", restart=Restart(policy="never"))
    await session.send("first")
    scene = await player.next_scene()
    waits = await session.send("second", ttl_seconds=60.0)
    scene.fail(AgentDied("on purpose"))
    await session.wait_stopped()
    await make_known(store, sup)
    await trio.sleep(100)

    await store.get_well()
    await trio.sleep(100)

    assert (await outcomes(session))[waits.input_id] == ["expired"]
    await check_kept(store, session)


async def test_a_child_whose_time_is_over_stops_in_time(
    store: FrailStore, sup: Supervisor, session: Session, kid: Player
) -> None:
    child = await session.spawn("kid", "errand", ttl_seconds=5.0)
    errand = await kid.next_scene()
    await make_known(store, sup)

    with trio.fail_after(6):
        await errand.over.wait()
        await child.wait_stopped()

    await store.get_well()
    assert (await records(child, "session_stopped"))[-1].body["reason"] == "ttl_expired"
    await check_kept(store, session, child)


async def test_a_child_at_rest_whose_time_is_over_stops_when_the_store_is_back(
    store: FrailStore, sup: Supervisor, session: Session, kid: Player
) -> None:
    child = await session.spawn("kid", "errand", ttl_seconds=60.0)
    (await kid.next_scene()).finish()
    await trio.sleep(50)
    assert (await child.info()).phase == "suspended"
    await make_known(store, sup)
    await trio.sleep(60)

    await store.get_well()
    await trio.sleep(5)

    assert (await child.info()).phase == "stopped"
    await check_kept(store, session, child)


async def test_a_session_that_would_rest_does_when_the_store_is_back(
    store: FrailStore, sup: Supervisor, session: Session
) -> None:
    await make_known(store, sup)
    await trio.sleep(100)

    await store.get_well()

    assert (await session.info()).phase == "suspended"
    assert sup._house.tree.live() == []
    await check_kept(store, session)


async def test_a_session_that_cannot_be_stopped_yet_is_no_flood_in_the_log(
    store: FrailStore,
    sup: Supervisor,
    session: Session,
    kid: Player,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await session.spawn("kid", "errand", ttl_seconds=60.0)
    (await kid.next_scene()).finish()
    await trio.sleep(50)
    await make_known(store, sup)

    await trio.sleep(60)

    assert len(caplog.records) <= 60
