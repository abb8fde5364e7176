"""A session that is written when the store falls ill, and not yet up: it comes up, or is gone."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio

from actors.testing import settle
from supervisor import Session, StoreDegraded, Supervisor, SupervisorError
from tests.support.fake_agents import FakeAgent, records
from tests.support.fake_store import FailingStore, check_stored

COMMITS = (1, 2, 3, 4)


async def nobody_is_left_starting(sup: Supervisor) -> None:
    phases = {info.id: info.phase for info in (await sup.list()).items}
    assert "starting" not in phases.values(), phases
    for session_id, phase in phases.items():
        assert (await sup.session(session_id).info()).phase == phase


@pytest.mark.parametrize("commits", COMMITS)
async def test_a_session_created_while_degraded_is_usable_after_recovery(
    store: FailingStore, sup: Supervisor, nursery: trio.Nursery, fake_agent: FakeAgent, commits: int
) -> None:
    async def create() -> None:
        with suppress(StoreDegraded):
            await sup.create("fake", key="fake:chat:ann")

    store.commits_left = commits
    nursery.start_soon(create)
    await trio.sleep(30)

    await store.recover()
    await trio.sleep(30)

    await nobody_is_left_starting(sup)
    session = await sup.get_or_create("fake:chat:ann")
    await session.send("hello")
    assert (await fake_agent.next_run()).turn.text == "hello"
    await check_stored(store, session)


@pytest.mark.parametrize("commits", COMMITS)
async def test_a_child_created_while_degraded_runs_after_recovery(
    store: FailingStore, sup: Supervisor, session: Session, nursery: trio.Nursery, commits: int
) -> None:
    async def spawn() -> None:
        with suppress(SupervisorError):
            await session.spawn("echo", "errand")

    store.commits_left = commits
    nursery.start_soon(spawn)
    await trio.sleep(30)

    await store.recover()
    await trio.sleep(30)

    await nobody_is_left_starting(sup)
    for info in (await sup.list(parent=session.id)).items:
        assert len(await records(sup.session(info.id), "turn_ended")) == 1


@pytest.mark.parametrize("commits", COMMITS)
async def test_a_parent_stops_while_the_creation_of_a_child_is_pending(
    store: FailingStore, sup: Supervisor, session: Session, nursery: trio.Nursery, commits: int
) -> None:
    async def spawn() -> None:
        with suppress(SupervisorError):
            await session.spawn("echo", "hello")

    store.commits_left = commits
    nursery.start_soon(spawn)
    await trio.sleep(5)
    with trio.fail_after(10):
        await session.stop()

    await store.recover()
    await trio.sleep(30)
    await settle()

    assert {info.phase for info in (await sup.list()).items} == {"stopped"}


@pytest.mark.parametrize("commits", COMMITS)
async def test_a_session_resumed_while_degraded_is_usable_after_recovery(
    store: FailingStore, sup: Supervisor, session: Session, nursery: trio.Nursery, commits: int
) -> None:
    async def resume() -> None:
        with suppress(StoreDegraded):
            await session.resume()

    await session.stop()
    store.commits_left = commits
    nursery.start_soon(resume)
    await trio.sleep(30)

    await store.recover()
    await trio.sleep(30)

    await nobody_is_left_starting(sup)
    await session.send("hello")
    await check_stored(store, session)


async def test_a_suspended_session_wakes_for_queued_inputs_after_recovery(
    store: FailingStore, sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", suspend_after_seconds=1.0)
    await trio.sleep(5)
    assert (await session.info()).phase == "suspended"
    store.commits_left = 1

    with trio.move_on_after(30):
        await session.send("hello", idempotency_key="k")
    await store.recover()
    await session.send("hello", idempotency_key="k")

    assert [run.turn.text for run in fake_agent.runs] == ["hello"]
    await check_stored(store, session)
