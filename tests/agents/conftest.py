"""Installed agents, folders for their runs, and the table of what was measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.support.agent_installation import Installed, NotInstallable, install
from tests.support.agent_table import AgentTable
from tests.support.real_agents import REAL_AGENTS, RealAgent

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / ".nox" / "real-agents"
TABLE: Final = pytest.StashKey[AgentTable]()

Install = Callable[[RealAgent], Installed]


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TABLE] = AgentTable()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table, if a real agent was run."""
    lines = config.stash[TABLE].lines()
    if lines:
        terminalreporter.section("real agents")
        terminalreporter.write_line("\n".join(lines))


@pytest.fixture(scope="session")
def install_once() -> Install:
    """Return a function that installs an agent, and fails the second time as the first."""
    found: dict[str, Installed | NotInstallable] = {}

    def installed(agent: RealAgent) -> Installed:
        if agent.name not in found:
            try:
                found[agent.name] = install(agent, CACHE)
            except NotInstallable as error:
                found[agent.name] = error
        result = found[agent.name]
        if isinstance(result, NotInstallable):
            pytest.skip(f"{agent.name}: {result}")
        return result

    return installed


@pytest.fixture(params=REAL_AGENTS, ids=lambda agent: agent.name)
def installed(request: pytest.FixtureRequest, install_once: Install) -> Installed:
    """Return each agent, installed; skip the test if it cannot be installed."""
    return install_once(request.param)


@pytest.fixture
def table(pytestconfig: pytest.Config) -> AgentTable:
    return pytestconfig.stash[TABLE]
