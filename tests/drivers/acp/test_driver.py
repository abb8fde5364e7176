"""Start of an ACP agent: limits, process records, early calls; see acp/driver.py."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor.core import agent_events
from supervisor.core.errors import StoreDegraded
from supervisor.core.ids import TurnId
from supervisor.drivers.acp.agent import scripted_process
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.port import BlockedOn
from supervisor.drivers.runtime import DriverRuntime
from tests.support.acp_driver import AcpHarness, open_harness, open_manual_agent
from tests.support.driver_context import FakeDriverContext
from tests.support.in_memory_processes import InMemoryProcesses

# The agent hangs at this point for longer than any test.
PHASES = {
    "initialize": ("--hang-at", "initialize"),
    "session/new": ("--hang-at", "new"),
    "authenticate": ("--auth", "key", "--hang-at", "authenticate"),
    "slow": ("--delay", "30"),
}
in_each_phase = pytest.mark.parametrize("flags", PHASES.values(), ids=PHASES)


async def started(harness: AcpHarness) -> None:
    """Wait until the agent hangs where its flags say."""
    harness.driver.start()
    await settle()
    assert len(harness.processes.alive) == 1


# Calls before the handshake ----------------------------------------------------------------


async def test_a_turn_ordered_before_the_handshake_runs_after_it() -> None:
    async with open_harness("--delay", "5") as harness:
        harness.order("say hello")
        harness.driver.start()
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert (ended.outcome, ended.text) == ("completed", "hello")
        assert harness.context.kinds() == ["AgentAttached", "TurnEnded"]


@in_each_phase
async def test_a_turn_cancelled_before_the_handshake_ends_at_once(
    flags: tuple[str, ...],
) -> None:
    async with open_harness(*flags) as harness:
        await started(harness)
        turn = harness.order("say hello")
        harness.driver.cancel_turn(turn, "ask")

        ended = await harness.context.heard(agent_events.TurnEnded)
        assert (ended.turn, ended.outcome) == (turn, "interrupted")


async def test_a_turn_cancelled_before_the_handshake_never_reaches_the_agent() -> None:
    async with open_harness("--delay", "5") as harness:
        await started(harness)
        turn = harness.order("say hello")
        for step in ("ask", "close", "terminate", "kill"):
            harness.driver.cancel_turn(turn, step)
        await harness.context.heard(agent_events.AgentAttached)
        ended = await harness.run("say again")

        assert ended.text == "again"
        assert harness.prompts() == [["say again"]]
        assert [end.outcome for end in harness.context.all(agent_events.TurnEnded)] == [
            "interrupted",
            "completed",
        ]


@in_each_phase
async def test_an_agent_closed_before_the_handshake_ends_at_once(flags: tuple[str, ...]) -> None:
    async with open_harness(*flags) as harness:
        await started(harness)
        harness.driver.close()
        await harness.context.heard(agent_events.AgentClosed)
        await settle()

        assert harness.processes.alive == []
        assert harness.context.processes == []
        assert [kind for kind in harness.context.kinds() if kind != "AuthenticationRequested"] == [
            "AgentClosed"
        ]


@in_each_phase
async def test_an_agent_discarded_before_the_handshake_reports_and_leaves_nothing(
    flags: tuple[str, ...],
) -> None:
    async with open_harness(*flags) as harness:
        await started(harness)
        harness.order("say hello")
        harness.driver.discard()
        await settle()

        assert harness.processes.alive == []
        assert harness.context.processes == []
        assert harness.context.all(agent_events.AgentClosed) == []
        assert harness.context.all(agent_events.StartFailed) == []


async def test_an_agent_closed_before_its_start_reports_closed() -> None:
    async with open_harness() as harness:
        harness.driver.start()
        harness.driver.close()
        await harness.context.heard(agent_events.AgentClosed)

        assert harness.processes.all == []


async def test_an_agent_closed_twice_reports_closed_once() -> None:
    async with open_harness() as harness:
        await harness.come_up()
        harness.driver.close()
        harness.driver.close()
        await harness.context.heard(agent_events.AgentClosed)
        await trio.sleep(60)

        assert harness.context.kinds() == ["AgentClosed"]


async def test_abandoning_an_unknown_turn_ends_at_once() -> None:
    async with open_harness("--delay", "5") as harness:
        await started(harness)
        turn = harness.order("say hello")
        harness.driver.cancel_turn(turn, "ask")
        harness.driver.abandon_turn(turn)
        harness.driver.abandon_turn(TurnId("another"))

        assert [event.turn for event in harness.context.all(agent_events.ZombieEnded)] == [turn]


# Process records ---------------------------------------------------------------------------


class Forgetful(FakeDriverContext):
    """A context whose store refuses writes."""

    async def record_process(self, identity: ProcessIdentity) -> None:
        await trio.lowlevel.checkpoint()
        raise StoreDegraded("the disk is full", hint="make room")

    def forget_process(self, identity: ProcessIdentity) -> None:
        """Accept the removal: a refused record may have been written."""


async def test_an_agent_process_that_cannot_be_recorded_does_not_run() -> None:
    async with open_harness(context=Forgetful()) as harness:
        harness.driver.start()
        failed = await harness.context.heard(agent_events.StartFailed)

        assert failed.failure.kind == "storage"
        assert harness.processes.all == []


async def test_the_agent_process_is_recorded_from_before_exec_until_its_death() -> None:
    async with open_harness() as harness:
        await harness.come_up()
        assert harness.context.processes == [harness.process.identity]

        harness.driver.close()
        await harness.context.heard(agent_events.AgentClosed)
        assert harness.context.processes == []


# Limits ------------------------------------------------------------------------------------


async def three_starts(
    nursery: trio.Nursery, **terms: int
) -> tuple[list[AcpHarness], DriverRuntime]:
    processes = InMemoryProcesses()
    runtime = DriverRuntime(nursery, processes=processes, **terms)
    agent = scripted_process(flags=("--delay", "5"))
    desks = [AcpHarness(agent, runtime, processes) for _ in range(3)]
    for harness in desks:
        harness.driver.start()
        await settle()
    return desks, runtime


async def test_concurrent_agent_starts_are_limited(nursery: trio.Nursery) -> None:
    desks, _ = await three_starts(nursery, start_concurrency=2)
    assert len(desks[0].processes.alive) == 2

    for harness in desks:
        await harness.context.heard(agent_events.AgentAttached)
    assert len(desks[0].processes.alive) == 3


async def test_a_start_without_a_process_slot_evicts_an_idle_agent(
    nursery: trio.Nursery,
) -> None:
    desks, runtime = await three_starts(nursery, max_agent_processes=2)
    for harness in desks[:2]:
        await harness.context.heard(agent_events.AgentAttached)
    assert desks[2].driver.blocked_on() == BlockedOn("start", "all 2 agent processes are in use")

    desks[0].driver.close()
    await desks[2].context.heard(agent_events.AgentAttached)

    assert desks[2].processes.most_alive == 2
    assert runtime.process_slots.borrowed_tokens == 2


async def test_a_waiting_start_evicts_an_idle_process_only_once(nursery: trio.Nursery) -> None:
    asked: list[str] = []
    runtime = DriverRuntime(nursery, processes=InMemoryProcesses(), max_agent_processes=1)
    runtime.set_eviction(lambda: asked.append("please"))
    for _ in range(3):
        AcpHarness(scripted_process(), runtime, InMemoryProcesses()).driver.start()
        await settle()

    assert asked == ["please", "please"]


async def test_a_start_that_waits_for_a_process_slot_can_be_closed(nursery: trio.Nursery) -> None:
    desks, runtime = await three_starts(nursery, max_agent_processes=2)
    desks[2].driver.close()
    await desks[2].context.heard(agent_events.AgentClosed)

    assert len(desks[2].processes.all) == 2
    assert runtime.process_slots.borrowed_tokens == 2


# Choices -----------------------------------------------------------------------------------


async def test_agent_choices_are_reported_after_the_handshake() -> None:
    async with open_harness("--modes") as harness:
        harness.driver.start()
        surfaced = await harness.context.heard(agent_events.AgentChoicesReported)

        assert harness.context.kinds() == ["AgentAttached", "AgentChoicesReported"]
        assert surfaced.choices["mode"] == "code"


async def test_updates_during_the_handshake_are_not_faults() -> None:
    async with open_manual_agent(manual=("session/new",)) as (harness, manual_agent):
        harness.driver.start()
        request = await manual_agent.hears("session/new")
        manual_agent.updates("early")
        manual_agent.says({"method": "_auth/status_update", "params": {}})
        manual_agent.says({"method": "session/update", "params": None})
        manual_agent.answers(request, {"sessionId": "manual_agent"})
        await harness.context.heard(agent_events.AgentAttached)

        assert harness.context.output == []
