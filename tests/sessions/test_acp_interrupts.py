"""Interrupts and stops of sessions whose agents are ACP processes."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import Ladder, Phase
from supervisor.core.state import LadderStep
from supervisor.drivers.acp import agent_exit
from tests.support.acp_supervisor import flags_of, open_session, prompts, resume_flags
from tests.support.fake_agents import outcomes, records
from tests.support.in_memory_processes import InMemoryProcesses


@pytest.mark.parametrize(
    ("script", "step", "seconds"),
    [
        ("sleep 1000", "ask", 0.0),
        ("linger 3", "ask", 3.0),
        ("hang", "close", 5.0),
        ("ignore-eof\nhang", "terminate", 7.0),
        ("ignore-term\nhang", "kill", 9.0),
        ("stop-self", "terminate", 7.0),
        ("deaf\nsleep 1000", "terminate", 7.0),
    ],
)
@resume_flags
async def test_an_interrupted_turn_ends_politely_and_the_conversation_continues(
    script: str, step: LadderStep, seconds: float, way: str | None
) -> None:
    async with open_session(*flags_of(way)) as (session, processes):
        await session.prompt("say my name is Ada")
        await session.send(f"say half\n{script}")
        await settle()
        report = await session.interrupt()
        after = await session.prompt("say on")

        assert (report.matched, report.stopped, report.ladder_step) == (1, 1, step)
        assert report.seconds == seconds
        assert after.text == "on"
        info = await session.info()
        assert (info.restarts, info.last_failure) == (0, None)
        assert len(processes.all) == (1 if step == "ask" else 2)


async def test_an_agent_with_a_closed_input_is_replaced() -> None:
    async with open_session("--load") as (session, processes):
        await session.send("ignore-eof\nlinger 6")  # asked for 5 s, then its input is closed
        await settle()
        report = await session.interrupt()
        after = await session.prompt("say on")

        assert (report.stopped, report.ladder_step, report.seconds) == (1, "terminate", 7.0)
        assert (after.outcome, after.text) == ("completed", "on")
        info = await session.info()
        assert (info.restarts, info.phase) == (0, Phase.IDLE)
        assert len(processes.all) == 2


async def test_a_turn_ended_by_closed_input_is_not_completed() -> None:
    async with open_session("--load") as (session, _):
        await session.send("linger 5")  # both at the same time
        await session.send("say next")
        await settle()
        await session.interrupt()
        after = await session.prompt("say on")

        assert (after.outcome, after.text) == ("completed", "on")
        info = await session.info()
        assert (info.restarts, info.phase, info.stop_reason) == (0, Phase.IDLE, None)


async def test_output_before_the_end_of_the_ladder_is_kept() -> None:
    async with open_session() as (session, _):
        await session.send("say half\nhang")
        await settle()
        await session.interrupt()
        [ended] = await records(session, "turn_ended")

        assert (ended.body["outcome"], ended.body["text"]) == ("interrupted", "half")


async def test_a_replacement_runs_on_the_next_process() -> None:
    async with open_session("--load") as (session, processes):
        await session.send("hang")
        await settle()
        await session.interrupt(replace_with="say instead")
        await trio.sleep(1)

        assert prompts(processes.all[1]) == [["say instead"]]


async def test_an_interrupted_turn_of_a_starting_agent_ends_at_once() -> None:
    async with open_session("--load") as (session, processes):
        await session.send("hang")
        await settle()
        await session.interrupt()
        await session.send("sleep 10")  # starts another process
        report = await session.interrupt()

        assert (report.stopped, report.seconds) == (1, 0.0)
        assert (await session.prompt("say on")).text == "on"
        assert len(processes.all) <= 3


async def test_a_stop_during_the_agent_start_is_not_a_crash() -> None:
    async with open_session("--load") as (session, processes):
        await session.send("hang")
        await settle()
        await session.interrupt()
        await session.send("say never")
        await session.stop()
        info = await session.info()

        assert (info.stop_reason, info.last_failure) == ("user_cancelled", None)
        assert processes.alive == []


@pytest.mark.parametrize("script", ["sleep 1000", "hang", "stop-self", "ignore-eof\nhang"])
async def test_a_stop_in_a_turn_is_bounded_by_the_ladder(
    script: str,
) -> None:
    async with open_session("--close") as (session, processes):
        await session.send(script)
        await settle()
        began = trio.current_time()
        await session.stop()

        assert trio.current_time() - began <= Ladder().total_seconds
        assert processes.alive == []
        info = await session.info()
        assert (info.stop_reason, info.restarts) == ("user_cancelled", 0)


async def test_an_unkillable_agent_is_a_zombie_that_the_session_awaits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    processes = InMemoryProcesses(are_immortal=True)
    monkeypatch.setattr(agent_exit, "is_alive", processes.is_alive)
    async with open_session(processes=processes) as (session, _):
        await session.send("ignore-eof\nhang")
        await settle()
        report = await session.interrupt()
        assert (report.stopped, report.unreachable, report.ladder_step) == (0, 1, "kill")
        assert report.seconds == Ladder().total_seconds
        assert (await session.info()).badge == "unhealthy"

        receipt = await session.send("say on")
        await trio.sleep(100)
        assert len(processes.all) == 1
        processes.all[0].die()
        await trio.sleep(10)

        assert (await outcomes(session))[receipt.input_id] == ["delivered"]
        [said] = await records(session, "agent_text")
        assert said.body["text"] == "on"
        processes.all[-1].is_immortal = False
