"""The unix socket of agents: `/mcp` and nothing else, for processes of the session's own agent.

Rule 1: a request needs the token of a session, and its peer must be in the containment of that
        session's agent. Without peer credentials the token alone counts.
Rule 2: the socket is opened when the first agent needs it, and closed with the supervisor. The HTTP
        server is imported when the first agent connects, because that takes long.
Rule 3: a failure here costs the agents their tools, and nothing else.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import trio
from trio.lowlevel import wait_readable

from supervisor.core.errors import ConfigError, StoreLocked, SupervisorError
from supervisor.drivers.agent_tools import ToolsUnavailable
from supervisor.http_server.unix_listener import keep_socket, unix_listener

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp

logger = logging.getLogger("supervisor.mcp")

SOCKET_NAME: Final = "tools.sock"
# A longer path is not usable on every system; the socket is then in a temporary folder.
MAX_PATH_BYTES: Final = 103
# Each call under way has a connection, and a bridge keeps one for some seconds after a call.
MAX_CONNECTIONS: Final = 1000
_LIMITED: Final = "the number of calls of agents at once"


# Runs a function in a task of its own.
StartSoon: TypeAlias = Callable[[Callable[[], Awaitable[object]]], object]
# Returns the app of the socket; called when the first agent connects.
MakeApp: TypeAlias = "Callable[[], ASGIApp]"


class ToolsSocket:
    """The socket of one supervisor; `path` is None for one in a private temporary folder."""

    def __init__(self, make_app: MakeApp, start_soon: StartSoon, path: Path | None) -> None:
        self._make_app = make_app
        self._start_soon = start_soon
        self._wanted_path = path
        # Invariant: None unless a task opens the socket or serves it.
        self._opened: trio.Event | None = None
        # Where the socket is; None until it is open, and after a failure.
        self._path: Path | None = None
        self._problem = ""

    async def open(self) -> Path:
        """Return the path of the socket, which is opened first; raise `ToolsUnavailable`."""
        if self._opened is None:
            self._opened = trio.Event()
            self._start_soon(self._serve)
        await self._opened.wait()
        if self._path is None:
            raise ToolsUnavailable(self._problem)
        return self._path

    async def _serve(self) -> None:
        assert self._opened is not None
        opened = self._opened
        try:
            with ExitStack() as held:
                path = self._choose_path(held)
                listener = held.enter_context(unix_listener(path))
                self._path = path
                opened.set()
                await self._serve_on(listener, path)
        except (SupervisorError, OSError) as error:
            self._problem = _describe(error)
        except Exception as error:
            logger.exception("the socket of agents has failed")
            self._problem = type(error).__name__
        finally:
            # The next agent tries again.
            self._path = self._opened = None
            opened.set()

    def _choose_path(self, held: ExitStack) -> Path:
        wanted = self._wanted_path
        if wanted is not None and len(os.fsencode(wanted)) <= MAX_PATH_BYTES:
            return wanted
        folder = held.enter_context(tempfile.TemporaryDirectory(prefix="understudy-"))
        return Path(folder) / SOCKET_NAME

    async def _serve_on(self, listener: socket.socket, path: Path) -> None:
        """Serve until cancelled; other processes can connect at once, and wait."""
        listener.settimeout(0.0)
        await wait_readable(listener)
        # In a thread, so that the sessions go on meanwhile.
        await trio.to_thread.run_sync(_import_http_server)
        from supervisor.http_server.connections import open_connections  # noqa: PLC0415 - imported above
        from supervisor.http_server.peer import PEER_UID  # noqa: PLC0415 - as above

        app = self._make_app()
        async with open_connections(
            max_connections=MAX_CONNECTIONS, peer_state_key=PEER_UID, limited=_LIMITED
        ) as connections:
            await connections.listen(listener, app)
            await keep_socket(path, partial(connections.listen, app=app))


def _import_http_server() -> None:
    import supervisor.http_server.connections  # noqa: PLC0415 - see rule 2
    import supervisor.mcp_server.endpoint  # noqa: F401, PLC0415 - as above


def _describe(error: Exception) -> str:
    if isinstance(error, ConfigError | StoreLocked):
        return str(error.args[0])
    return str(error)
