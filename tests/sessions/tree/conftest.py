"""Fixtures of the tests of trees: parents and children run by the test, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import supervisor
from supervisor import Session, Settings, Supervisor
from tests.support.fake_agents import AgentRun, FakeAgent
from tests.support.session_states import SlowStartAgent
from tests.support.tree_queries import spawner
from tests.support.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
def child_agent() -> FakeAgent:
    """Return the agent of children, whose turns are kept apart from those of `fake`."""
    return FakeAgent("child-agent")


@pytest.fixture
def slow() -> SlowStartAgent:
    """An agent that comes up, or fails to, when the test says so."""
    return SlowStartAgent()


@pytest.fixture
async def sup(
    fake_agent: FakeAgent,
    shielded_agent: FakeAgent,
    child_agent: FakeAgent,
    slow: SlowStartAgent,
    settings: Settings,
) -> AsyncIterator[Supervisor]:
    """Return a supervisor with `fake`, `shielded`, `child-agent`, `slow` and `spawner`."""
    agents: list[Any] = [fake_agent.agent, shielded_agent.agent, child_agent.agent, slow, spawner]
    async with supervisor.open(":memory:", agents=agents, settings=settings) as opened:
        try:
            yield opened
        finally:
            for one in (fake_agent, shielded_agent, child_agent):
                one.finish_open_runs()


@pytest.fixture
async def child(session: Session) -> Session:
    """A child of `session`, which is idle itself."""
    return await session.spawn("child-agent", "errand")


@pytest.fixture
async def child_run(child: Session, child_agent: FakeAgent) -> AgentRun:
    """The child's turn on its errand."""
    return await child_agent.next_run()
