"""The installation of agents, with programs that only look like node and npm."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from tests.support.agent_installation import NotInstallable, install
from tests.support.real_agents import REAL_AGENTS

AGENT = attrs.evolve(REAL_AGENTS[0], needs_node=20)


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder of the PATH, with a node 20."""
    folder = tmp_path / "programs"
    write_program(folder / "node", "echo v20.1.0")
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_a_machine_without_npm_says_so(programs: Path, tmp_path: Path) -> None:
    with pytest.raises(NotInstallable, match="node and npm are not installed"):
        install(AGENT, tmp_path / "cache")


def test_the_first_line_of_a_failure_is_the_reason(programs: Path, tmp_path: Path) -> None:
    write_program(programs / "npm", "echo registry is out of reach >&2; echo more >&2; exit 1")

    with pytest.raises(NotInstallable, match=r"npm install failed: registry is out of reach$"):
        install(AGENT, tmp_path / "cache")


def test_an_agent_is_installed_once(programs: Path, tmp_path: Path) -> None:
    write_program(programs / "npm", f'echo "$@" >> {tmp_path}/log')

    first, second = install(AGENT, tmp_path / "cache"), install(AGENT, tmp_path / "cache")

    (line,) = (tmp_path / "log").read_text().splitlines()
    assert line.split()[-1] == AGENT.package
    assert first == second
    assert first.command[0] == f"{tmp_path}/cache/claude/node_modules/.bin/claude-agent-acp"
    assert first.path.split(":")[0] == str(programs)


def test_an_agent_that_needs_a_newer_node_gets_one(programs: Path, tmp_path: Path) -> None:
    write_program(programs / "npm", f'echo "$@" >> {tmp_path}/log')

    installed = install(attrs.evolve(AGENT, needs_node=22), tmp_path / "cache")

    packages = [line.split()[-1] for line in (tmp_path / "log").read_text().splitlines()]
    assert packages == ["node@22", AGENT.package]
    assert installed.path.split(":")[0] == f"{tmp_path}/cache/node/node_modules/.bin"
