"""Real agents under a real supervisor, with a stand-in model: prompts, permissions, MCP servers.

Run by `nox -s agents`; an agent is installed from its registry when its first test starts. A test
of a fact that differs between agents compares it with the agent's row in `real_agents.py`, so that
a new version with a new behaviour is noticed.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from supervisor.drivers.identity import identify
from tests.support.agent_installation import Installed
from tests.support.agent_runs import AgentRun, open_agent_run
from tests.support.agent_table import AgentTable
from tests.support.echo_mcp import server
from tests.support.echo_mcp.over_http import PATH, echo_app
from tests.support.loopback_apps import serve_on_loopback

pytestmark = pytest.mark.agents

ECHO, TOOL = "echo", "echo_tool"
every_transport = pytest.mark.parametrize("transport", ["stdio", "http"])


@pytest.fixture
def takes_stdio(installed: Installed) -> Installed:
    """Return each agent that takes MCP servers over stdio."""
    if "stdio" not in installed.agent.transports:
        pytest.skip(f"{installed.agent.name} takes no MCP server over stdio")
    return installed


class EchoCalls:
    """Texts that the tool was called with, by stdio in a log, by HTTP in a list."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.over_http: list[str] = []

    @property
    def texts(self) -> list[str]:
        return self.over_http + [line for line in self._lines() if not line.startswith("pid ")]

    @property
    def pids(self) -> list[int]:
        return [int(line[4:]) for line in self._lines() if line.startswith("pid ")]

    def _lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@asynccontextmanager
async def run_with_echo(
    installed: Installed, folder: Path, transport: str
) -> AsyncIterator[tuple[AgentRun, EchoCalls]]:
    """Open a run whose agent has the MCP server of the tests."""
    calls = EchoCalls(folder / "calls")
    async with serve_on_loopback(echo_app(calls.over_http)) as url:
        words = ["-I", "-S", server.__file__, str(calls.log)]
        over_stdio: dict[str, Any] = {"name": ECHO, "command": sys.executable, "args": words}
        over_http: dict[str, Any] = {"name": ECHO, "type": "http", "url": url + PATH}
        servers = [over_stdio if transport == "stdio" else over_http]
        async with open_agent_run(installed, folder, servers=servers) as run:
            yield run, calls


def echo_script(installed: Installed, text: str) -> str:
    return installed.agent.script(ECHO, (TOOL, {"text": text}))


async def test_a_prompt_is_answered(
    installed: Installed, tmp_path: Path, table: AgentTable
) -> None:
    async with open_agent_run(installed, tmp_path) as run:
        played = await run.prompt("say hello")
        again = await run.prompt("say hello again")
        version = await run.version()

    assert (played.outcome, again.outcome) == ("completed", "completed")
    assert "hello" in played.text
    assert "hello again" in again.text
    assert run.model.unknown == []
    table.set(installed.agent.name, "version", version or "unknown")


async def test_a_granted_shell_command_runs(installed: Installed, tmp_path: Path) -> None:
    async with open_agent_run(installed, tmp_path) as run:
        played = await run.prompt(f"{installed.agent.shell_step}\nsay over")

    assert "over" in played.text
    assert (run.workspace / "made").exists()


async def test_a_refused_shell_command_does_not_run(
    installed: Installed, tmp_path: Path, table: AgentTable
) -> None:
    agent = installed.agent
    async with open_agent_run(installed, tmp_path) as run:
        played = await run.prompt(agent.shell_step, decision="reject_once")
        again = await run.prompt("say still here")

    asks = bool(played.questions)
    table.set(agent.name, "asks before its shell", yes_or_no(is_it=asks))
    assert asks == ("shell" in agent.asks_for)
    assert (run.workspace / "made").exists() == (not asks)
    assert "still here" in again.text


@every_transport
async def test_a_tool_of_an_mcp_server_is_called(
    installed: Installed, tmp_path: Path, table: AgentTable, transport: str
) -> None:
    agent = installed.agent
    async with run_with_echo(installed, tmp_path, transport) as (run, calls):
        played = await run.prompt(echo_script(installed, "ping 7"))

    reached = calls.texts == ["ping 7"] and "echo: ping 7" in played.text
    table.set(agent.name, transport, yes_or_no(is_it=reached))
    assert reached == (transport in agent.transports)
    if reached:
        name = shown_name(played.tool_names[-1])
        table.set(agent.name, "name of a tool", f"`{name}`")
        assert name == agent.tool_name


async def test_a_refused_tool_of_an_mcp_server_is_not_called(
    installed: Installed, tmp_path: Path, table: AgentTable
) -> None:
    agent = installed.agent
    async with run_with_echo(installed, tmp_path, agent.transports[0]) as (run, calls):
        played = await run.prompt(echo_script(installed, "ping 8"), decision="reject_once")
        again = await run.prompt("say still here")

    asks = bool(played.questions)
    table.set(agent.name, "asks before a tool", yes_or_no(is_it=asks))
    assert asks == ("MCP" in agent.asks_for)
    assert calls.texts == ([] if asks else ["ping 8"])
    assert "still here" in again.text


async def test_the_mcp_server_of_an_agent_ends_with_it(
    takes_stdio: Installed, tmp_path: Path
) -> None:
    async with run_with_echo(takes_stdio, tmp_path, "stdio") as (run, calls):
        await run.prompt(echo_script(takes_stdio, "ping 9"))

    assert calls.pids
    with trio.fail_after(10):
        while any(identify(pid) is not None for pid in calls.pids):  # noqa: ASYNC110 - no event
            await trio.sleep(0.02)


async def test_several_tools_are_called_one_after_the_other(
    installed: Installed, tmp_path: Path
) -> None:
    agent = installed.agent
    script = agent.script(ECHO, (TOOL, {"text": "one"}), (TOOL, {"text": "two"}))
    async with run_with_echo(installed, tmp_path, agent.transports[0]) as (run, calls):
        played = await run.prompt(script)
        seen = (await run.prompt("say over")).results

    assert calls.texts == ["one", "two"]
    assert "the last result:" in played.text
    first, second = (text for text in seen if "echo: " in text)
    assert "echo: one" in first
    assert "echo: two" in second


def yes_or_no(*, is_it: bool) -> str:
    return "yes" if is_it else "no"


def shown_name(name: str) -> str:
    """Return a tool's name with the variable parts in capitals."""
    return name.replace(TOOL, "TOOL").replace(ECHO, "SERVER")
