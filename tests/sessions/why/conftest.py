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
from tests.support.waiting_agents import ActingAgent, PromptChain, SlowExitAgent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
def acting_agent() -> ActingAgent:
    return ActingAgent()


@pytest.fixture
async def prompt_chain() -> PromptChain:
    return PromptChain(3)


@pytest.fixture
def slow() -> SlowExitAgent:
    return SlowExitAgent()


@pytest.fixture
async def sup(
    fake_agent: FakeAgent,
    shielded_agent: FakeAgent,
    prompt_chain: PromptChain,
    slow: SlowExitAgent,
    acting_agent: ActingAgent,
) -> AsyncIterator[Supervisor]:
    agents: list[Any] = [
        fake_agent.agent,
        shielded_agent.agent,
        slow,
        acting_agent.agent,
        *prompt_chain.agents,
    ]
    async with supervisor.open(agents=agents) as opened:
        try:
            yield opened
        finally:
            prompt_chain.opened.set()
            for one in (fake_agent, shielded_agent):
                one.finish_open_runs()
