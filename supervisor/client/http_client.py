"""One HTTP request and its response: the interface that `Transport` uses.

There are two implementations: `PooledClient`, for programs, keeps connections open with httpx;
`OneShotClient`, for commands, opens one for each request with h11 and imports nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol, TypeAlias

import attrs

from .address import Address
from .stream import HttpStream, connect_to

Method: TypeAlias = Literal["GET", "POST", "PATCH", "DELETE"]


@attrs.frozen
class HttpRequest:
    """A request; `target` is the path with its query."""

    method: Method
    target: str
    headers: Mapping[str, str]
    content: bytes | None = None


class HttpResponse(NamedTuple):
    """A response."""

    status: int
    content: bytes


class HttpClient(Protocol):
    """Sends requests. The caller sets the timeout."""

    async def request(self, request: HttpRequest) -> HttpResponse:
        """Send a request and return the response.

        Raise `Unreachable` or `ListenQueueFull` if the request was not sent, and `ConnectionBroken`
        if the connection broke afterwards.
        """


class OneShotClient:
    """Sends each request over its own connection."""

    def __init__(self, address: Address) -> None:
        self._address = address

    async def request(self, request: HttpRequest) -> HttpResponse:
        """Send the request over a new connection and close it.

        Raise as `HttpClient.request` does.
        """
        stream = HttpStream(await connect_to(self._address), self._address.host)
        try:
            headers = {**self._address.headers, **request.headers, "connection": "close"}
            await stream.request(request.method, request.target, headers, request.content)
            return HttpResponse(stream.status, await stream.read_all())
        finally:
            stream.close()
