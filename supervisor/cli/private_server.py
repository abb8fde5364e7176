"""A session in a supervisor of this process, served on a private socket.

The supervisor runs on trio in a thread of its own, and a screen on asyncio connects to it as to a
daemon. Rule 1: the socket is in a folder that only its owner can enter, and goes with the block.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import trio

from supervisor.api.app import make_app
from supervisor.api.drain import DrainState
from supervisor.http_server.connections import open_connections
from supervisor.http_server.gate import UnixGate
from supervisor.http_server.peer import PEER_UID
from supervisor.http_server.unix_listener import unix_listener

if TYPE_CHECKING:
    from supervisor.handles.session import Session
    from supervisor.handles.supervisor import Supervisor

# Opens a supervisor with one session.
Opened: TypeAlias = "AbstractAsyncContextManager[tuple[Supervisor, Session]]"

_MAX_CONNECTIONS: Final = 20


@attrs.frozen
class PrivateAddress:
    """The socket of the supervisor, and the id of its session."""

    socket: Path
    session_id: str


@asynccontextmanager
async def serve_in_thread(opened: Opened) -> AsyncIterator[PrivateAddress]:
    """Serve the supervisor during the block, on asyncio; raise what prevents its start.

    At the end the session is interrupted, and the supervisor closed.
    """
    server = _Server(opened)
    thread = threading.Thread(target=server.run, name="supervisor")
    thread.start()
    try:
        yield await asyncio.wrap_future(server.started)
    finally:
        server.stop()
        # The exit of a supervisor is bounded; a cancellation must not leave its agents.
        await asyncio.shield(asyncio.to_thread(thread.join))


class _Server:
    """The thread's side."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self.started: Future[PrivateAddress] = Future()
        self._stop = trio.Event()
        self._token: trio.lowlevel.TrioToken | None = None

    def run(self) -> None:
        """Run the supervisor until `stop`."""
        try:
            trio.run(self._serve)
        except BaseException as error:  # noqa: BLE001 - it is raised in the other thread
            if not self.started.done():
                self.started.set_exception(_single(error))

    def stop(self) -> None:
        """End `run`, from the other thread."""
        if self._token is not None and self.started.done() and not self.started.exception():
            try:
                self._token.run_sync_soon(self._stop.set)
            except trio.RunFinishedError:
                return

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
            async with self._opened as (sup, session):
                await self._serve_on(Path(folder) / "socket", sup, session)

    async def _serve_on(self, path: Path, sup: Supervisor, session: Session) -> None:
        drain_state = DrainState()
        app = make_app(
            sup,
            gate=UnixGate(own_uid=os.geteuid()),
            drain_state=drain_state,
            backup_folder=path.with_name("backups"),
        )
        with unix_listener(path) as listener:
            async with open_connections(
                max_connections=_MAX_CONNECTIONS, peer_state_key=PEER_UID
            ) as connections:
                await connections.listen(listener, app)
                drain_state.open()
                self.started.set_result(PrivateAddress(path, session.id))
                await self._stop.wait()
                drain_state.close()
        await session.interrupt("session", reason="the conversation is over")


def _single(error: BaseException) -> BaseException:
    """Return the only error of a group."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
