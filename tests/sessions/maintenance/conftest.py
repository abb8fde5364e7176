"""What the tests of the library share: a supervisor over each kind of store, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import supervisor
from supervisor import Settings, Supervisor
from tests.support.fake_agents import FakeAgent
from tests.support.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is, if it is a file."""
    return tmp_path / "state.db"


@pytest.fixture
def child_agent() -> FakeAgent:
    """What children are, so that their turns are not mixed up with those of `fake`."""
    return FakeAgent("child-agent")


@pytest.fixture
def settings() -> Settings:
    """A row is kept every few records, so that replaying begins anywhere."""
    return Settings(snapshot_every=3)


@pytest.fixture(params=["memory", "sqlite"])
async def sup(
    request: pytest.FixtureRequest,
    path: Path,
    fake_agent: FakeAgent,
    child_agent: FakeAgent,
    settings: Settings,
) -> AsyncIterator[Supervisor]:
    """Yield a supervisor with the agents `fake` and `child-agent`; once on each store."""
    where = path if request.param == "sqlite" else ":memory:"
    agents = [fake_agent.agent, child_agent.agent]
    async with supervisor.open(where, agents=agents, settings=settings) as opened:
        try:
            yield opened
        finally:
            fake_agent.finish_open_runs()
            child_agent.finish_open_runs()


@pytest.fixture
async def on_file(
    path: Path, fake_agent: FakeAgent, child_agent: FakeAgent, settings: Settings
) -> AsyncIterator[Supervisor]:
    """The same over a file only."""
    agents = [fake_agent.agent, child_agent.agent]
    async with supervisor.open(path, agents=agents, settings=settings) as opened:
        try:
            yield opened
        finally:
            fake_agent.finish_open_runs()
            child_agent.finish_open_runs()
