"""Nurseries for Python agents are used again, and a corrupted one fails only its own agent."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from supervisor.drivers.agent_nurseries import AgentNurseries, AgentNursery, Work


class Agents:
    """Runs work in agent nurseries, and keeps the errors of corrupted tasks."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nurseries = AgentNurseries(nursery.start_soon)
        self.used: list[AgentNursery] = []
        self.errors: list[BaseException] = []

    def start(self, work: Work) -> None:
        nursery = self.nurseries.start_soon(work, self.errors.append, name="agent")
        self.used.append(nursery)

    async def release(self) -> None:
        """End as an agent does: release the nursery that was used last."""
        self.nurseries.release(self.used[-1])

    async def leave_nursery_open(self) -> None:
        await trio.open_nursery().__aenter__()


@pytest.fixture
def agents(nursery: trio.Nursery) -> Agents:
    return Agents(nursery)


async def test_the_next_agent_uses_the_nursery_of_the_last(agents: Agents) -> None:
    for _ in range(3):
        agents.start(agents.release)
        await wait_all_tasks_blocked()

    assert len(set(agents.used)) == 1


async def test_agents_that_run_together_have_separate_nurseries(agents: Agents) -> None:
    agents.start(trio.sleep_forever)
    agents.start(trio.sleep_forever)
    await wait_all_tasks_blocked()

    assert agents.used[0] is not agents.used[1]


async def test_an_open_nursery_fails_only_the_agent_that_left_it(agents: Agents) -> None:
    ended = trio.Event()
    agents.start(ended.wait)

    agents.start(agents.leave_nursery_open)
    await wait_all_tasks_blocked()

    (error,) = agents.errors
    assert "corrupted" in str(error.exceptions[0])  # type: ignore[attr-defined]
    assert not ended.is_set()


async def test_a_corrupted_nursery_is_not_used_again(agents: Agents) -> None:
    agents.start(agents.leave_nursery_open)
    await wait_all_tasks_blocked()

    agents.start(agents.release)
    await wait_all_tasks_blocked()

    assert agents.used[0] is not agents.used[1]
    assert len(agents.errors) == 1


async def test_unused_nurseries_leave_no_task_behind(
    agents: Agents, autojump_clock: MockClock
) -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    agents.start(agents.release)
    await wait_all_tasks_blocked(0.01)
    kept = trio.lowlevel.current_statistics().tasks_living

    await trio.sleep(11.0)

    assert kept > before
    assert trio.lowlevel.current_statistics().tasks_living == before
