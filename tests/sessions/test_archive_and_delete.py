"""Change of settings, archive and deletion of sessions."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from supervisor import (
    Limits,
    Phase,
    Session,
    SessionNotActive,
    SessionNotFound,
    Settings,
    Supervisor,
    SupervisorError,
)
from supervisor.core import events as ev
from supervisor.core.ids import InputId
from supervisor.core.step import Refused
from supervisor.handles.submission import ResultWaiter
from supervisor.sessions.idempotency import SessionRequest
from tests.support.fake_agents import (
    AgentRun,
    records,
)
from tests.support.session_states import REST_SECONDS, bring_to, phase_of


@pytest.fixture
def settings() -> Settings:
    return Settings(suspend_after_seconds=REST_SECONDS)


async def test_set_changes_only_the_given_fields(sup: Supervisor) -> None:
    session = await sup.create("echo", title="Old", tags=["a"], custom={"x": "1"})

    await session.set(title="New", limits=Limits(turns=3))
    first = await session.info()
    await session.set(tags=[], custom={})
    second = await session.info()

    assert (first.title, first.tags, first.custom) == ("New", ("a",), {"x": "1"})
    assert first.limits == Limits(turns=3)
    assert (second.title, second.tags, second.custom) == ("New", (), {})


async def test_concurrent_changes_of_different_limits_all_apply(
    session: Session,
) -> None:
    async with trio.open_nursery() as nursery:
        for change in ({"tokens": 500}, {"turns": 9}, {"max_children": 1}):
            nursery.start_soon(partial(session.set, limits=change))

    limits = (await session.info()).limits
    assert (limits.tokens, limits.turns, limits.max_children) == (500, 9, 1)


@pytest.mark.parametrize("state", ["running", "suspended", "stopped"])
async def test_set_works_in_every_phase(sup: Supervisor, state: str) -> None:
    session = await sup.create("scripted")
    if state == "running":
        await session.send("sleep 1000")
    else:
        await bring_to(session, state)
    before = await phase_of(session)

    await session.set(title="New")
    info = await session.info()

    assert (info.title, info.phase) == ("New", before)


async def test_only_a_stopped_session_can_be_archived(session: Session) -> None:
    with pytest.raises(SessionNotActive) as refused:
        await session.archive()

    info = await session.info()
    assert refused.value.hint
    assert (info.archived, info.phase) == (False, Phase.IDLE)


async def test_an_archived_session_is_read_only_until_it_is_unarchived(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    await session.stop()
    await session.archive()
    before = await session.info()

    for change in (
        session.clear,
        lambda: session.append("user", "a note"),
        lambda: session.set(title="New"),
        lambda: session.send("again"),
    ):
        with pytest.raises(SessionNotActive):
            await change()

    assert before.archived
    assert await session.info() == before
    await session.unarchive()
    assert (await session.prompt("again")).text == "again"


async def test_unarchiving_a_running_session_is_refused(
    session: Session,
) -> None:
    with pytest.raises(SessionNotActive, match="not archived") as refused:
        await session.unarchive()

    assert refused.value.hint == "use it as it is"


async def test_archiving_and_unarchiving_are_idempotent(session: Session) -> None:
    await session.stop()

    for change in (session.archive, session.archive, session.unarchive, session.unarchive):
        await change()

    assert len(await records(session, "session_archived")) == 2


async def test_deleting_leaves_nothing_in_any_table(sup: Supervisor) -> None:
    session = await sup.create("echo", key="echo:irc:ann", idempotency_key="made")
    await session.prompt("hello", idempotency_key="said")
    store = sup._services.store

    await sup.delete(session.id)

    assert not await sup.exists(session.id)
    assert (await sup.list()).items == ()
    assert await store.records(session.id) == []
    assert await store.all_records() == []
    assert await store.stored_reply(session.id, "said") is None
    assert await store.stored_reply("create", "made") is None
    assert sup._parts.registry.find_slot(session.id) is None


async def test_deleting_stops_first(session: Session, run: AgentRun, sup: Supervisor) -> None:
    await sup.delete(session.id)

    assert run.over.is_set()
    with pytest.raises(SessionNotFound):
        await session.info()


async def test_deleting_ends_watchers_and_raises_in_waiters(
    session: Session, run: AgentRun, sup: Supervisor
) -> None:
    told: list[str] = []

    async def watch() -> None:
        async with session.watch() as feed:
            async for _ in feed:
                pass
        told.append("watcher")

    async def prompt() -> None:
        with pytest.raises(SupervisorError):
            await session.prompt("second")
        told.append("prompt")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        nursery.start_soon(prompt)
        await trio.testing.wait_all_tasks_blocked()
        await sup.delete(session.id)

    assert sorted(told) == ["prompt", "watcher"]


async def test_deleting_a_sleeping_a_stopped_and_an_archived_session_works(sup: Supervisor) -> None:
    sleeping, stopped, archived = [await sup.create("echo") for _ in range(3)]
    await trio.sleep(2 * REST_SECONDS)
    await stopped.stop()
    await archived.stop()
    await archived.archive()

    for session in (sleeping, stopped, archived):
        await sup.delete(session.id)

    assert (await sup.list()).items == ()


async def test_deleting_twice_raises_session_not_found(sup: Supervisor, session: Session) -> None:
    await sup.delete(session.id)

    with pytest.raises(SessionNotFound):
        await sup.delete(session.id)


async def test_concurrent_deletes_of_a_session_all_return(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    heard: list[str] = []

    async def delete() -> None:
        try:
            await sup.delete(session.id)
            heard.append("deleted")
        except SessionNotFound:
            heard.append("not found")

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(delete)

    assert len(heard) == 10
    assert not await sup.exists(session.id)


async def test_an_idempotency_key_of_a_deleted_session_is_free_again(sup: Supervisor) -> None:
    session = await sup.create("echo", name="a", idempotency_key="k")
    await sup.delete(session.id)

    again = await sup.create("echo", name="another", idempotency_key="k")

    assert again.id != session.id


async def test_a_session_with_a_zombie_is_deleted_at_once(
    sup: Supervisor, shielded_session: Session, shielded_run: AgentRun
) -> None:
    await shielded_session.interrupt()
    assert (await shielded_session.info()).badge == "unhealthy"
    began = trio.current_time()

    await sup.delete(shielded_session.id)

    assert trio.current_time() == began
    assert not await sup.exists(shielded_session.id)


async def test_a_watcher_of_a_deleted_session_closes_after_id_reuse(
    sup: Supervisor, session: Session
) -> None:
    """The session slot still exists, because a caller has not yet received its result."""
    with ResultWaiter(sup._parts.registry, session.id, InputId("in_1")):
        async with session.watch():
            await sup.delete(session.id)
            with pytest.raises(SessionNotFound):
                async with session.watch():
                    pass

    assert not await sup.exists(session.id)


async def test_a_request_in_flight_does_not_restart_a_session_being_deleted(
    sup: Supervisor,
) -> None:
    session = await sup.create("echo")
    await session.stop()
    tree = sup._parts.registry
    ref = await tree.get_or_start(session.id)
    sup._services.removals.add(session.id)  # as a deletion does before it stops it

    resume = SessionRequest(ev.ResumeRequested(**sup._services.stamp()))
    answer = await ref.ask(resume)

    assert isinstance(answer, Refused)
    assert "deleted" in str(answer.error)
