"""Fixtures of the session tests: a supervisor on virtual time, and agents run by the test.

Every async test of this folder runs in virtual time: a time-out costs nothing and is exact, and
a deadlock fails the test with the names of the waiting tasks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import Session, Settings, Supervisor
from tests.support.commit_faults import FaultInjector
from tests.support.fake_agents import AgentRun, FakeAgent, Follow, Item, watch_into
from tests.support.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
def fake_agent() -> FakeAgent:
    """Return an agent that obeys interrupts."""
    return FakeAgent("fake")


@pytest.fixture
def shielded_agent() -> FakeAgent:
    """Return an agent that ignores interrupts."""
    return FakeAgent("shielded", shielded=True)


@pytest.fixture
def settings() -> Settings:
    """Return the settings of `sup`; a module may override them."""
    return Settings()


@pytest.fixture
async def sup(
    fake_agent: FakeAgent, shielded_agent: FakeAgent, settings: Settings
) -> AsyncIterator[Supervisor]:
    """Yield a supervisor with the agents `fake`, `shielded`, `echo` and `scripted`."""
    agents = [fake_agent.agent, shielded_agent.agent]
    async with supervisor.open(":memory:", agents=agents, settings=settings) as opened:
        try:
            yield opened
        finally:
            fake_agent.finish_open_runs()
            shielded_agent.finish_open_runs()


@pytest.fixture
async def session(sup: Supervisor) -> Session:
    """Return an idle session of `fake`."""
    return await sup.create("fake")


@pytest.fixture
async def run(session: Session, fake_agent: FakeAgent) -> AgentRun:
    """Return the running turn of `session` on "first"."""
    await session.send("first")
    return await fake_agent.next_run()


@pytest.fixture
async def shielded_session(sup: Supervisor) -> Session:
    """Return an idle session whose agent ignores interrupts."""
    return await sup.create("shielded")


@pytest.fixture
async def shielded_run(shielded_session: Session, shielded_agent: FakeAgent) -> AgentRun:
    """Return the running turn of `shielded_session` on "first"."""
    await shielded_session.send("first")
    return await shielded_agent.next_run()


@pytest.fixture
def injector(sup: Supervisor, monkeypatch: pytest.MonkeyPatch) -> FaultInjector:
    """Return the injector of faults into the commits of `sup`."""
    return FaultInjector(sup, monkeypatch)


@pytest.fixture
def follow(nursery: trio.Nursery) -> Follow:
    """Return a function that watches a session until the test ends and returns the growing list."""

    async def begin(session: Session, *, after: int = 0) -> list[Item]:
        seen: list[Item] = []
        nursery.start_soon(watch_into, session, seen, after)
        await settle()
        return seen

    return begin
