"""Watchers and waiters of a session whose actor crashes."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from supervisor import (
    Delta,
    Fenced,
    Phase,
    Record,
    Session,
    Supervisor,
    TurnResult,
)
from tests.support.commit_faults import (
    CRASHES,
    CommitFault,
    FaultInjector,
    records_are_consecutive,
    wait_for_restarts,
)
from tests.support.fake_agents import AgentRun, FakeAgent, outcomes, records


@pytest.mark.parametrize("fault", CRASHES)
async def test_a_watcher_sees_every_record_once_over_a_crash(
    sup: Supervisor, injector: FaultInjector, fault: CommitFault
) -> None:
    session = await sup.create("scripted")
    seen: list[Record] = []

    async def watch() -> None:
        async with session.watch() as feed:
            async for item in feed:
                if not isinstance(item, Delta):
                    assert isinstance(item, Record)
                    seen.append(item)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await trio.testing.wait_all_tasks_blocked()
        injector.fail_next("tool_call", fault)
        await session.prompt("say one\ntool bash 1")
        await session.prompt("say two")
        await wait_for_restarts(session)
        nursery.cancel_scope.cancel()

    assert injector.done == 1
    assert [(r.seq, r.kind) for r in seen] == [(r.seq, r.kind) for r in await records(session)]


async def test_prompt_returns_a_result_committed_before_the_crash(
    session: Session, fake_agent: FakeAgent, injector: FaultInjector
) -> None:
    results: list[TurnResult] = []

    async def prompt() -> None:
        results.append(await session.prompt("first"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt)
        run = await fake_agent.next_run()
        injector.fail_next("turn_ended", "raises late")
        run.finish("done")

    assert [(result.outcome, result.text) for result in results] == [("completed", "done")]


async def test_a_committed_permission_request_leaves_the_inbox_after_a_crash(
    sup: Supervisor, session: Session, run: AgentRun, injector: FaultInjector
) -> None:
    run.begin(run.turn.ask("may I?", tool="bash"))
    await trio.testing.wait_all_tasks_blocked()
    injector.fail_next("turn_ended", "raises late")

    run.finish()
    await wait_for_restarts(session)

    assert len(await records(session, "permission_answered")) == 1
    assert await sup.permissions() == ()


async def test_a_record_is_the_same_live_and_read(sup: Supervisor) -> None:
    session = await sup.create("scripted")
    seen: list[Record] = []
    async with session.watch(after=(await session.info()).last_seq) as feed:
        await session.stop()
        await session.prompt("think hm\nsay one\ntool bash 1\nuse 3")
        while not seen or seen[-1].kind != "turn_ended":
            item = await anext(feed)
            seen += [item] if isinstance(item, Record) else []

    assert seen == (await records(session))[-len(seen) :]


async def test_an_uncommitted_record_is_never_published(
    sup: Supervisor, injector: FaultInjector
) -> None:
    session = await sup.create("scripted")
    injector.fail_next("tool_call", "not storable")

    await session.prompt("tool bash 1")
    await session.prompt("say two")

    assert await records(session, "tool_call") == []
    assert (await session.info()).tool_calls == 0


@pytest.mark.parametrize("fault", CRASHES)
async def test_wait_stopped_survives_a_restart_of_the_actor(
    session: Session, injector: FaultInjector, fault: CommitFault
) -> None:
    phases: list[Phase] = []

    async def wait() -> None:
        phases.append((await session.wait_stopped()).phase)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        injector.fail_next("session_changed", fault)
        await session.set(title="New")
        before = list(phases)
        await session.stop()

    assert (before, phases) == ([], [Phase.STOPPED])


async def test_waiters_of_a_fenced_session_get_an_error(
    session: Session, fake_agent: FakeAgent, injector: FaultInjector
) -> None:
    async def prompt() -> None:
        with pytest.raises(Fenced):
            await session.prompt("first")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt)
        run = await fake_agent.next_run()
        injector.fail_next("tool_call", "fenced")
        run.begin(run.open_call("bash"))

    assert run.over.is_set()


async def test_a_fenced_session_is_claimed_again_by_the_next_request(
    session: Session, run: AgentRun, fake_agent: FakeAgent, injector: FaultInjector
) -> None:
    injector.fail_next("tool_call", "fenced")
    run.begin(run.open_call("bash"))
    await wait_for_restarts(session)
    before = await session.info()

    await session.send("second")

    following = await fake_agent.next_run()
    [ended] = await records(session, "turn_ended")
    assert (ended.turn_id, ended.body["outcome"]) == (run.turn.id, "lost")
    assert (await session.info()).epoch == before.epoch + 1
    assert following.turn.text == "second"


async def test_a_crash_of_an_actor_does_not_affect_other_sessions(
    sup: Supervisor, injector: FaultInjector
) -> None:
    sessions = [await sup.create("scripted") for _ in range(10)]
    results: list[TurnResult] = []

    async def prompt(session: Session, step: str) -> None:
        results.append(await session.prompt(f"say one\nsleep 1\n{step}\nsay two"))

    injector.fail_next("tool_call", "not storable")
    async with trio.open_nursery() as nursery:
        for session in sessions:
            step = "tool bash 1" if session is sessions[0] else "sleep 1"
            nursery.start_soon(prompt, session, step)

    assert sorted(result.outcome for result in results) == ["completed"] * 9 + ["lost"]
    assert [(await session.info()).epoch for session in sessions[1:]] == [1] * 9


async def test_a_store_fault_under_many_sessions_loses_no_acknowledged_input(
    sup: Supervisor, injector: FaultInjector
) -> None:
    sessions = [await sup.create("echo") for _ in range(10)]
    receipts: dict[str, str] = {}

    async def send(session: Session) -> None:
        for number in range(5):
            receipt = await session.send(str(number))
            receipts[receipt.input_id] = session.id

    injector.fail_next("turn_ended", "raises")
    async with trio.open_nursery() as nursery:
        for session in sessions:
            nursery.start_soon(send, session)
    await wait_for_restarts(sessions[0])

    assert injector.done == 1
    for session in sessions:
        mine = [one for one, owner in receipts.items() if owner == session.id]
        assert await outcomes(session) == {one: ["delivered"] for one in mine}
        assert await records_are_consecutive(session)
