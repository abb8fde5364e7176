"""Ladder of interrupts, and the closing of an ACP agent; see acp/driver.py."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor.core import agent_events
from supervisor.core.ids import TurnId
from supervisor.core.limits import Ladder
from supervisor.core.state import LadderStep
from supervisor.drivers.acp import agent_exit
from supervisor.drivers.acp.agent import scripted_process
from tests.support.acp_driver import AcpHarness, open_harness, open_manual_agent
from tests.support.driver_context import FakeDriverContext
from tests.support.in_memory_processes import InMemoryProcesses

STEPS: tuple[LadderStep, ...] = ("ask", "close", "terminate", "kill")
# The ladder step that ends a turn of an agent with these flags.
AGENTS = {
    "ask": "sleep 1000",
    "close": "hang",
    "terminate": "ignore-eof\nhang",
    "kill": "ignore-term\nhang",
}


async def climb(harness: AcpHarness, turn: TurnId) -> LadderStep | None:
    """Take one step after the other, as a session does, until the turn is over."""
    over = trio.Event()
    harness.context.on_report = lambda _: over.set()
    for step in STEPS:
        harness.driver.cancel_turn(turn, step)
        with trio.move_on_after(getattr(harness.context.ladder, f"{step}_seconds")):
            await over.wait()
            return step
    return None


@pytest.mark.parametrize(("step", "script"), AGENTS.items())
async def test_each_ladder_step_ends_an_agent_that_resists_the_earlier_steps(
    step: LadderStep, script: str
) -> None:
    async with open_harness() as harness:
        await harness.come_up()
        turn = harness.order(f"say half\n{script}")
        await settle()

        assert await climb(harness, turn) == step
        await settle()
        assert harness.context.kinds() == [{"ask": "TurnEnded"}.get(step, "AgentExited")]
        assert harness.context.processes == [] or step == "ask"


async def test_a_stopped_agent_is_dead_within_the_sum_of_the_ladder() -> None:
    async with open_harness() as harness:
        await harness.come_up()
        turn = harness.order("stop-self")
        await settle()

        assert await climb(harness, turn) == "terminate"
        assert trio.current_time() <= harness.context.ladder.total_seconds + 0.5


async def test_a_ladder_step_signals_no_other_process() -> None:
    async with open_harness() as harness:
        other = AcpHarness(scripted_process(), harness.runtime, harness.processes)
        await other.come_up()
        bystander = other.order("sleep 60\nsay done")
        await harness.come_up()
        turn = harness.order("ignore-eof\nignore-term\nhang")
        await settle()
        await climb(harness, turn)

        assert {pid for pid, _ in harness.processes.signals} == {harness.process.identity.pid}
        ended = await other.context.heard(agent_events.TurnEnded)
        assert (ended.turn, ended.text) == (bystander, "done")


@pytest.mark.parametrize("step", STEPS)
async def test_a_ladder_step_for_a_finished_turn_does_nothing(step: LadderStep) -> None:
    async with open_harness() as harness:
        await harness.come_up()
        first = (await harness.run("say one")).turn
        harness.order("sleep 1\nsay two")
        harness.driver.cancel_turn(first, step)
        ended = await harness.context.heard(agent_events.TurnEnded, times=2)

        assert (ended.outcome, ended.text) == ("completed", "two")
        assert harness.heard("session/cancel") == []
        assert harness.processes.signals == []


async def test_repeated_cancels_send_one_cancel() -> None:
    async with open_harness() as harness:
        await harness.come_up()
        turn = harness.order("linger 1")
        await settle()
        for _ in range(3):
            harness.driver.cancel_turn(turn, "ask")
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert (ended.outcome, ended.text) == ("interrupted", "late\n")
        assert len(harness.heard("session/cancel")) == 1


async def test_a_turn_that_ends_during_an_interrupt_keeps_its_outcome() -> None:
    async with open_manual_agent() as (harness, manual_agent):
        await harness.come_up()
        turn = harness.order("go")
        prompt = await manual_agent.hears("session/prompt")
        harness.driver.cancel_turn(turn, "ask")
        manual_agent.updates("done")
        manual_agent.ends(prompt)
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert (ended.outcome, ended.stop_reason) == ("completed", "end_turn")


async def test_a_late_interrupt_does_not_reach_the_next_turn() -> None:
    async with open_manual_agent() as (harness, manual_agent):
        await harness.come_up()
        turn = harness.order("go")
        prompt = await manual_agent.hears("session/prompt")
        manual_agent.updates("done")
        manual_agent.ends(prompt)
        await harness.context.heard(agent_events.TurnEnded)
        harness.driver.cancel_turn(turn, "ask")
        harness.order("next")
        await manual_agent.hears("session/prompt", times=2)
        await settle()

        assert harness.heard("session/cancel") == []


async def test_an_unsent_turn_gets_no_cancel() -> None:
    async with open_harness() as harness:
        await harness.come_up()
        turn = harness.order("say hello")
        harness.driver.cancel_turn(turn, "ask")
        ended = await harness.context.heard(agent_events.TurnEnded)
        await settle()

        assert ended.outcome == "interrupted"
        assert harness.methods() == []


async def test_a_cancelled_turn_answered_with_an_error_is_interrupted() -> None:
    async with open_manual_agent() as (harness, manual_agent):
        await harness.come_up()
        turn = harness.order("go")
        prompt = await manual_agent.hears("session/prompt")
        harness.driver.cancel_turn(turn, "ask")
        await manual_agent.hears("session/cancel")
        manual_agent.refuses(prompt, -32603, "aborted")
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert (ended.outcome, ended.error) == ("interrupted", None)


# Unkillable agents -------------------------------------------------------------------------


@pytest.fixture
def immortals(monkeypatch: pytest.MonkeyPatch) -> InMemoryProcesses:
    processes = InMemoryProcesses(are_immortal=True)
    monkeypatch.setattr(agent_exit, "is_alive", processes.is_alive)
    return processes


async def test_an_unkillable_agent_is_a_zombie_until_it_dies(
    immortals: InMemoryProcesses,
) -> None:
    async with open_harness(processes=immortals) as harness:
        await harness.come_up()
        turn = harness.order("ignore-eof\nhang")
        await settle()
        assert await climb(harness, turn) is None
        harness.driver.abandon_turn(turn)
        assert list(harness.runtime.zombies) == [turn]
        assert str(harness.process.identity.pid) in harness.runtime.zombies[turn]

        await trio.sleep(1000)
        assert harness.context.kinds() == []
        harness.process.die()
        await harness.context.heard(agent_events.ZombieEnded)
        assert harness.runtime.zombies == {}
        # In this order: the next turn must not be sent to an agent that has exited.
        assert harness.context.kinds() == ["AgentExited", "ZombieEnded"]


async def test_an_agent_that_survives_closing_is_reported_unkillable(
    immortals: InMemoryProcesses, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_harness(processes=immortals) as harness:
        await harness.come_up()
        await harness.run("ignore-eof\nsay hello")
        harness.driver.close()
        await harness.context.heard(agent_events.AgentClosed)
        assert f"unkillable: process {harness.process.identity.pid}" in caplog.text
        assert harness.context.processes == [harness.process.identity]
        harness.process.die()


async def test_an_interrupt_while_the_agent_exits_has_no_effect(
    immortals: InMemoryProcesses,
) -> None:
    async with open_harness(processes=immortals) as harness:
        await harness.come_up()
        turn = harness.order("close-stdout\nsleep 1000")
        await trio.sleep(2 * harness.context.ladder.kill_seconds + 1)  # it resists the kill
        harness.driver.cancel_turn(turn, "ask")
        assert harness.context.kinds() == []
        harness.process.die()
        await harness.context.heard(agent_events.AgentExited)


# Closing -----------------------------------------------------------------------------------


async def test_closing_calls_session_close_if_offered() -> None:
    for flags, told in ((("--close",), ["session/close"]), ((), [])):
        async with open_harness(*flags) as harness:
            await harness.come_up()
            harness.driver.close()
            await harness.context.heard(agent_events.AgentClosed)

            assert harness.methods() == told
            assert harness.processes.signals == []


@pytest.mark.parametrize(
    ("script", "seconds", "signals"),
    [
        ("say hello", 0, []),
        ("say hello\nanswer\nignore-eof", 2, ["terminate"]),
        ("say hello\nanswer\nignore-eof\nignore-term", 4, ["terminate", "kill"]),
        ("say hello\nanswer\nstop-self", 2, ["terminate"]),
        ("say hello\nanswer\ndeaf", 2, ["terminate"]),
    ],
)
async def test_closing_escalates_only_as_far_as_needed(
    script: str, seconds: float, signals: list[str]
) -> None:
    async with open_harness() as harness:
        await harness.come_up()
        await harness.run(script)
        await settle()
        began = trio.current_time()
        harness.driver.close()
        await harness.context.heard(agent_events.AgentClosed)

        assert trio.current_time() - began == seconds
        assert [signal for _, signal in harness.processes.signals] == signals


async def test_an_agent_that_hangs_in_session_close_is_still_closed() -> None:
    context = FakeDriverContext()
    context.ladder = Ladder(ask_seconds=3.0)
    async with open_harness("--close", "--hang-at", "close", context=context) as harness:
        await harness.come_up()
        harness.driver.close()
        await harness.context.heard(agent_events.AgentClosed)

        assert trio.current_time() == 3.0


@pytest.mark.parametrize("flags", [("--die-at", "close"), ("--fail-at", "close")])
async def test_an_agent_that_crashes_in_session_close_is_closed(flags: tuple[str, ...]) -> None:
    async with open_harness("--close", *flags) as harness:
        await harness.come_up()
        harness.driver.close()
        await harness.context.heard(agent_events.AgentClosed)
        await settle()

        assert harness.context.kinds() == ["AgentClosed"]


async def test_closing_in_a_turn_cancels_the_turn_first() -> None:
    async with open_harness("--close") as harness:
        await harness.come_up()
        harness.order("sleep 1000")
        await settle()
        harness.driver.close()
        await harness.context.heard(agent_events.AgentClosed)

        assert harness.methods() == ["session/prompt", "session/cancel", "session/close"]
        assert harness.processes.signals == []


async def test_an_agent_that_ignores_the_cancel_is_still_closed() -> None:
    async with open_harness("--close") as harness:
        await harness.come_up()
        harness.order("ignore-eof\nhang")
        await settle()
        harness.driver.close()
        await harness.context.heard(agent_events.AgentClosed)

        assert trio.current_time() == 7.0  # ask step, then close step
        assert [signal for _, signal in harness.processes.signals] == ["terminate"]


async def test_an_agent_that_exits_during_closing_reports_only_closed() -> None:
    async with open_manual_agent() as (harness, manual_agent):
        await harness.come_up()
        manual_agent.leaves(1)
        harness.driver.close()
        await harness.context.heard(agent_events.AgentClosed)
        await trio.sleep(60)

        assert harness.context.kinds() == ["AgentClosed"]


@pytest.mark.parametrize("script", ["sleep 1000", "hang", "stop-self", "ignore-eof\nhang"])
async def test_an_agent_discarded_in_a_turn_is_killed_and_was_a_zombie(
    script: str,
) -> None:
    async with open_harness() as harness:
        await harness.come_up()
        turn = harness.order(script)
        await settle()
        harness.driver.discard()
        assert list(harness.runtime.zombies) == [turn]
        await harness.context.heard(agent_events.ZombieEnded)
        await settle()

        assert harness.context.kinds() == ["ZombieEnded"]
        assert harness.runtime.zombies == {}
        assert harness.context.processes == []
