"""The tools of one supervisor: the toolbox, its server, the socket of agents, the hand-over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from supervisor.core.ids import SessionId

from .hand_over import ToolsHandOver
from .tokens import SessionTokens
from .tool import Toolbox
from .tools_socket import StartSoon, ToolsSocket

if TYPE_CHECKING:
    from starlette.types import ASGIApp


class ToolsService:
    """Everything between a toolbox and the agents that call it.

    `epoch_of` is as for `SessionTokens`, `socket_path` as for `ToolsSocket`.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        *,
        version: str,
        epoch_of: Callable[[SessionId], int | None],
        start_soon: StartSoon,
        socket_path: Path | None,
    ) -> None:
        self.toolbox = toolbox
        self._version = version
        self.socket = ToolsSocket(self._make_app, start_soon, socket_path)
        self.hand_over = ToolsHandOver(SessionTokens(epoch_of), self.socket)

    def _make_app(self) -> ASGIApp:
        """Return the app of the agents' socket."""
        from supervisor.http_server.gate import Gated  # noqa: PLC0415 - slow to import

        from .endpoint import make_endpoint  # noqa: PLC0415 - as above
        from .gates import AgentsGate  # noqa: PLC0415 - as above
        from .server import McpServer  # noqa: PLC0415 - as above

        server = McpServer(self.toolbox, self._version)
        return Gated(make_endpoint(server, self.hand_over.authenticate), AgentsGate())
