"""Output while the store is degraded: it waits within its bound, and then the agent is slowed."""

from __future__ import annotations

import trio

from supervisor import Session, Supervisor, Turn
from supervisor.sessions.output_budget import MAX_SHARE_BYTES
from tests.support.fake_agents import AgentRun, Follow, deltas, numbers, records, texts
from tests.support.fake_store import FailingStore, check_stored, degrade

KIBIBYTE = "x" * 1024


async def talk(turn: Turn, said: list[int]) -> None:
    """For much longer than there is room."""
    while sum(said) < 4 * MAX_SHARE_BYTES:
        await turn.say(KIBIBYTE)
        said.append(len(KIBIBYTE))


async def plan(turn: Turn, said: list[int]) -> None:
    while sum(said) < 4 * MAX_SHARE_BYTES:
        await turn.plan([KIBIBYTE])
        said.append(len(KIBIBYTE))


async def use_tools(turn: Turn, said: list[int]) -> None:
    while sum(said) < 4 * MAX_SHARE_BYTES:
        async with turn.tool("bash", {"given": KIBIBYTE}) as call:
            call.result(KIBIBYTE)
        said.append(2 * len(KIBIBYTE))


async def test_a_talking_agent_is_slowed_until_the_store_recovers(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    said: list[int] = []
    await degrade(store, sup)
    run.begin(talk(run.turn, said))
    await trio.sleep(100)
    at_the_bound = sum(said)
    assert MAX_SHARE_BYTES / 2 < at_the_bound <= MAX_SHARE_BYTES + len(KIBIBYTE)

    store.is_failing = False
    await trio.sleep(2.1)

    assert sum(said) >= 4 * MAX_SHARE_BYTES
    await check_stored(store, session)


async def test_an_agent_that_is_interrupted_no_longer_waits_for_the_store(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    await degrade(store, sup)
    run.begin(talk(run.turn, []))
    await trio.sleep(100)
    log = sup._parts.registry.slot(session.id).log
    assert log is not None
    assert log.is_agent_waiting

    await session.interrupt()

    assert not log.is_agent_waiting


async def test_a_planning_agent_is_slowed(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    said: list[int] = []
    await degrade(store, sup)
    run.begin(plan(run.turn, said))

    await trio.sleep(100)

    assert sum(said) <= MAX_SHARE_BYTES + len(KIBIBYTE)


async def test_an_agent_that_calls_tools_is_slowed(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    said: list[int] = []
    await degrade(store, sup)
    run.begin(use_tools(run.turn, said))

    await trio.sleep(100)

    assert sum(said) <= MAX_SHARE_BYTES + 2 * len(KIBIBYTE)


async def test_an_agent_that_is_slowed_can_be_interrupted(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    await degrade(store, sup)
    run.begin(talk(run.turn, []))
    await trio.sleep(100)

    with trio.fail_after(1):
        report = await session.interrupt()

    assert report.stopped == 1
    await store.recover()
    await check_stored(store, session)


async def test_records_are_published_only_after_their_commit(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, follow: Follow
) -> None:
    seen = await follow(session)
    await degrade(store, sup)
    before = numbers(seen)
    for word in ("one ", "two ", "three"):
        await run.do(run.turn.say(word))
        await trio.sleep(1)
    assert numbers(seen) == before
    assert "".join(delta.text for delta in deltas(seen)) == "one two three"

    await store.recover()

    assert "".join(texts(await records(session, "agent_text"))) == "one two three"
    assert numbers(seen) == [record.seq for record in await records(session)]


async def test_output_of_a_session_does_not_fill_the_backlog_of_other_sessions(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    other = await sup.create("echo")
    await degrade(store, sup)
    run.begin(talk(run.turn, []))
    await trio.sleep(100)

    with trio.fail_after(1):
        await other.stop()
    store.is_failing = False
    await trio.sleep(2.1)

    assert (await other.info()).phase == "stopped"
    await check_stored(store, other)
    run.finish()
