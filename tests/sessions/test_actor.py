"""Crashes of session actors."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from supervisor import Fenced, Phase, Session, SessionNotActive, Supervisor, SupervisorError
from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.table import decide
from supervisor.sessions import session_steps as shell
from supervisor.store.writer_messages import Claim
from tests.support.commit_faults import COMMIT_FAULTS, CommitFault, FaultInjector, wait_for_restarts
from tests.support.fake_agents import AgentRun, FakeAgent, outcomes, records


def crash_on(monkeypatch: pytest.MonkeyPatch, kind: type[ev.Event], *, times: int = 1) -> list[int]:
    """Crash the actor that decides on such an event, this many times."""
    crashes: list[int] = []

    def decide_or_crash(session: object, event: ev.Event, last_seq: int) -> object:
        if isinstance(event, kind) and len(crashes) < times:
            crashes.append(1)
            raise RuntimeError("a defect")
        return decide(session, event, last_seq)  # type: ignore[arg-type]

    monkeypatch.setattr(shell, "decide", decide_or_crash)
    return crashes


async def test_a_crash_of_the_actor_is_survived_and_logged(
    session: Session,
    run: AgentRun,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = await session.info()
    crash_on(monkeypatch, agent_events.CallStarted)

    with caplog.at_level(logging.ERROR):
        run.begin(run.open_call("bash"))
        await wait_for_restarts(session)

    [ended] = await records(session, "turn_ended")
    assert ended.body["outcome"] == "lost"
    assert (await session.info()).epoch == before.epoch + 1
    assert session.id in caplog.text


async def test_a_request_that_crashed_an_actor_is_asked_again(
    session: Session, fake_agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashes = crash_on(monkeypatch, ev.InputSubmitted)

    await session.send("first")
    run = await fake_agent.next_run()

    assert crashes == [1]
    assert run.turn.text == "first"


async def test_a_request_that_crashes_every_actor_is_refused_in_the_end(
    sup: Supervisor, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_on(monkeypatch, ev.InputSubmitted, times=1000)

    with pytest.raises(SessionNotActive) as refused:
        await session.send("first")

    assert refused.value.hint
    assert await outcomes(session) == {}


async def test_a_session_is_usable_after_its_actor_was_given_up(
    sup: Supervisor, session: Session, fake_agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as defect:
        crash_on(defect, ev.InputSubmitted, times=1000)
        for _ in range(3):
            with pytest.raises(SessionNotActive):
                await session.send("first")

    await session.send("second")
    run = await fake_agent.next_run()

    assert run.turn.text == "second"
    assert (await (await sup.create("echo")).prompt("hello")).text == "hello"


async def test_waiters_get_an_error_when_the_actor_exhausts_its_restarts(
    session: Session, run: AgentRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[object] = []

    async def prompt() -> None:
        try:
            heard.append((await session.prompt("second")).outcome)
        except SupervisorError as error:
            heard.append(type(error))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt)
        await trio.testing.wait_all_tasks_blocked()
        with monkeypatch.context() as defect:
            crash_on(defect, ev.DetailsChanged, times=1000)
            with pytest.raises(SessionNotActive):
                await session.set(title="New")
        await trio.sleep(60.0)
        nursery.cancel_scope.cancel()

    assert heard in (["lost"], [SessionNotActive])


async def test_a_crash_without_a_pending_request_keeps_the_queue_order(
    session: Session, run: AgentRun, fake_agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("second", "third", "fourth"):
        await session.send(text)
    crash_on(monkeypatch, agent_events.CallStarted)
    run.begin(run.open_call("bash"))

    await wait_for_restarts(session)
    played = await fake_agent.finish_all()

    assert played == ["second", "third", "fourth"]


@pytest.mark.parametrize("fault", COMMIT_FAULTS)
async def test_a_crashed_actor_of_a_stopped_session_leaves_memory(
    sup: Supervisor, session: Session, injector: FaultInjector, fault: CommitFault
) -> None:
    await session.stop()
    injector.fail_next("session_archived", fault)

    with trio.move_on_after(5.0):
        await session.archive()
    await wait_for_restarts(session)

    assert injector.done == 1
    assert sup._parts.registry.find_slot(session.id) is None


@pytest.mark.parametrize("fault", COMMIT_FAULTS)
async def test_a_failed_claim_of_a_suspended_session_is_retried(
    sup: Supervisor, injector: FaultInjector, fault: CommitFault
) -> None:
    session = await sup.create("echo")
    await session.stop()
    injector.fail_next("session_changed", fault)  # the first thing that an incarnation writes

    result = await session.prompt("hello")

    assert injector.done == 1
    assert result.text == "hello"


async def test_a_session_claimed_elsewhere_is_claimed_again_by_the_next_request(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    stolen = await sup._services.writer.ask(Claim(session.id), timeout_seconds=1.0)
    assert stolen is not None

    await session.set(title="New")
    await wait_for_restarts(session)

    info = await session.info()
    [ended] = await records(session, "turn_ended")
    assert (info.title, info.phase) == ("New", Phase.IDLE)
    assert info.epoch > stolen.epoch
    assert ended.body["outcome"] == "lost"


async def test_waiters_of_a_session_claimed_elsewhere_are_released(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    heard: list[object] = []

    async def prompt() -> None:
        try:
            heard.append((await session.prompt("first")).outcome)
        except SupervisorError as error:
            heard.append(type(error))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt)
        run = await fake_agent.next_run()
        await sup._services.writer.ask(Claim(session.id), timeout_seconds=1.0)
        run.finish("done")
        await trio.sleep(60.0)
        nursery.cancel_scope.cancel()

    assert heard in (["lost"], [SessionNotActive], [Fenced])
