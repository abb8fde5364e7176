"""Fixtures of the tests of a degraded store: a failing store, in virtual time, without crashes."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import supervisor
import supervisor.runtime
from supervisor import Settings, Supervisor
from tests.support.fake_agents import FakeAgent
from tests.support.fake_store import FailingStore
from tests.support.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> FailingStore:
    """Return the store of every supervisor that the test opens."""
    frail = FailingStore()
    monkeypatch.setattr(supervisor.runtime, "MemoryStore", lambda: frail)
    return frail


@pytest.fixture(autouse=True)
def _no_crashes(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail a test in which an actor crashes: a degraded store must not cause a crash."""
    caplog.set_level(logging.WARNING)
    yield
    said = [one.getMessage() for one in caplog.records if one.name == "actors"]
    assert said == []
    assert not [one for one in caplog.records if "given up" in one.getMessage()]


@pytest.fixture
def child_agent() -> FakeAgent:
    """Return the agent of children, whose turns are kept apart from those of `fake`."""
    return FakeAgent("child-agent")


@pytest.fixture
async def sup(
    fake_agent: FakeAgent, shielded_agent: FakeAgent, child_agent: FakeAgent, settings: Settings
) -> AsyncIterator[Supervisor]:
    """Yield a supervisor with the agents `fake`, `shielded` and `child-agent`."""
    agents = [fake_agent.agent, shielded_agent.agent, child_agent.agent]
    async with supervisor.open(":memory:", agents=agents, settings=settings) as opened:
        try:
            yield opened
        finally:
            for one in (fake_agent, shielded_agent, child_agent):
                one.finish_open_runs()
