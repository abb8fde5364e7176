"""Turns that end, and agents that come and go, while the store is degraded."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import Restart, Session, Settings, Supervisor, TurnResult
from supervisor.drivers.python import AgentDied
from tests.support.fake_agents import AgentRun, FakeAgent, Follow, numbers, records
from tests.support.fake_store import FailingStore, check_stored, degrade


@pytest.fixture
def settings() -> Settings:
    return Settings(restart=Restart(policy="on_crash"))


async def test_the_result_of_a_turn_arrives_when_it_is_durable(
    store: FailingStore,
    sup: Supervisor,
    session: Session,
    fake_agent: FakeAgent,
    nursery: trio.Nursery,
) -> None:
    results: list[TurnResult] = []

    async def prompt() -> None:
        results.append(await session.prompt("first"))

    nursery.start_soon(prompt)
    run = await fake_agent.next_run()
    await degrade(store, sup)
    run.finish("done")
    await trio.sleep(100)
    assert results == []

    await store.recover()

    assert [(one.text, one.outcome) for one in results] == [("done", "completed")]
    await check_stored(store, session)


async def test_the_next_turn_begins_when_the_end_of_the_last_is_durable(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await session.send("second")
    await degrade(store, sup)
    run.finish("done")
    await trio.sleep(100)
    assert len(fake_agent.runs) == 1

    await store.recover()

    assert [one.turn.text for one in fake_agent.runs] == ["first", "second"]
    kinds = [record.kind for record in await records(session)]
    assert kinds.index("turn_ended") < len(kinds) - kinds[::-1].index("turn_started")
    await check_stored(store, session)


async def test_everything_of_a_turn_is_before_its_end(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    await degrade(store, sup)
    await run.do(run.turn.say("one "))
    call = await run.open_call("bash")
    await call.close()
    await run.do(run.turn.say("two"))
    run.finish()
    await trio.sleep(10)

    await store.recover()

    own = [one.kind for one in await records(session) if one.turn_id == run.turn.id]
    assert own[-1] == "turn_ended"
    assert own.count("agent_text") == 2
    assert own.index("tool_call") < own.index("tool_ended")
    await check_stored(store, session)


async def test_a_parent_is_not_notified_of_a_child_before_its_commit(
    store: FailingStore, sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    child = await session.spawn("fake", "errand")
    errand = await fake_agent.next_run()
    await degrade(store, sup)
    errand.finish("done")
    await trio.sleep(10)
    assert await records(session, "child_ended") == []

    await store.recover()
    await trio.sleep(1)

    assert len(await records(session, "child_ended")) == 1
    await check_stored(store, session, child)


async def test_a_crashed_agent_restarts_after_its_exit_is_durable(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await session.send("second")
    await degrade(store, sup)
    run.fail(AgentDied("on purpose"))
    await trio.sleep(100)
    assert len(fake_agent.runs) == 1

    await store.recover()
    await trio.sleep(100)

    assert [one.turn.text for one in fake_agent.runs] == ["first", "second"]
    await check_stored(store, session)


async def test_a_session_that_waits_to_start_its_agent_again_can_be_stopped(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await session.send("second")
    await degrade(store, sup)
    run.fail(AgentDied("on purpose"))
    await trio.sleep(100)

    with trio.fail_after(1):
        await session.stop()

    await store.recover()
    assert len(fake_agent.runs) == 1
    await check_stored(store, session)


async def test_an_agent_that_raises_fails_its_turn_and_nothing_else(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    await degrade(store, sup)
    run.fail(RuntimeError("on purpose"))
    await settle()

    await store.recover()

    assert (await records(session, "turn_ended"))[-1].body["outcome"] == "failed"
    assert (await session.info()).phase == "idle"


async def test_a_session_continues_through_many_faults(
    store: FailingStore, session: Session, fake_agent: FakeAgent, follow: Follow
) -> None:
    seen = await follow(session)
    for number in range(5):
        await session.send(str(number))
        run = await fake_agent.next_run()
        store.start_failing()
        await run.do(run.turn.say("word"))
        run.finish()
        await trio.sleep(3)
        await store.recover()

    assert numbers(seen) == [record.seq for record in await records(session)]
    assert len(await records(session, "turn_ended")) == 5
    await check_stored(store, session)
