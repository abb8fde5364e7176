"""Fixtures of the tests of `why`: agents whose sessions wait, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import supervisor
from supervisor import (
    Supervisor,
)
from tests.support.fake_agents import FakeAgent
from tests.support.virtual_time import use_virtual_time
from tests.support.waiting_agents import Doors, Insider, Slow


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
def insider() -> Insider:
    return Insider()


@pytest.fixture
async def doors() -> Doors:
    return Doors(3)


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
async def sup(
    fake_agent: FakeAgent,
    shielded_agent: FakeAgent,
    doors: Doors,
    slow: Slow,
    insider: Insider,
) -> AsyncIterator[Supervisor]:
    agents: list[Any] = [fake_agent.agent, shielded_agent.agent, slow, insider.agent, *doors.agents]
    async with supervisor.open(agents=agents) as opened:
        try:
            yield opened
        finally:
            doors.opened.set()
            for one in (fake_agent, shielded_agent):
                one.finish_open_runs()
