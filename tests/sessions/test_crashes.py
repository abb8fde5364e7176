"""Agents that crash are restarted, within reason; sessions that ended begin again."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

import supervisor
from actors.testing import settle
from supervisor import (
    AgentStartFailed,
    AgentUnknown,
    Phase,
    Restart,
    Session,
    SessionNotActive,
    Settings,
    Supervisor,
)
from supervisor.core.state import Failure
from tests.support.fake_agents import AgentRun, FakeAgent, records, waiting_texts
from tests.support.session_states import NEVER, REST_SECONDS, SlowStartAgent, phase_of, texts_of


@pytest.fixture
def settings() -> Settings:
    return Settings(suspend_after_seconds=REST_SECONDS)


# Crashes ------------------------------------------------------------------------------------------


async def test_a_crashed_agent_is_restarted_after_a_pause(sup: Supervisor) -> None:
    session = await sup.create("scripted")
    began = trio.current_time()

    result = await session.prompt("say so far\ncrash")
    restarting = await session.info()
    again = await session.prompt("say here again")

    assert (result.outcome, result.error) == ("lost", "the script says crash")
    assert (restarting.phase, restarting.badge) == (Phase.RESTARTING, "restarting")
    assert again.text == "here again"
    assert 0.25 <= trio.current_time() - began <= 0.5


async def test_a_crash_stays_visible(sup: Supervisor) -> None:
    session = await sup.create("scripted")

    await session.prompt("crash")
    await session.prompt("say here again")
    await session.stop()
    await session.resume()
    info = await session.info()

    assert info.last_failure == Failure("process_exit", "the script says crash")
    assert info.restarts == 1


async def test_an_agent_that_exhausts_its_restarts_fails_its_session(sup: Supervisor) -> None:
    session = await sup.create("scripted", restart=Restart(max_restarts=2, within_seconds=60.0))

    for _ in range(3):
        await session.prompt("crash")
    info = await session.info()

    assert (info.phase, info.stop_reason, info.badge) == ("stopped", "agent_crashed", "failed")
    assert info.restarts == 2


async def test_pauses_between_restarts_double(sup: Supervisor) -> None:
    session = await sup.create("scripted", restart=Restart(max_restarts=4, backoff_seconds=1.0))

    for _ in range(4):
        await session.prompt("crash")
    pauses = [r.body["after_seconds"] for r in await records(session, "agent_restarting")]

    assert len(pauses) == 4
    for number, pause in enumerate(pauses):
        assert 0.5 * 2**number <= pause <= 2**number


async def test_crashes_far_apart_are_forgiven(sup: Supervisor) -> None:
    session = await sup.create("scripted", restart=Restart(max_restarts=1, within_seconds=10.0))

    for _ in range(5):
        await session.prompt("crash")
        await trio.sleep(11.0)

    assert await phase_of(session) is Phase.IDLE
    assert (await session.info()).restarts == 5


async def test_an_agent_that_is_never_to_be_restarted_is_not(sup: Supervisor) -> None:
    session = await sup.create("scripted", restart=NEVER)

    await session.prompt("crash")
    info = await session.info()

    assert (info.phase, info.stop_reason, info.restarts) == ("stopped", "agent_crashed", 0)


async def test_the_queue_continues_after_a_restart(sup: Supervisor) -> None:
    session = await sup.create("scripted")
    await session.send("sleep 1\ncrash")
    await session.send("say second")

    result = await session.prompt("say third")

    assert result.text == "third"
    assert await texts_of(session) == [
        "sleep 1\ncrash",
        "say second",
        "second",
        "say third",
        "third",
    ]


async def test_a_pause_before_a_restart_can_be_stopped_at_once(sup: Supervisor) -> None:
    session = await sup.create("scripted", restart=Restart(backoff_seconds=1000.0))
    await session.prompt("crash")
    began = trio.current_time()

    await session.stop()
    info = await session.info()

    assert trio.current_time() == began
    assert (info.stop_reason, info.badge) == ("user_cancelled", "stopped")


async def test_an_agent_that_raises_fails_its_turn_and_nothing_else(sup: Supervisor) -> None:
    session = await sup.create("scripted")

    result = await session.prompt("fail on purpose")
    info = await session.info()

    assert result.outcome == "failed"
    assert "on purpose" in str(result.error)
    assert (info.phase, info.restarts, info.last_failure) == (Phase.IDLE, 0, None)


async def test_inputs_held_by_a_crashed_session_are_kept_and_listed(sup: Supervisor) -> None:
    session = await sup.create("scripted", restart=NEVER)
    await session.send("sleep 1\ncrash")

    with pytest.raises(SessionNotActive, match="holds") as held:
        await session.prompt("say second")

    assert held.value.hint
    assert await waiting_texts(session) == ["say second"]


# Starting again -----------------------------------------------------------------------------------


async def test_resuming_keeps_id_and_history(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    await session.stop()
    before = await session.info()

    await session.resume()
    info = await session.info()

    assert info.phase is Phase.IDLE
    assert (info.stop_reason, info.stop_detail) == (None, None)
    assert info.epoch > before.epoch
    assert await texts_of(session) == ["hello", "hello"]


async def test_resuming_a_live_session_changes_nothing(session: Session) -> None:
    before = await session.info()

    await session.resume()

    assert await session.info() == before


async def test_resuming_in_the_middle_of_a_turn_changes_nothing(
    session: Session, run: AgentRun
) -> None:
    before = await session.info()

    await session.resume()

    assert await session.info() == before


async def test_the_agent_of_a_resumed_session_gets_the_history(
    session: Session, fake_agent: FakeAgent
) -> None:
    await session.send("first")
    (await fake_agent.next_run()).finish("answer")
    await trio.testing.wait_all_tasks_blocked()
    await session.stop()

    await session.send("second")
    run = await fake_agent.next_run()

    assert [message.text for message in run.turn.history] == ["first", "answer"]


async def test_a_held_queue_runs_first_and_in_order(sup: Supervisor) -> None:
    session = await sup.create("scripted", restart=NEVER)
    await session.send("sleep 1\ncrash")
    for number in (1, 2):
        await session.send(f"say held {number}")
    await session.wait_stopped()

    await session.prompt("say fresh")

    assert await texts_of(session) == [
        "sleep 1\ncrash",
        "say held 1",
        "held 1",
        "say held 2",
        "held 2",
        "say fresh",
        "fresh",
    ]


async def test_resuming_runs_held_inputs(sup: Supervisor) -> None:
    session = await sup.create("scripted", restart=NEVER)
    await session.send("sleep 1\ncrash")
    await session.send("say held")
    await session.wait_stopped()

    await session.resume()
    await trio.testing.wait_all_tasks_blocked()

    assert (await texts_of(session))[-1] == "held"


async def test_sending_resumes_a_stopped_session(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await session.stop()

    result = await session.prompt("hello")

    assert (result.outcome, result.text) == ("completed", "hello")


async def test_sending_with_reject_does_not_resume(session: Session) -> None:
    await session.stop()
    before = await session.info()

    with pytest.raises(SessionNotActive) as refused:
        await session.send("hello", if_stopped="reject")

    assert refused.value.hint
    assert await session.info() == before


async def test_an_archived_session_is_not_resumed(session: Session) -> None:
    await session.stop()
    await session.archive()
    before = await session.info()

    with pytest.raises(SessionNotActive):
        await session.resume()
    with pytest.raises(SessionNotActive):
        await session.send("hello")

    assert await session.info() == before


async def test_a_session_may_be_stopped_and_resumed_many_times(sup: Supervisor) -> None:
    session = await sup.create("echo")

    for number in range(10):
        await session.stop()
        assert (await session.prompt(str(number))).text == str(number)

    assert (await session.info()).turns == 10
    assert [r.seq for r in await records(session)] == list(
        range(1, (await session.info()).last_seq + 1)
    )


# Agents that fail to start  -------------------------------------------------------------------


async def test_a_session_of_an_unknown_agent_stays_stopped(
    sup: Supervisor, session: Session
) -> None:
    await session.stop()
    agents: Any = sup._services.agents()
    del agents["fake"]

    with pytest.raises(AgentUnknown):
        await session.resume()

    assert await phase_of(session) is Phase.STOPPED


async def test_sending_to_a_session_with_an_unknown_agent_raises(
    sup: Supervisor, session: Session
) -> None:
    await session.stop()
    agents: Any = sup._services.agents()
    del agents["fake"]

    with pytest.raises(AgentUnknown):
        await session.prompt("anybody?")

    assert await session.inputs() == []
    assert await phase_of(session) is Phase.STOPPED


@pytest.mark.parametrize("failure", [None, Failure("process_exit", "code 1")])
async def test_an_agent_that_exits_while_starting_is_a_failed_start(
    nursery: trio.Nursery, failure: Failure | None
) -> None:
    slow = SlowStartAgent()
    async with supervisor.open(agents=[slow]) as sup:
        nursery.start_soon(leave_when_settled, slow, failure)

        with pytest.raises(AgentStartFailed):
            await sup.create("slow")

        (info,) = (await sup.list()).items
        assert info.phase is Phase.STOPPED


async def leave_when_settled(slow: SlowStartAgent, failure: Failure | None) -> None:
    await settle()
    slow.leave(failure)
