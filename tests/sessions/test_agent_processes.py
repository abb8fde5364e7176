"""The cap on agent processes, and which idle process is suspended for a new one.

The agents here only claim to be processes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import Phase, Settings, SpawnRefused, Supervisor
from supervisor.drivers.port import BlockedOn, DriverContext
from supervisor.drivers.runtime import DriverRuntime
from tests.support.session_states import SlowStartAgent, phase_of


class Processes:
    """A kind of agent that counts as a process each, and is up at once."""

    name = "process"
    runs_process = True

    def __init__(self) -> None:
        self.blocked_on: BlockedOn | None = None

    def make_driver(self, context: DriverContext, runtime: DriverRuntime) -> SlowStartAgent:
        driver = _Process(self)
        driver.waits = False
        return driver.make_driver(context, runtime)


class _Process(SlowStartAgent):
    def __init__(self, kind: Processes) -> None:
        super().__init__()
        self._kind = kind

    def blocked_on(self) -> BlockedOn | None:  # type: ignore[override]  # the other never has one
        return self._kind.blocked_on


@pytest.fixture
def kind() -> Processes:
    return Processes()


@pytest.fixture
async def sup(kind: Processes) -> AsyncIterator[Supervisor]:
    settings = Settings(max_agent_processes=2)
    async with supervisor.open(agents=[kind], settings=settings) as opened:
        yield opened


async def test_the_longest_idle_agent_process_is_suspended_for_a_new_process(
    sup: Supervisor,
) -> None:
    oldest = await sup.create("process")
    await sup.create("process")

    await sup.create("process")

    assert await phase_of(oldest) is Phase.SUSPENDED


async def test_a_session_waits_no_longer_for_a_process_slot_than_the_suspension_takes(
    sup: Supervisor,
) -> None:
    for _ in range(2):
        await sup.create("process")
    began = trio.current_time()

    await sup.create("process")

    assert trio.current_time() == began


async def test_agents_without_processes_take_no_process_slot(sup: Supervisor) -> None:
    for _ in range(4):
        await sup.create("echo")
    await sup.create("process")


async def test_a_stopped_session_frees_its_process_slot(sup: Supervisor) -> None:
    first = await sup.create("process")
    busy = await sup.create("process")
    await busy.send("something")

    await first.stop()

    await sup.create("process")


async def test_a_busy_agent_process_is_never_suspended_for_another(sup: Supervisor) -> None:
    for _ in range(2):
        await (await sup.create("process")).send("something")

    for _ in range(2):
        with pytest.raises(SpawnRefused) as refused:
            await sup.create("process")
        assert (refused.value.limit, refused.value.used) == ("max_agent_processes", 2)
        await settle()


async def test_agent_processes_of_children_count_towards_the_cap(sup: Supervisor) -> None:
    root = await sup.create("echo")
    for _ in range(2):
        await root.spawn("process", "x")

    with pytest.raises(SpawnRefused, match="2 of 2 agent processes"):
        await root.spawn("process", "x")


async def test_a_blocked_agent_process_is_the_reason_of_its_silence(
    sup: Supervisor, kind: Processes
) -> None:
    session = await sup.create("process")
    await session.send("something")
    kind.blocked_on = BlockedOn("process", "it was stopped by a signal")

    why = await session.why()

    assert why.waits_for == "process"
    assert "stopped by a signal" in str(why)


@pytest.mark.parametrize("at", ["work", "rest"])
async def test_a_process_that_is_stopped_is_seen_at_once(
    sup: Supervisor, kind: Processes, at: str
) -> None:
    session = await sup.create("process")
    if at == "work":
        await session.send("something")
    kind.blocked_on = BlockedOn("process", "process 7 was stopped by a signal")

    why, info = await session.why(), await session.info()

    assert (why.waits_for, info.waiting_for) == ("process", "process")
    assert "process 7 was stopped by a signal" in str(why)


async def test_a_starting_agent_is_not_reported_as_a_blocked_process(
    sup: Supervisor, kind: Processes
) -> None:
    session = await sup.create("process")
    kind.blocked_on = BlockedOn("start", "its agent is starting")

    assert (await session.info()).waiting_for is None
