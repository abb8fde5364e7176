"""A session that is written when the store falls ill, and not yet up: it comes up, or is gone."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio

from actors.testing import settle
from supervisor import Session, StoreDegraded, Supervisor, SupervisorError
from tests.sessions.cast import Player, records
from tests.sessions.degraded.frail import FrailStore, check_kept

COMMITS = (1, 2, 3, 4)


async def nobody_is_left_starting(sup: Supervisor) -> None:
    phases = {info.id: info.phase for info in (await sup.list()).items}
    assert "starting" not in phases.values(), phases
    for session_id, phase in phases.items():
        assert (await sup.session(session_id).info()).phase == phase


@pytest.mark.parametrize("commits", COMMITS)
async def test_a_session_whose_making_was_cut_short_is_of_use_when_the_store_is_back(
    store: FrailStore, sup: Supervisor, nursery: trio.Nursery, player: Player, commits: int
) -> None:
    async def create() -> None:
        with suppress(StoreDegraded):
            await sup.create("player", key="player:chat:ann")

    store.commits_left = commits
    nursery.start_soon(create)
    await trio.sleep(30)

    await store.get_well()
    await trio.sleep(30)

    await nobody_is_left_starting(sup)
    session = await sup.get_or_create("player:chat:ann")
    await session.send("hello")
    assert (await player.next_scene()).turn.text == "hello"
    await check_kept(store, session)


@pytest.mark.parametrize("commits", COMMITS)
async def test_a_child_whose_making_was_cut_short_does_its_errand_when_the_store_is_back(
    store: FrailStore, sup: Supervisor, session: Session, nursery: trio.Nursery, commits: int
) -> None:
    async def spawn() -> None:
        with suppress(SupervisorError):
            await session.spawn("echo", "errand")

    store.commits_left = commits
    nursery.start_soon(spawn)
    await trio.sleep(30)

    await store.get_well()
    await trio.sleep(30)

    await nobody_is_left_starting(sup)
    for info in (await sup.list(parent=session.id)).items:
        assert len(await records(sup.session(info.id), "turn_ended")) == 1


@pytest.mark.parametrize("commits", COMMITS)
async def test_a_parent_stops_though_the_making_of_a_child_was_cut_short(
    store: FrailStore, sup: Supervisor, session: Session, nursery: trio.Nursery, commits: int
) -> None:
    async def spawn() -> None:
        with suppress(SupervisorError):
            await session.spawn("echo", "hello")

    store.commits_left = commits
    nursery.start_soon(spawn)
    await trio.sleep(5)
    with trio.fail_after(10):
        await session.stop()

    await store.get_well()
    await trio.sleep(30)
    await settle()

    assert {info.phase for info in (await sup.list()).items} == {"stopped"}


@pytest.mark.parametrize("commits", COMMITS)
async def test_a_session_whose_resumption_was_cut_short_is_of_use_when_the_store_is_back(
    store: FrailStore, sup: Supervisor, session: Session, nursery: trio.Nursery, commits: int
) -> None:
    async def resume() -> None:
        with suppress(StoreDegraded):
            await session.resume()

    await session.stop()
    store.commits_left = commits
    nursery.start_soon(resume)
    await trio.sleep(30)

    await store.get_well()
    await trio.sleep(30)

    await nobody_is_left_starting(sup)
    await session.send("hello")
    await check_kept(store, session)


async def test_a_session_that_was_asleep_wakes_for_what_waits_when_the_store_is_back(
    store: FrailStore, sup: Supervisor, player: Player
) -> None:
    session = await sup.create("player", suspend_after_seconds=1.0)
    await trio.sleep(5)
    assert (await session.info()).phase == "suspended"
    store.commits_left = 1

    with trio.move_on_after(30):
        await session.send("hello", idempotency_key="k")
    await store.get_well()
    await session.send("hello", idempotency_key="k")

    assert [scene.turn.text for scene in player.scenes] == ["hello"]
    await check_kept(store, session)
