"""Time goes on while the store is degraded: deadlines, silence, time-outs, lives that are over."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import Restart, Session, Settings, Supervisor
from supervisor.drivers.python import AgentDied
from tests.support.fake_agents import AgentRun, FakeAgent, outcomes, records
from tests.support.fake_store import FailingStore, check_stored, degrade


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
async def sup(
    fake_agent: FakeAgent, child_agent: FakeAgent, settings: Settings
) -> AsyncIterator[Supervisor]:
    agents = [fake_agent.agent, child_agent.agent]
    async with supervisor.open(":memory:", agents=agents, settings=settings) as opened:
        try:
            yield opened
        finally:
            fake_agent.finish_open_runs()
            child_agent.finish_open_runs()


async def test_a_turn_that_is_silent_is_interrupted_in_time(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    await degrade(store, sup)

    with trio.fail_after(22):
        await run.over.wait()

    await store.recover()
    kinds = [record.kind for record in await records(session)]
    assert kinds.count("stalled") == 1
    await check_stored(store, session)


async def test_a_turn_that_waits_for_the_store_is_nobodys_stall(
    store: FailingStore, session: Session, fake_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    store.start_failing()
    nursery.start_soon(session.send, "hello")

    await trio.sleep(100)
    await store.recover()

    assert [run.turn.text for run in fake_agent.runs] == ["hello"]
    assert await records(session, "stalled") == []
    assert not fake_agent.runs[0].over.is_set()
    await check_stored(store, session)


async def test_an_agent_that_is_slowed_by_the_store_is_not_stalled(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    async def talk() -> None:
        while True:
            await run.turn.say("x" * 1024)

    await degrade(store, sup)
    run.begin(talk())

    await trio.sleep(100)

    assert not run.over.is_set()


async def test_a_turn_ends_at_its_deadline(
    store: FailingStore, sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", turn_deadline_seconds=5.0)
    await session.send("first")
    run = await fake_agent.next_run()
    await degrade(store, sup)

    with trio.fail_after(6):
        await run.over.wait()

    await store.recover()
    assert (await records(session, "turn_ended"))[-1].body["outcome"] == "timed_out"
    await check_stored(store, session)


async def test_an_unanswered_permission_request_times_out_while_degraded(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    action = run.begin(run.turn.ask("may I?", tool="bash"))
    await settle()
    await degrade(store, sup)

    with trio.fail_after(16):
        assert not await action.wait()

    await store.recover()
    assert await sup.permissions() == ()
    await check_stored(store, session)


async def test_a_permission_request_made_while_degraded_appears_after_recovery(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    await degrade(store, sup)
    run.begin(run.turn.ask("may I?", tool="bash"))
    await trio.sleep(5)
    assert await sup.permissions() == ()

    await store.recover()

    assert [one.tool for one in await sup.permissions()] == ["bash"]


async def test_an_input_expires_while_the_store_is_degraded(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    late = await session.send("second", ttl_seconds=5.0)
    await degrade(store, sup)
    await trio.sleep(10)
    run.finish()

    await store.recover()

    assert (await outcomes(session))[late.input_id] == ["expired"]
    assert len(fake_agent.runs) == 1
    await check_stored(store, session)


async def test_an_input_of_a_suspended_session_expires_after_recovery(
    store: FailingStore, sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", restart=Restart(policy="never"))
    await session.send("first")
    run = await fake_agent.next_run()
    waits = await session.send("second", ttl_seconds=60.0)
    run.fail(AgentDied("on purpose"))
    await session.wait_stopped()
    await degrade(store, sup)
    await trio.sleep(100)

    await store.recover()
    await trio.sleep(100)

    assert (await outcomes(session))[waits.input_id] == ["expired"]
    await check_stored(store, session)


async def test_an_expired_child_stops_while_degraded(
    store: FailingStore, sup: Supervisor, session: Session, child_agent: FakeAgent
) -> None:
    child = await session.spawn("child-agent", "errand", ttl_seconds=5.0)
    errand = await child_agent.next_run()
    await degrade(store, sup)

    with trio.fail_after(6):
        await errand.over.wait()
        await child.wait_stopped()

    await store.recover()
    assert (await records(child, "session_stopped"))[-1].body["reason"] == "ttl_expired"
    await check_stored(store, session, child)


async def test_an_expired_suspended_child_stops_after_recovery(
    store: FailingStore, sup: Supervisor, session: Session, child_agent: FakeAgent
) -> None:
    child = await session.spawn("child-agent", "errand", ttl_seconds=60.0)
    (await child_agent.next_run()).finish()
    await trio.sleep(50)
    assert (await child.info()).phase == "suspended"
    await degrade(store, sup)
    await trio.sleep(60)

    await store.recover()
    await trio.sleep(5)

    assert (await child.info()).phase == "stopped"
    await check_stored(store, session, child)


async def test_an_idle_session_is_suspended_after_recovery(
    store: FailingStore, sup: Supervisor, session: Session
) -> None:
    await degrade(store, sup)
    await trio.sleep(100)

    await store.recover()

    assert (await session.info()).phase == "suspended"
    assert sup._parts.registry.live() == []
    await check_stored(store, session)


async def test_retried_stops_do_not_flood_the_log(
    store: FailingStore,
    sup: Supervisor,
    session: Session,
    child_agent: FakeAgent,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await session.spawn("child-agent", "errand", ttl_seconds=60.0)
    (await child_agent.next_run()).finish()
    await trio.sleep(50)
    await degrade(store, sup)

    await trio.sleep(60)

    assert len(caplog.records) <= 60
