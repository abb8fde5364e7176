"""Serve one client over standard input and output, until it has gone."""

from __future__ import annotations

from typing import Final, Protocol

import trio

from supervisor.client import RemoteSupervisor
from supervisor.json_rpc.rpc_connection import RpcConnection
from supervisor.json_rpc.rpc_outbox import ConnectionLost

from .acp_options import AcpOptions
from .acp_server import AcpServer
from .client_link import ClientLink

# Prompts stay open while their turns run, and each queued prompt is one of them.
_MAX_OPEN_REQUESTS: Final = 256
# For the answers to what the client has asked just before it closed its end.
_LAST_ANSWERS_SECONDS: Final = 0.5
# For a client that has closed its end and does not read what is written.
_HANGUP_SECONDS: Final = 1.0


class ClientStreams(Protocol):
    """The bytes to and from the client; `StandardStreams` outside tests."""

    async def receive(self) -> bytes:
        """Return the next bytes; empty at the end."""

    async def send(self, data: bytes) -> None:
        """Write all bytes; raise `OSError` if the other end is closed."""

    async def wait_hangup(self) -> None:
        """Wait until the other end of the input is closed."""


async def serve_client(sup: RemoteSupervisor, streams: ClientStreams, options: AcpOptions) -> None:
    """Serve until the input ends, or the output is closed; nothing is stopped."""
    try:
        async with trio.open_nursery() as nursery:
            leaver = _Leaver(streams, nursery.cancel_scope)
            connection = RpcConnection(
                leaver.send, leaver.receive, name="client", max_open_requests=_MAX_OPEN_REQUESTS
            )
            server = AcpServer(sup, ClientLink(connection), options, nursery)
            leaver.connection, leaver.server = connection, server
            nursery.start_soon(leaver.watch)
            await connection.serve(server.handlers())
            nursery.cancel_scope.cancel(reason="the client has gone")
    except* ConnectionLost:
        pass  # a task had something to say to a client that has gone


class _Leaver:
    """The streams, with what is done when the client goes."""

    connection: RpcConnection
    server: AcpServer

    def __init__(self, streams: ClientStreams, scope: trio.CancelScope) -> None:
        self._streams = streams
        self._scope = scope

    async def receive(self) -> bytes:
        """Return the next bytes; at the end, first write the last answers."""
        data = await self._streams.receive()
        if not data:
            await self._leave()
        return data

    async def send(self, data: bytes) -> None:
        """Write all bytes; leave if the other end is closed."""
        try:
            await self._streams.send(data)
        except OSError:
            self.server.is_leaving = True
            self._scope.cancel(reason="the output is closed")
            raise

    async def watch(self) -> None:
        """Leave when the client has closed its end and does not read: its input is not read."""
        await self._streams.wait_hangup()
        await trio.sleep(_HANGUP_SECONDS)
        self.server.is_leaving = True
        self._scope.cancel(reason="the client has closed its end")

    async def _leave(self) -> None:
        self.server.is_leaving = True
        with trio.move_on_after(_LAST_ANSWERS_SECONDS):
            await self.server.wait_answered()
            await self.connection.wait_written()
