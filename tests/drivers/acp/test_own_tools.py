"""Our own MCP server in the handshake: which agents get it, how, and until when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest
import trio

from actors.testing import settle
from supervisor.core.errors import ConfigError
from supervisor.core.ids import SessionId
from supervisor.core.permissions import Permissions
from supervisor.drivers.acp.agent import AcpAgent, acp, scripted_process
from supervisor.drivers.acp.agent_spec import LoginHelp
from supervisor.drivers.acp.capabilities import AgentCapabilities
from supervisor.drivers.acp.own_tools import transport_for
from supervisor.drivers.agent_tools import (
    ToolsRequest,
    ToolsSetting,
    ToolsTransport,
    ToolsUnavailable,
)
from supervisor.drivers.identity import ProcessIdentity
from tests.support.acp_driver import AcpHarness, open_harness
from tests.support.driver_context import FakeDriverContext

STDIO = {"name": "understudy", "command": "bridge", "args": ["-I"], "env": {"TOKEN": "t"}}
HTTP = {
    "type": "http",
    "name": "understudy",
    "url": "http://127.0.0.1:1/mcp",
    "headers": {"Authorization": "Bearer t"},
}


class FakeTools:
    """`AgentTools` that notes its calls; `problem` is why it has none."""

    def __init__(self) -> None:
        self.requests: list[ToolsRequest] = []
        self.forgotten: list[tuple[SessionId, ProcessIdentity]] = []
        self.problem: str | None = None

    async def server_for(self, wanted: ToolsRequest) -> Mapping[str, Any]:
        await trio.lowlevel.checkpoint()
        self.requests.append(wanted)
        if self.problem is not None:
            raise ToolsUnavailable(self.problem)
        return STDIO if wanted.transport == "stdio" else HTTP

    def forget(self, session_id: SessionId, process: ProcessIdentity) -> None:
        self.forgotten.append((session_id, process))


@pytest.fixture
def tools() -> FakeTools:
    return FakeTools()


def agent(*flags: str, tools: ToolsSetting = "auto", **more: Any) -> AcpAgent:  # noqa: ANN401 - as acp
    command = scripted_process(flags=flags).command
    return acp("scripted", command, handshake_seconds=20.0, tools=tools, **more)


async def servers_of(
    tools: FakeTools, made: AcpAgent, context: FakeDriverContext | None = None, turn: str = ""
) -> tuple[list[dict[str, Any]], list[Any]]:
    """Return the servers in the request for a session, and the warnings of the first turn."""
    async with open_harness(agent=made, context=context) as harness:
        harness.runtime.agent_tools = tools
        await harness.come_up()
        assert tools.forgotten == []
        await harness.run(turn or "say hello")
        servers = last_servers(harness)
        warnings = [body for _, kind, body in harness.context.output if kind == "warning"]
        process = harness.process.identity
        harness.driver.close()
        await settle()
    assert tools.forgotten == [(harness.context.session_id, process)]
    assert all(one.process == process for one in tools.requests)
    return servers, warnings


def last_servers(harness: AcpHarness) -> list[dict[str, Any]]:
    opened = [*harness.heard("session/new"), *harness.heard("session/resume")]
    servers: list[dict[str, Any]] = opened[-1]["mcpServers"]
    return servers


async def test_an_agent_gets_the_tools_over_stdio_until_it_exits(tools: FakeTools) -> None:
    servers, warnings = await servers_of(tools, agent())

    assert servers == [{**STDIO, "env": [{"name": "TOKEN", "value": "t"}]}]
    (wanted,) = tools.requests
    assert (wanted.session_id, wanted.epoch, wanted.transport) == ("s_1", 1, "stdio")
    assert warnings == []


async def test_a_resumed_conversation_gets_them_too(tools: FakeTools) -> None:
    context = FakeDriverContext()
    made = agent("--resume")
    async with open_harness(agent=made, context=context) as harness:
        harness.runtime.agent_tools = tools
        await harness.come_up()
        context.agent_session_id = "scripted-1"
    async with open_harness(agent=made, context=context) as harness:
        harness.runtime.agent_tools = tools
        await harness.come_up()

        assert [server["name"] for server in last_servers(harness)] == ["understudy"]
    assert len(tools.requests) == 2


async def test_they_come_after_the_servers_of_the_configuration(tools: FakeTools) -> None:
    made = agent(mcp_servers=[{"name": "files", "command": "files"}])

    servers, _ = await servers_of(tools, made)

    assert [server["name"] for server in servers] == ["files", "understudy"]


async def test_a_configured_server_of_that_name_is_kept(tools: FakeTools) -> None:
    made = agent(mcp_servers=[{"name": "understudy", "command": "mine"}])

    servers, _ = await servers_of(tools, made)

    assert [server["command"] for server in servers] == ["mine"]
    assert tools.requests == []


@pytest.mark.parametrize(
    ("names", "count"), [(None, 1), (["understudy"], 1), (["files"], 0), ([], 0)]
)
async def test_the_permissions_decide(
    tools: FakeTools, names: list[str] | None, count: int
) -> None:
    context = FakeDriverContext(permissions=Permissions(mcp_servers=names))

    servers, warnings = await servers_of(tools, agent(), context)

    assert (len(servers), len(tools.requests), warnings) == (count, count, [])


async def test_the_setting_turns_them_off(tools: FakeTools) -> None:
    servers, warnings = await servers_of(tools, agent(tools="off"))

    assert (servers, tools.requests, warnings) == ([], [], [])


async def test_over_http_if_the_agent_takes_it(tools: FakeTools) -> None:
    servers, _ = await servers_of(tools, agent("--mcp", tools="http"))

    header = {"name": "Authorization", "value": "Bearer t"}
    assert servers == [{**HTTP, "headers": [header]}]


async def test_an_agent_that_does_not_take_http_is_told_so(tools: FakeTools) -> None:
    servers, warnings = await servers_of(tools, agent(tools="http"))

    assert (servers, tools.requests) == ([], [])
    assert "does not take MCP servers over HTTP" in str(warnings)


async def test_tools_that_are_not_there_are_a_warning(tools: FakeTools) -> None:
    tools.problem = "set daemon.tcp_port"

    servers, warnings = await servers_of(tools, agent())

    assert servers == []
    assert "set daemon.tcp_port" in str(warnings)


async def test_a_failed_start_ends_the_access(tools: FakeTools) -> None:
    async with open_harness(agent=agent("--die-at", "new")) as harness:
        harness.runtime.agent_tools = tools
        harness.driver.start()
        await settle()

    assert len(tools.requests) == len(tools.forgotten) == 1


@pytest.mark.parametrize(
    ("setting", "name", "preset", "transport"),
    [
        ("auto", "claude-agent-acp", "claude", "stdio"),
        ("auto", "Copilot", None, "http"),
        ("auto", None, "copilot", "http"),
        ("auto", "kimi", "kimi", "stdio"),
        ("stdio", "Copilot", "copilot", "stdio"),
        ("http", "claude-agent-acp", "claude", "http"),
        ("off", "Copilot", "copilot", None),
    ],
)
def test_auto_knows_the_agents_that_take_http_only(
    setting: ToolsSetting, name: str | None, preset: str | None, transport: ToolsTransport | None
) -> None:
    made = attrs.evolve(agent(tools=setting), login=LoginHelp("log in", preset=preset))

    assert transport_for(made, AgentCapabilities(name=name)) == transport


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(ConfigError, match="tools"):
        agent(tools="sse")  # type: ignore[arg-type]
