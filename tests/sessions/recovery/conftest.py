"""What the tests of recovery share: a program that is killed and begun again, in virtual time.

A real file is written in real threads; virtual time stands still while they work.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fake_agents import FakeAgent
from tests.support.killed_program import Program
from tests.support.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
def child_agent() -> FakeAgent:
    """What children are, so that their turns are not mixed up with those of `fake`."""
    return FakeAgent("child-agent")


@pytest.fixture
def program(
    tmp_path: Path, fake_agent: FakeAgent, shielded_agent: FakeAgent, child_agent: FakeAgent
) -> Program:
    """Has the agents `fake`, `shielded` and `child-agent`, besides `echo` and `scripted`."""
    return Program(tmp_path / "state.db", fake_agent, shielded_agent, child_agent)
