"""The port through which drivers hand our own tools to their agents.

The server of the tools is above the drivers; `DriverRuntime.agent_tools` has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias

import attrs

from supervisor.core.ids import SessionId
from supervisor.core.mcp_server_list import OWN_SERVER

from .identity import ProcessIdentity

# How an agent gets the tools: as the setting says, and as it is decided for one agent.
ToolsSetting: TypeAlias = Literal["auto", "stdio", "http", "off"]
ToolsTransport: TypeAlias = Literal["stdio", "http"]

# The name of the MCP server with the tools, in permissions too.
TOOLS_SERVER: Final = OWN_SERVER


@attrs.frozen(kw_only=True)
class ToolsRequest:
    """An agent process that is to get the tools of its session."""

    session_id: SessionId
    epoch: int
    process: ProcessIdentity
    transport: ToolsTransport


class ToolsUnavailable(Exception):
    """The agent gets no tools; the text says why."""


class AgentTools(Protocol):
    """The tools of sessions, for their agents."""

    async def server_for(self, wanted: ToolsRequest) -> Mapping[str, Any]:
        """Return the MCP server with the tools, as in ACP; raise `ToolsUnavailable`.

        It contains a credential, so it is neither recorded nor logged.
        """

    def forget(self, session_id: SessionId, process: ProcessIdentity) -> None:
        """End the access of an agent process, which has exited."""
