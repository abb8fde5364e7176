"""Our own MCP server for one agent process: whether and how the agent gets it.

Rule 1: the setting of the agent decides, then the permissions of the session, then what the agent
        can take. `auto` is stdio, which every agent has to take.
Rule 2: an agent that could get no tools works without them, and its session says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from supervisor.drivers.agent_tools import (
    TOOLS_SERVER,
    AgentTools,
    ToolsRequest,
    ToolsTransport,
    ToolsUnavailable,
)
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.port import DriverContext

from .agent_spec import AcpAgentSpec
from .capabilities import AgentCapabilities

# Agents that refuse servers over stdio, by a word of their preset or of the name they report.
HTTP_ONLY: Final = ("copilot",)


class OwnTools:
    """The access of one agent process to the tools, which ends with the block."""

    def __init__(
        self,
        agent: AcpAgentSpec,
        context: DriverContext,
        tools: AgentTools | None,
        process: ProcessIdentity,
    ) -> None:
        self._agent = agent
        self._context = context
        self._tools = tools
        self._process = process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._tools is not None:
            self._tools.forget(self._context.session_id, self._process)

    async def server(
        self,
        others: Iterable[Mapping[str, Any]],
        capabilities: AgentCapabilities,
        warn: Callable[[str], None],
    ) -> list[Mapping[str, Any]]:
        """Return the server in a list, empty if the agent does not get it.

        `others` are the servers of the agent's configuration.
        """
        transport = transport_for(self._agent, capabilities)
        is_allowed = self._context.permissions.allows("mcp_servers", TOOLS_SERVER)
        is_taken = any(server.get("name") == TOOLS_SERVER for server in others)
        if self._tools is None or transport is None or not is_allowed or is_taken:
            return []
        if transport == "http" and not capabilities.mcp_http:
            warn("the agent gets no tools of the session: it does not take MCP servers over HTTP")
            return []
        wanted = ToolsRequest(
            session_id=self._context.session_id,
            epoch=self._context.epoch,
            process=self._process,
            transport=transport,
        )
        try:
            return [await self._tools.server_for(wanted)]
        except ToolsUnavailable as problem:
            warn(f"the agent gets no tools of the session: {problem}")
            return []


def transport_for(agent: AcpAgentSpec, capabilities: AgentCapabilities) -> ToolsTransport | None:
    """Return how the agent gets the tools by its setting; None if it does not get them."""
    if agent.tools != "auto":
        return None if agent.tools == "off" else agent.tools
    preset = None if agent.login is None else agent.login.preset
    known = f"{preset or ''} {capabilities.name or ''}".lower()
    return "http" if any(word in known for word in HTTP_ONLY) else "stdio"
