"""Terminal commands of an ACP agent: recorded, ended with turn or agent; see acp/client.py."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from actors.testing import settle
from supervisor.core import agent_events
from supervisor.core.permissions import Permissions
from supervisor.drivers.process.processes import Launch
from supervisor.drivers.scripted import ScriptedAgent
from tests.support.acp_driver import AcpHarness, ManualAgent, open_harness
from tests.support.driver_context import FakeDriverContext
from tests.support.in_memory_processes import MODULE, Agent, InMemoryProcesses


class Command(ManualAgent):
    """A process that prints its command, and keeps running if that is `sleep`."""

    def __init__(self, words: tuple[str, ...]) -> None:
        super().__init__()
        self._output.append(f"{' '.join(words)}\n".encode())
        if "sleep" not in words:
            self.leaves(0)

    def receive_eof(self) -> None:
        """Ignore input: a terminal has none."""


def run(launch: Launch) -> Agent:
    return ScriptedAgent() if MODULE in launch.command else Command(launch.command)


@pytest.fixture
def context(tmp_path: Path) -> FakeDriverContext:
    return FakeDriverContext(workspace=str(tmp_path), permissions=Permissions(mode="approve_all"))


async def at_sleep(harness: AcpHarness) -> None:
    """Start a turn that runs a long command."""
    await harness.come_up()
    harness.order("terminal sleep 1000")
    await harness.context.heard(agent_events.CallStarted)
    await trio.sleep(1)  # virtual time stops while a thread works
    assert len(harness.processes.alive) == 2
    assert len(harness.context.processes) == 2


async def test_a_terminal_process_is_recorded_until_it_ends(context: FakeDriverContext) -> None:
    async with open_harness(context=context, processes=InMemoryProcesses(run)) as harness:
        await harness.come_up()
        ended = await harness.run("terminal echo hello")
        await settle()

        assert "echo hello" in (ended.text or "")
        assert len(context.processes_ever) == 2
        assert context.processes == [harness.processes.all[0].identity]


async def test_a_terminal_command_ends_with_its_turn(context: FakeDriverContext) -> None:
    async with open_harness(context=context, processes=InMemoryProcesses(run)) as harness:
        await at_sleep(harness)
        [turn] = [event.turn for event in context.all(agent_events.CallStarted)]
        harness.driver.cancel_turn(turn, "ask")
        await context.heard(agent_events.TurnEnded)
        await settle()

        assert harness.processes.alive == [harness.processes.all[0]]
        assert context.processes == [harness.processes.all[0].identity]


async def test_cancelling_a_tool_call_ends_only_its_terminal(context: FakeDriverContext) -> None:
    async with open_harness(context=context, processes=InMemoryProcesses(run)) as harness:
        await at_sleep(harness)
        call = context.all(agent_events.CallStarted)[0]
        harness.driver.cancel_call(call.turn, call.call)
        ended = await context.heard(agent_events.CallEnded)
        over = await context.heard(agent_events.TurnEnded)

        assert (ended.call, ended.outcome) == (call.call, "interrupted")
        assert over.outcome == "completed"


@pytest.mark.parametrize("how", ["close", "drop", "kill"])
async def test_a_terminal_command_ends_with_its_agent(context: FakeDriverContext, how: str) -> None:
    async with open_harness(context=context, processes=InMemoryProcesses(run)) as harness:
        await at_sleep(harness)
        match how:
            case "close":
                harness.driver.close()
            case "drop":
                harness.driver.discard()
            case _:
                harness.processes.all[0].kill()
        await trio.sleep(20)

        assert harness.processes.alive == []
        assert context.processes == []
