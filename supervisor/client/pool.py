"""Questions over connections that stay open, by httpx: for who asks much, and many at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import httpcore
import httpx

from .address import Address
from .asking import Answer, Question
from .dialling import patiently
from .stream import Broken, Unreachable


class Pool:
    """An `Asker`; made by `open_pool()`."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def ask(self, question: Question) -> Answer:
        """See `Asker`."""
        try:
            response = await self._http.request(
                question.method,
                question.target,
                headers=question.headers,
                content=question.content,
            )
        except httpx.ConnectError as error:
            raise Unreachable from error
        except httpx.TransportError as error:
            raise Broken from error
        return Answer(response.status_code, response.content)


@asynccontextmanager
async def open_pool(address: Address) -> AsyncIterator[Pool]:
    """Connections to the daemon, for as long as the block runs; there are none at first."""
    # Proxies and passwords that the environment names are for other people's servers.
    async with httpx.AsyncClient(
        transport=_Transport(address.socket),
        base_url=address.base_url,
        headers=address.headers,
        timeout=None,  # noqa: S113 - the line has its own, for the whole of a question
        trust_env=False,
    ) as http:
        yield Pool(http)


class _Transport(httpx.AsyncHTTPTransport):
    """One that waits in line."""

    def __init__(self, socket: str | None) -> None:
        # There is no TLS here, ever; to read all certificates for it would take 66 ms.
        super().__init__(verify=False, trust_env=False)
        # httpx has no other way to be given a way to connect.
        self._pool = httpcore.AsyncConnectionPool(
            uds=socket, max_connections=None, keepalive_expiry=5.0, network_backend=_Backend()
        )


class _Backend(httpcore.TrioBackend):
    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """See `httpcore.AsyncNetworkBackend`."""
        connect = super().connect_unix_socket
        return await patiently(
            lambda: connect(path, timeout, socket_options),
            lambda stream: stream.get_extra_info("socket"),
        )
