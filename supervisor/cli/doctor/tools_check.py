"""Checks of `--agents`: whether a tool can be called, and how each agent gets the tools."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from supervisor.cli.text_format import format_duration
from supervisor.configuration import AgentCatalog, Configuration, make_agents
from supervisor.core.errors import SupervisorError
from supervisor.drivers.agent_tools import TOOLS_SERVER, ToolsTransport

from .findings import Finding, error, ok, warning
from .hand_over_proof import PROOF_SECONDS, prove_hand_over

if TYPE_CHECKING:
    from supervisor.drivers.port import AgentKind

_CALL_SECONDS: Final = 30.0


async def check_tool_call() -> Finding:
    """Let the scripted agent call a tool, through a bridge and the socket of agents."""
    from supervisor.drivers.acp.agent import scripted_process  # noqa: PLC0415 - slow to import
    from supervisor.runtime import open as open_supervisor  # noqa: PLC0415 - as above

    began = trio.current_time()
    agent = scripted_process()
    try:
        with tempfile.TemporaryDirectory(prefix="understudy-doctor-") as folder:
            with trio.fail_after(_CALL_SECONDS):
                async with open_supervisor(Path(folder) / "state.db", agents=[agent]) as sup:
                    session = await sup.create(agent.name)
                    said = (await session.prompt("call agents {}")).text
    except (SupervisorError, OSError, trio.TooSlowError) as problem:
        said = str(problem) or "timeout"
    if '"agents"' not in said:
        return error(
            "tools",
            "tools-fail",
            f"an agent could not call a tool: {said.strip()}",
            "agents work without tools; please report it",
        )
    took = format_duration(trio.current_time() - began)
    return ok("tools", f"the scripted agent has called a tool of its session ({took})")


async def check_hand_over(configuration: Configuration) -> list[Finding]:
    """Say of each agent that can be started how it gets the tools, and whether it asks for them."""
    catalog = AgentCatalog(configuration.agents, os.environ)
    try:
        configured = make_agents(configuration, environ=os.environ)
    except SupervisorError:  # already reported by the check of the configuration
        configured = []
    agents = [*configured, *catalog.installed().values()]
    port = configuration.daemon.tcp_port
    ways = {agent.name: _way(agent, port) for agent in agents}
    wanted = {name: way for name, way in ways.items() if isinstance(way, str)}
    proofs = await prove_hand_over(
        [one for one in agents if one.name in wanted], wanted, seconds=PROOF_SECONDS
    )
    return [way if isinstance(way, Finding) else proofs[name] for name, way in ways.items()]


def _way(agent: AgentKind, tcp_port: int | None) -> ToolsTransport | Finding:
    """Return how the agent gets the tools, or why it does not."""
    from supervisor.drivers.acp.agent import AcpAgent  # noqa: PLC0415 - slow to import
    from supervisor.drivers.acp.capabilities import AgentCapabilities  # noqa: PLC0415 - as above
    from supervisor.drivers.acp.own_tools import transport_for  # noqa: PLC0415 - as above
    from supervisor.drivers.confined import Confined  # noqa: PLC0415 - as above

    inside, permissions = agent, None
    if isinstance(agent, Confined):
        inside, permissions = agent.agent, agent.permissions
    if not isinstance(inside, AcpAgent):
        return ok("tools", f"{agent.name}: no MCP server, because it does not speak ACP")
    transport = transport_for(inside, AgentCapabilities())
    if transport is None:
        return ok("tools", f'{agent.name}: no tools, because of tools = "off"')
    if permissions is not None and not permissions.allows("mcp_servers", TOOLS_SERVER):
        return ok("tools", f"{agent.name}: no tools, because its permissions do not name them")
    if transport == "http" and tcp_port is None:
        return warning(
            "tools",
            "tools-need-a-port",
            f"{agent.name} takes tools over HTTP only, and the daemon has no port",
            "set daemon.tcp_port",
        )
    return transport
