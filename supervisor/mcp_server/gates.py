"""Gates that admit agents, to `/mcp` only."""

from __future__ import annotations

import os
from typing import ClassVar, Final

import attrs
from starlette.types import Scope

from supervisor.http_server.gate import AgentPolicy, Gate, TcpGate, UnixGate
from supervisor.http_server.peer import has_peer_credentials
from supervisor.http_server.problems import RequestRefused

from .caller import OWNER, Caller
from .endpoint import Authenticate
from .hand_over import ToolsHandOver
from .tokens import bearer_token, looks_like_session_token

MCP_PATH: Final = "/mcp"


def _own_gate() -> UnixGate:
    own_uid = os.geteuid() if has_peer_credentials() else None
    return UnixGate(own_uid=own_uid, agent_policy=AgentPolicy(agents_may_use_api=True))


@attrs.frozen
class AgentsGate:
    """Gate of the agents' socket: processes of our user, no web pages, and one path.

    The endpoint behind it checks the token, and from where the peer comes.
    """

    is_unix_socket: ClassVar[bool] = True
    _gate: UnixGate = attrs.field(factory=_own_gate)

    def check(self, scope: Scope) -> None:
        """Raise RequestRefused if the peer is another user, or wants anything but the tools."""
        self._gate.check(scope)
        if scope["path"] != MCP_PATH:
            raise RequestRefused(
                "no_such_route",
                "this socket has the tools of agents only",
                hint="POST /mcp, or use the socket of the API",
            )


@attrs.frozen
class SessionGate:
    """Gate of a port: that of the API, and for `/mcp` the token of a session counts too."""

    is_unix_socket: ClassVar[bool] = False
    _gate: TcpGate
    _hand_over: ToolsHandOver

    def check(self, scope: Scope) -> None:
        """Raise RequestRefused unless Host and Origin are right, and the token counts here."""
        if scope["path"] == MCP_PATH and _has_session_token(scope):
            self._gate.check_place(scope)
            self._hand_over.authenticate(scope)
        else:
            self._gate.check(scope)

    def caller(self, scope: Scope) -> Caller:
        """Return the caller of a request that has passed; raise RequestRefused."""
        return self._hand_over.authenticate(scope) if _has_session_token(scope) else OWNER


def admit_agents(gate: Gate, hand_over: ToolsHandOver) -> tuple[Gate, Authenticate]:
    """Return the gate of a listener of the API, and who calls the tools there.

    On a port these may be agents that got their tools over HTTP; the unix socket refuses agents.
    """
    if isinstance(gate, TcpGate):
        admitting = SessionGate(gate, hand_over)
        return admitting, admitting.caller
    return gate, lambda _: OWNER


def _has_session_token(scope: Scope) -> bool:
    token = bearer_token(scope)
    return token is not None and looks_like_session_token(token)
