"""The tools of one supervisor: the toolbox, its server, the socket of agents, the hand-over."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
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

    `make_toolbox` is called when the first agent calls, or the API is served. `epoch_of` is as for
    `SessionTokens`, `socket_path` as for `ToolsSocket`.
    """

    def __init__(
        self,
        make_toolbox: Callable[[], Toolbox],
        *,
        epoch_of: Callable[[SessionId], int | None],
        start_soon: StartSoon,
        socket_path: Path | None,
    ) -> None:
        self._make_toolbox = make_toolbox
        self.socket = ToolsSocket(self._make_app, start_soon, socket_path)
        self.hand_over = ToolsHandOver(SessionTokens(epoch_of), self.socket)

    @cached_property
    def toolbox(self) -> Toolbox:
        """The tools, of which there is one set for all callers."""
        return self._make_toolbox()

    def _make_app(self) -> ASGIApp:
        """Return the app of the agents' socket."""
        from importlib.metadata import version  # noqa: PLC0415 - slow to import

        from supervisor.http_server.gate import Gated  # noqa: PLC0415 - as above

        from .endpoint import make_endpoint  # noqa: PLC0415 - as above
        from .gates import AgentsGate  # noqa: PLC0415 - as above
        from .server import McpServer  # noqa: PLC0415 - as above

        server = McpServer(self.toolbox, version("understudy"))
        return Gated(make_endpoint(server, self.hand_over.authenticate), AgentsGate())
