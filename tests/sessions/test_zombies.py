"""Agents that will not be interrupted: their turn ends without them, and they can do no more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    InputRefused,
    InterruptReport,
    Ladder,
    Session,
    Settings,
    Supervisor,
    Turn,
    TurnOver,
)
from tests.support.fake_agents import AgentRun, FakeAgent, records, waiting_texts


async def test_an_agent_that_ignores_cancellation_becomes_a_zombie_after_ask_seconds(
    shielded_session: Session, shielded_run: AgentRun
) -> None:
    report = await shielded_session.interrupt()

    (ended,) = await records(shielded_session, "turn_ended")
    assert ended.body["outcome"] == "interrupted"
    assert not shielded_run.over.is_set()
    assert report == InterruptReport(
        "turn", matched=1, unreachable=1, ladder_step="ask", seconds=5.0
    )


async def test_a_session_may_have_another_ladder(
    sup: Supervisor, shielded_agent: FakeAgent
) -> None:
    session = await sup.create("shielded", ladder=Ladder(ask_seconds=0.5))
    await session.send("first")
    await shielded_agent.next_run()

    assert (await session.interrupt()).seconds == 0.5


async def test_a_zombie_is_shown(shielded_session: Session, shielded_run: AgentRun) -> None:
    await shielded_session.interrupt()

    info = await shielded_session.info()
    assert info.badge == "unhealthy"
    assert info.waiting_for == "zombie"

    shielded_run.finish()
    await settle()
    assert (await shielded_session.info()).badge == "idle"


LATE: dict[str, Callable[[Turn], Awaitable[object]]] = {
    "say": lambda turn: turn.say("late"),
    "think": lambda turn: turn.think("late"),
    "plan": lambda turn: turn.plan(["late"]),
    "ask": lambda turn: turn.ask("may I?", tool="bash"),
    "steering": lambda turn: _soon(turn.steering),
    "usage": lambda turn: _soon(lambda: turn.usage(output_tokens=1)),
    "tool": lambda turn: _soon(lambda: turn.tool("bash")),
}


async def _soon(action: Callable[[], object]) -> object:
    await trio.lowlevel.checkpoint()
    return action()


@pytest.mark.parametrize("action", LATE)
async def test_everything_a_zombie_tries_raises_turn_over(
    shielded_session: Session, shielded_run: AgentRun, action: str
) -> None:
    await shielded_session.interrupt()
    before = await records(shielded_session)

    with pytest.raises(TurnOver) as refusal:
        await LATE[action](shielded_run.turn)

    await trio.sleep(1)
    assert "return" in refusal.value.hint
    assert await records(shielded_session) == before


@pytest.mark.parametrize("action", LATE)
async def test_the_turn_of_a_returned_agent_is_over(
    session: Session, run: AgentRun, action: str
) -> None:
    run.finish()
    await settle()
    before = await records(session)

    with pytest.raises(TurnOver):
        await LATE[action](run.turn)

    await trio.sleep(1)
    assert await records(session) == before


async def test_a_tool_call_that_outlives_its_turn_can_say_nothing_more(
    shielded_session: Session, shielded_run: AgentRun
) -> None:
    unused = shielded_run.turn.tool("grep")
    held = await shielded_run.open_call("bash")
    await shielded_session.interrupt()
    before = await records(shielded_session)

    with pytest.raises(TurnOver):
        held.call.update("late")
    with pytest.raises(TurnOver):
        held.call.result("late")
    with pytest.raises(TurnOver):
        await unused.__aenter__()

    await held.close()
    assert await records(shielded_session) == before


async def test_no_turn_starts_while_a_zombie_runs(
    shielded_session: Session, shielded_run: AgentRun, shielded_agent: FakeAgent
) -> None:
    await shielded_session.send("second")
    await shielded_session.interrupt(replace_with="instead")

    receipt = await shielded_session.send("third")
    await trio.sleep(600)

    assert receipt.status == "queued"
    assert shielded_agent.runs == [shielded_run]
    assert await waiting_texts(shielded_session) == ["instead", "second", "third"]


async def test_a_session_with_a_zombie_rejects_when_busy_is_reject(
    shielded_session: Session, shielded_run: AgentRun
) -> None:
    await shielded_session.interrupt()

    with pytest.raises(InputRefused):
        await shielded_session.send("now or never", when_busy="reject")

    assert await shielded_session.inputs() == []
    assert not shielded_run.over.is_set()


async def test_the_queue_continues_when_the_zombie_ends(
    shielded_session: Session, shielded_run: AgentRun, shielded_agent: FakeAgent
) -> None:
    await shielded_session.send("second")
    await shielded_session.interrupt(replace_with="instead")
    await shielded_session.send("third")

    shielded_run.finish()

    assert await shielded_agent.finish_all() == ["instead", "second", "third"]


async def test_the_return_value_of_a_zombie_changes_nothing(
    shielded_session: Session, shielded_run: AgentRun
) -> None:
    await shielded_session.interrupt()

    shielded_run.finish("too late")
    await settle()

    (ended,) = await records(shielded_session, "turn_ended")
    assert ended.body["outcome"] == "interrupted"
    assert "too late" not in str(await records(shielded_session))


async def test_an_exception_of_a_zombie_changes_nothing(
    shielded_session: Session, shielded_run: AgentRun, shielded_agent: FakeAgent
) -> None:
    await shielded_session.interrupt()

    shielded_run.fail(RuntimeError("too late"))
    await shielded_session.send("second")

    assert (await shielded_agent.next_run()).turn.text == "second"
    assert (await shielded_session.info()).last_failure is None
    assert "too late" not in str(await records(shielded_session))


async def test_a_session_with_a_zombie_can_be_stopped(
    shielded_session: Session, shielded_run: AgentRun
) -> None:
    await shielded_session.interrupt()

    await shielded_session.stop()

    assert (await shielded_session.info()).phase == "stopped"
    assert not shielded_run.over.is_set()


async def test_a_zombie_delays_turns_after_a_stop_and_a_resume(
    shielded_session: Session, shielded_run: AgentRun, shielded_agent: FakeAgent
) -> None:
    await shielded_session.interrupt()
    await shielded_session.stop()
    await shielded_session.resume()

    await shielded_session.send("second")
    await trio.sleep(60)
    assert shielded_agent.runs == [shielded_run]

    shielded_run.finish()
    assert await shielded_agent.finish_all() == ["second"]


async def test_a_zombie_affects_no_other_session(
    shielded_session: Session, shielded_run: AgentRun, session: Session, fake_agent: FakeAgent
) -> None:
    await shielded_session.interrupt()

    await session.send("hello")

    assert await fake_agent.finish_all() == ["hello"]
    assert not shielded_run.over.is_set()


async def test_leaving_reports_the_agents_that_prevent_the_exit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fake_agent = FakeAgent("stubborn", shielded=True)

    async def end_it_later() -> None:
        await trio.sleep(100)
        said.extend(record.getMessage() for record in caplog.records)
        fake_agent.finish_open_runs()

    said: list[str] = []
    settings = Settings(exit_seconds=10.0)
    async with (
        trio.open_nursery() as nursery,
        supervisor.open(agents=[fake_agent.agent], settings=settings) as sup,
    ):
        session = await sup.create("stubborn")
        await session.send("first")
        await fake_agent.next_run()
        nursery.start_soon(end_it_later)

    assert trio.current_time() == pytest.approx(100)
    assert any("stubborn" in line and session.id in line for line in said)
