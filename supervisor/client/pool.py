"""Requests over connections that stay open, with httpx: for many requests, also concurrent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import httpcore
import httpx
import trio

from .address import Address
from .connection import connect_with_retry
from .http_client import ConnectionBroken, HttpRequest, HttpResponse, Unreachable


class PooledClient:
    """The `HttpClient` of long-running programs; created by `open_pool()`."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    def time_limit(self, seconds: float) -> trio.CancelScope:
        """Return a scope that is cancelled after `seconds`."""
        return trio.move_on_after(seconds)

    async def request(self, request: HttpRequest) -> HttpResponse:
        """Send the request over a connection of the pool; raise as `HttpClient.request` does."""
        try:
            response = await self._http.request(
                request.method,
                request.target,
                headers=request.headers,
                content=request.content,
            )
        except httpx.ConnectError as error:
            raise Unreachable from error
        except httpx.TransportError as error:
            raise ConnectionBroken from error
        return HttpResponse(response.status_code, response.content)


@asynccontextmanager
async def open_pool(address: Address) -> AsyncIterator[PooledClient]:
    """Yield a client with a pool of connections to the daemon, open during the block."""
    # trust_env: proxies and passwords in the environment are meant for other servers.
    async with httpx.AsyncClient(
        transport=_PoolTransport(address.socket),
        base_url=address.base_url,
        headers=address.headers,
        timeout=None,  # noqa: S113 - Transport sets one for the whole request
        trust_env=False,
    ) as http:
        yield PooledClient(http)


class _PoolTransport(httpx.AsyncHTTPTransport):
    """httpx's transport with its private `_pool` replaced.

    httpx has no parameter for the network backend, and ours retries while the listen queue is full.
    tests/client/test_listen_queue.py fails if httpx renames the attribute.
    """

    def __init__(self, socket: str | None) -> None:
        # No TLS is used; loading the certificates would take 66 ms.
        super().__init__(verify=False, trust_env=False)
        self._pool = httpcore.AsyncConnectionPool(
            uds=socket,
            max_connections=None,
            keepalive_expiry=5.0,
            network_backend=_RetryingBackend(),
        )


class _RetryingBackend(httpcore.TrioBackend):
    """httpcore's trio backend, which retries while the listen queue of a unix socket is full."""

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect as httpcore does, with retries while the listen queue is full."""
        connect = super().connect_unix_socket
        return await connect_with_retry(
            lambda: connect(path, timeout, socket_options),
            lambda stream: stream.get_extra_info("socket"),
        )
