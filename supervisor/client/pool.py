"""Requests over connections that stay open, with httpx: for many requests, also concurrent."""

from __future__ import annotations

import select
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

import httpcore
import httpx

from .address import Address
from .connection import Connection, connect_to
from .event_loop import EventLoop, TimeLimit
from .http_client import ConnectionBroken, HttpRequest, HttpResponse
from .running_loop import running_loop


class PooledClient:
    """The `HttpClient` of long-running programs; created by `open_pool()`."""

    def __init__(self, http: httpx.AsyncClient, loop: EventLoop) -> None:
        self._http = http
        self._loop = loop

    def time_limit(self, seconds: float) -> AbstractContextManager[TimeLimit]:
        """Return a scope that is cancelled after `seconds`."""
        return self._loop.move_on_after(seconds)

    async def request(self, request: HttpRequest) -> HttpResponse:
        """Send the request over a connection of the pool; raise as `HttpClient.request` does."""
        try:
            response = await self._http.request(
                request.method,
                request.target,
                headers=request.headers,
                content=request.content,
            )
        except httpx.TransportError as error:
            raise ConnectionBroken from error
        return HttpResponse(response.status_code, response.content)


@asynccontextmanager
async def open_pool(address: Address) -> AsyncIterator[PooledClient]:
    """Yield a client with a pool of connections to the daemon, open during the block."""
    # trust_env: proxies and passwords in the environment are meant for other servers.
    async with httpx.AsyncClient(
        transport=_PoolTransport(address),
        base_url=address.base_url,
        headers=address.headers,
        timeout=None,  # noqa: S113 - Transport sets one for the whole request
        trust_env=False,
    ) as http:
        yield PooledClient(http, running_loop())


class _PoolTransport(httpx.AsyncHTTPTransport):
    """httpx's transport with its private `_pool` replaced.

    httpx has no parameter for the network backend, and ours retries while the listen queue is full.
    tests/client/test_listen_queue.py fails if httpx renames the attribute.
    """

    def __init__(self, address: Address) -> None:
        # No TLS is used; loading the certificates would take 66 ms.
        super().__init__(verify=False, trust_env=False)
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=None,
            keepalive_expiry=5.0,
            network_backend=_DaemonBackend(address),
        )


class _DaemonBackend(httpcore.AsyncNetworkBackend):
    """The network of httpcore's pool: connections to one daemon, on trio or asyncio.

    Time limits and socket options are None in each call: the pool is made without them.
    """

    def __init__(self, address: Address) -> None:
        self._address = address

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the daemon, at its socket or its port."""
        return _ConnectionStream(await connect_to(self._address))


class _ConnectionStream(httpcore.AsyncNetworkStream):
    """A connection as httpcore reads and writes it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what has arrived, or nothing at the end."""
        try:
            return await self._connection.receive(max_bytes)
        except ConnectionBroken as error:
            raise httpcore.ReadError from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send the bytes."""
        try:
            await self._connection.send_all(buffer)
        except ConnectionBroken as error:
            raise httpcore.WriteError from error

    async def aclose(self) -> None:
        """Close the connection."""
        self._connection.close()

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - httpcore's signature
        """Return whether an idle connection can be read: if so, its server has closed it."""
        if info == "is_readable":
            return _is_readable(self._connection)
        return None


def _is_readable(connection: Connection) -> bool:
    if connection.fileno() == -1:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
