"""Fixtures of the tests of tools: a parent whose turn runs, its children, and their calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import supervisor
from supervisor import Permissions, Session, Settings, Supervisor
from supervisor.mcp_server.session_tools import SessionTools
from tests.support.fake_agents import AgentRun, FakeAgent
from tests.support.tool_calls import CallingSession
from tests.support.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
def fake_agent() -> FakeAgent:
    """Return the agent of the parent."""
    return FakeAgent("fake")


@pytest.fixture
def child_agent() -> FakeAgent:
    """Return the agent of children."""
    return FakeAgent("child-agent")


@pytest.fixture
def settings() -> Settings:
    """Return the settings of `sup`; a module may override them."""
    return Settings()


@pytest.fixture
async def sup(
    fake_agent: FakeAgent, child_agent: FakeAgent, settings: Settings
) -> AsyncIterator[Supervisor]:
    """Yield a supervisor with the agents `fake`, `child-agent`, `echo` and `scripted`."""
    agents = [fake_agent.agent, child_agent.agent]
    async with supervisor.open(":memory:", agents=agents, settings=settings) as opened:
        try:
            yield opened
        finally:
            fake_agent.finish_open_runs()
            child_agent.finish_open_runs()


@pytest.fixture
def tools(sup: Supervisor) -> SessionTools:
    """Return the tools of `sup`."""
    return SessionTools(sup)


@pytest.fixture
async def session(sup: Supervisor) -> Session:
    """Return the session of the parent."""
    return await sup.create(
        "fake",
        workspace="/w/x",
        permissions=Permissions(tools=["look", "bash"]),
        answers_for_children=True,
    )


@pytest.fixture
async def run(session: Session, fake_agent: FakeAgent) -> AgentRun:
    """Return the running turn of the parent."""
    await session.send("lead")
    return await fake_agent.next_run()


@pytest.fixture
def parent(tools: SessionTools, session: Session, run: AgentRun) -> CallingSession:
    """Return the parent, in its turn, as a caller of tools."""
    return CallingSession(tools, session.id)
