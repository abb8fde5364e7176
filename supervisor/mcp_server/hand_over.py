"""Handing the tools to agents: the MCP server that a driver adds to those of its session.

Rule 1: the token is in the environment of the bridge, or in a header of the HTTP server; never in a
        command line.
Rule 2: over the socket a token counts only for processes in the containment of the agent that it
        was given to, for as long as that agent is known here. The token of a bridge counts on the
        socket only: over TCP nothing says which process sends it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from supervisor.core.ids import SessionId
from supervisor.drivers.agent_tools import (
    TOOLS_SERVER,
    ToolsRequest,
    ToolsTransport,
    ToolsUnavailable,
)
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.process.containment import guardian_of
from supervisor.http_server.peer import PEER_GUARDIANS, has_peer_credentials
from supervisor.http_server.problems import RequestRefused

from . import bridge
from .caller import Caller
from .tokens import SessionTokens, bearer_token, refused_token
from .tools_socket import ToolsSocket

if TYPE_CHECKING:
    from starlette.types import Scope

# The program of the bridge, which imports nothing of ours.
BRIDGE: Final = Path(bridge.__file__).with_name("__main__.py")
# Variables that the interpreter of the bridge itself may need to start.
_INTERPRETER_VARIABLES: Final = ("LD_LIBRARY_PATH",)


@attrs.frozen
class _Agent:
    """An agent that has got the tools: its process and guardian, and how it reaches them."""

    process: ProcessIdentity
    guardian: ProcessIdentity | None
    transport: ToolsTransport


class ToolsHandOver:
    """Implementation of `drivers.agent_tools.AgentTools`, and the check of who connects."""

    def __init__(self, tokens: SessionTokens, socket: ToolsSocket) -> None:
        self._tokens = tokens
        self._socket = socket
        # The address of `/mcp` on TCP; None while nothing listens there.
        self.http_url: str | None = None
        # Invariant: an entry from before the agent has its token until the agent has exited.
        self._agents: dict[SessionId, _Agent] = {}

    async def server_for(self, wanted: ToolsRequest) -> Mapping[str, Any]:
        """Return the MCP server, with a token for this agent; raise `ToolsUnavailable`."""
        if wanted.transport == "http" and self.http_url is None:
            raise ToolsUnavailable("the agent takes tools over HTTP only: set daemon.tcp_port")
        guardian = guardian_of(wanted.process)
        if guardian is None and has_peer_credentials():
            raise ToolsUnavailable("the process of the agent has no guardian")
        path = await self._socket.open() if wanted.transport == "stdio" else None
        self._agents[wanted.session_id] = _Agent(wanted.process, guardian, wanted.transport)
        token = self._tokens.issue(wanted.session_id, wanted.epoch, "self")
        if path is None:
            return _http_server(str(self.http_url), token)
        return _stdio_server(path, token)

    def forget(self, session_id: SessionId, process: ProcessIdentity) -> None:
        """End the access of an agent process; a later one of the session keeps its own."""
        known = self._agents.get(session_id)
        if known is not None and known.process == process:
            del self._agents[session_id]

    def authenticate(self, scope: Scope) -> Caller:
        """Return the caller of a request with a session token; raise `RequestRefused`.

        On a unix socket the peer has to be in the containment of the session's agent; over TCP the
        agent has to have got the tools for HTTP.
        """
        token = bearer_token(scope)
        caller = self._tokens.check("" if token is None else token)
        assert caller.session_id is not None
        known = self._agents.get(caller.session_id)
        if known is None:
            raise refused_token()
        state = scope.get("state", {})
        if PEER_GUARDIANS not in state and has_peer_credentials() and known.transport != "http":
            raise refused_token()  # the kernel names the peer of every socket, so this is TCP
        if PEER_GUARDIANS in state and known.guardian not in (state[PEER_GUARDIANS] or ()):
            raise RequestRefused(
                "forbidden_peer",
                "the token of a session counts for the processes of its agent only",
                hint="call the tools from the agent that they were given to",
            )
        return caller


def _stdio_server(path: Path, token: str) -> Mapping[str, Any]:
    inherited = {name: os.environ[name] for name in _INTERPRETER_VARIABLES if name in os.environ}
    return {
        "name": TOOLS_SERVER,
        "command": sys.executable,
        "args": ["-I", "-S", str(BRIDGE)],
        "env": {
            **inherited,
            bridge.SOCKET_VARIABLE: str(path),
            bridge.TOKEN_VARIABLE: token,
        },
    }


def _http_server(url: str, token: str) -> Mapping[str, Any]:
    return {
        "type": "http",
        "name": TOOLS_SERVER,
        "url": url,
        "headers": {"Authorization": f"Bearer {token}"},
    }
