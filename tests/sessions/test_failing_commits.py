"""Requests whose commit fails take effect once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest
import trio
import trio.testing

from supervisor import (
    Phase,
    Session,
    Supervisor,
    SupervisorError,
)
from tests.support.commit_faults import (
    COMMIT_FAULTS,
    CommitFault,
    FaultInjector,
    records_are_consecutive,
    wait_for_restarts,
)
from tests.support.fake_agents import AgentRun, FakeAgent, outcomes, records


async def kinds_of(session: Session) -> list[str]:
    return [record.kind for record in await records(session)]


@pytest.mark.parametrize("fault", COMMIT_FAULTS)
async def test_an_input_with_a_failed_commit_is_accepted_and_run_once(
    sup: Supervisor, injector: FaultInjector, fault: CommitFault
) -> None:
    session = await sup.create("echo")
    before = await session.info()
    injector.fail_next("input_accepted", fault)

    receipt = await session.send("hello")
    await wait_for_restarts(session)

    assert injector.done == 1
    assert await outcomes(session) == {receipt.input_id: ["delivered"]}
    assert (await session.info()).epoch > before.epoch
    assert await records_are_consecutive(session)


@pytest.mark.parametrize("fault", COMMIT_FAULTS)
async def test_an_input_with_a_failed_commit_has_one_receipt_per_key(
    sup: Supervisor, injector: FaultInjector, fault: CommitFault
) -> None:
    session = await sup.create("echo")
    injector.fail_next("input_accepted", fault)

    receipt = await session.send("hello", idempotency_key="k")
    again = await session.send("hello", idempotency_key="k")

    assert again.input_id == receipt.input_id
    assert len(await records(session, "input_accepted")) == 1


@pytest.mark.parametrize("fault", COMMIT_FAULTS)
async def test_the_reply_after_a_failed_commit_does_not_wait_for_idleness(
    sup: Supervisor, injector: FaultInjector, fault: CommitFault
) -> None:
    session = await sup.create("echo")
    injector.fail_next("input_accepted", fault)
    began = trio.current_time()

    await session.send("hello")

    assert trio.current_time() - began < 5.0


AgentAction: TypeAlias = Callable[[Session], Awaitable[object]]
ACTIONS: dict[str, tuple[str, AgentAction]] = {
    "append": ("user_text", lambda session: session.append("user", "a note")),
    "clear": ("session_cleared", lambda session: session.clear()),
    "set": ("session_changed", lambda session: session.set(title="New")),
    "stop": ("session_changed", lambda session: session.stop()),
}


@pytest.mark.parametrize("fault", COMMIT_FAULTS)
@pytest.mark.parametrize("name", ACTIONS)
async def test_a_request_to_an_idle_session_takes_effect_once(
    session: Session, injector: FaultInjector, name: str, fault: CommitFault
) -> None:
    kind, action = ACTIONS[name]
    injector.fail_next(kind, fault)

    await action(session)
    await wait_for_restarts(session)

    info = await session.info()
    cleared, notes = await kinds_of(session), await session.transcript()
    assert injector.done == 1
    assert cleared.count("session_cleared") == (name == "clear")
    assert len(notes) == (name == "append")
    assert (info.title == "New") == (name == "set")
    assert cleared.count("session_stopped") == (info.phase is Phase.STOPPED) == (name == "stop")


@pytest.mark.parametrize("fault", COMMIT_FAULTS)
async def test_a_stopped_session_is_archived_and_resumed_once(
    session: Session, injector: FaultInjector, fault: CommitFault
) -> None:
    await session.stop()
    for kind, action in (
        ("session_archived", session.archive),
        ("session_archived", session.unarchive),
        ("session_resumed", session.resume),
    ):
        injector.fail_next(kind, fault)
        await action()

    kinds = await kinds_of(session)
    assert injector.done == 3
    assert (kinds.count("session_archived"), kinds.count("session_resumed")) == (2, 1)
    assert (await session.info()).phase is Phase.IDLE


@pytest.mark.parametrize("fault", COMMIT_FAULTS)
async def test_new_creates_one_session_when_its_commit_fails(
    sup: Supervisor, injector: FaultInjector, fault: CommitFault
) -> None:
    old = await sup.create("echo", key="echo:irc:ann")
    injector.fail_next("session_archived", fault)

    fresh = await sup.new("echo:irc:ann")

    assert [info.id for info in (await sup.list()).items] == [old.id, fresh.id]
    assert await sup.get_or_create("echo:irc:ann") == fresh
    assert (await fresh.prompt("hello")).text == "hello"


@pytest.mark.parametrize("fault", COMMIT_FAULTS)
async def test_a_queued_input_is_cancelled_once_when_the_commit_fails(
    sup: Supervisor, injector: FaultInjector, shielded_agent: FakeAgent, fault: CommitFault
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    await shielded_agent.next_run()
    waiting = await session.send("second")
    injector.fail_next("input_settled", fault)

    await session.cancel_input(waiting.input_id)

    assert (await outcomes(session))[waiting.input_id] == ["cancelled"]


@pytest.mark.parametrize("fault", COMMIT_FAULTS)
async def test_an_interrupt_with_a_replacement_runs_that_once(
    session: Session,
    run: AgentRun,
    injector: FaultInjector,
    fake_agent: FakeAgent,
    fault: CommitFault,
) -> None:
    injector.fail_next("input_accepted", fault)

    report = await session.interrupt(replace_with="instead")
    await wait_for_restarts(session)
    played = await fake_agent.finish_all()

    # Also if the turn was lost before it could be interrupted.
    assert injector.done == 1
    assert played == ["instead"]
    assert report.input_id is not None
    assert run.over.is_set()


@pytest.mark.parametrize("fault", COMMIT_FAULTS)
async def test_a_repeated_answer_after_a_crash_is_not_a_permission_conflict(
    sup: Supervisor, session: Session, run: AgentRun, injector: FaultInjector, fault: CommitFault
) -> None:
    run.begin(run.turn.ask("may I?", tool="bash"))
    await trio.testing.wait_all_tasks_blocked()
    [request] = await sup.permissions()
    injector.fail_next("permission_answered", fault)

    try:
        await sup.answer(request.id, "allow_once")
        heard = "allow_once"
    except SupervisorError:
        heard = "cancelled"  # the turn that asked is lost, so the answer may come too late for it

    [answered] = await records(session, "permission_answered")
    assert answered.body["decision"] == heard


@pytest.mark.parametrize("fault", COMMIT_FAULTS)
async def test_a_failed_create_leaves_the_key_free_or_the_session_complete(
    sup: Supervisor, injector: FaultInjector, fault: CommitFault
) -> None:
    injector.fail_next("session_created", fault)

    try:
        session = await sup.create("echo", key="echo:irc:ann")
    except SupervisorError:
        session = await sup.get_or_create("echo:irc:ann")

    assert (await session.prompt("hello")).text == "hello"
    assert [i.id for i in (await sup.list()).items if i.key] == [session.id]
