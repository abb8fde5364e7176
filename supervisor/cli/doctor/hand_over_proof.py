"""The proof that an agent gets the tools: it is started, and asks for them, without a prompt.

Rule 1: no agent gets a prompt, so no model is needed and nothing is paid for.
Rule 2: an agent that has not asked is no error: some start MCP servers in their first turn only.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import trio

from supervisor.cli.text_format import format_duration
from supervisor.core.errors import SupervisorError

from .findings import Finding, ok, warning

if TYPE_CHECKING:
    from supervisor.drivers.agent_tools import ToolsTransport
    from supervisor.drivers.port import AgentKind
    from supervisor.handles.supervisor import Supervisor
    from supervisor.mcp_server.caller import Caller
    from supervisor.mcp_server.tool import ToolAnswer, Toolbox, ToolDescription
    from supervisor.mcp_server.tools_service import ToolsService

# For the start of an agent and its first request for the tools.
PROOF_SECONDS: Final = 30.0
# Agents that are started at the same time; some take hundreds of megabytes.
_AT_ONCE: Final = 2
_MAX_CONNECTIONS: Final = 100
_MAX_REASON_CHARS: Final = 200


async def prove_hand_over(
    agents: Iterable[AgentKind], ways: Mapping[str, ToolsTransport], *, seconds: float
) -> dict[str, Finding]:
    """Start each agent, and return by its name whether it has asked for the tools.

    `ways` says by name how each gets the tools.
    """
    found: dict[str, Finding] = {}
    limiter = trio.CapacityLimiter(_AT_ONCE)

    async def prove(agent: AgentKind, folder: str) -> None:
        async with limiter:
            found[agent.name] = await _prove(agent, ways[agent.name], folder, seconds)

    with tempfile.TemporaryDirectory(prefix="understudy-doctor-") as folder:
        async with trio.open_nursery() as nursery:
            for agent in agents:
                nursery.start_soon(prove, agent, folder)
    return found


async def _prove(agent: AgentKind, way: ToolsTransport, folder: str, seconds: float) -> Finding:
    from supervisor.config import Settings  # noqa: PLC0415 - slow to import
    from supervisor.runtime import open_with_tools  # noqa: PLC0415 - as above

    began = trio.current_time()
    reason = f"it did not start within {seconds:g} s"
    listed = trio.Event()
    async with (
        open_with_tools(
            ":memory:",
            agents=[agent],
            settings=Settings(exit_seconds=0.0),
            make_toolbox=lambda sup: _NotingToolbox(sup, listed),
        ) as (sup, tools),
        _on_a_port(tools, is_wanted=way == "http"),
    ):
        with trio.move_on_after(seconds):
            try:
                await sup.create(agent.name, workspace=folder)
            except SupervisorError as problem:
                reason = f"it did not start: {_in_one_line(problem)}"
            else:
                reason = f"it started, but did not ask for them within {seconds:g} s"
                await listed.wait()
        took = format_duration(trio.current_time() - began)
    if listed.is_set():
        text = f"{agent.name}: tools over {way}; it was started and asked for them ({took})"
        return ok("tools", text)
    return warning(
        "tools",
        "tools-unproved",
        f"{agent.name}: tools over {way}, which is not proved: {reason}",
        "log in to the agent if it asks for that; after a turn, `understudy log` shows its calls",
    )


def _in_one_line(problem: SupervisorError) -> str:
    text = " ".join(str(problem.args[0]).split())
    return text if len(text) <= _MAX_REASON_CHARS else f"{text[:_MAX_REASON_CHARS]}…"


class _NotingToolbox:
    """The tools of sessions; sets an event when an agent has listed them."""

    def __init__(self, sup: Supervisor, listed: trio.Event) -> None:
        from supervisor.mcp_server.session_tools import SessionTools  # noqa: PLC0415 - slow to import

        self._inside: Toolbox = SessionTools(sup)
        self._listed = listed

    def tools_for(self, caller: Caller) -> tuple[ToolDescription, ...]:
        self._listed.set()
        return self._inside.tools_for(caller)

    def instructions_for(self, caller: Caller) -> str:
        return self._inside.instructions_for(caller)

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> ToolAnswer:
        return await self._inside.call(name, arguments, caller)


@asynccontextmanager
async def _on_a_port(tools: ToolsService, *, is_wanted: bool) -> AsyncIterator[None]:
    """Serve the tools on a free port of the loopback, if an agent takes them over HTTP."""
    if not is_wanted:
        yield
        return
    from supervisor.http_server.connections import open_connections  # noqa: PLC0415 - slow to import
    from supervisor.http_server.peer import PEER_UID  # noqa: PLC0415 - as above
    from supervisor.mcp_server.endpoint import make_endpoint  # noqa: PLC0415 - as above
    from supervisor.mcp_server.server import McpServer  # noqa: PLC0415 - as above

    app = make_endpoint(McpServer(tools.toolbox, "doctor"), tools.hand_over.authenticate)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        async with open_connections(
            max_connections=_MAX_CONNECTIONS, peer_state_key=PEER_UID, limited="doctor"
        ) as connections:
            await connections.listen(listener, app)
            tools.hand_over.http_url = f"http://127.0.0.1:{port}/mcp"
            yield
