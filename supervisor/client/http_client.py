"""One HTTP request and its response: the interface that `Transport` uses.

There are three implementations: `PooledClient`, for programs, keeps connections open with httpx;
`OneShotClient`, for commands, opens one for each request with h11; `BlockingClient`, for commands
that only read, does the same without trio, whose import takes longer than the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol, TypeAlias

import attrs
import h11

from .event_loop import TimeLimit

Method: TypeAlias = Literal["GET", "POST", "PATCH", "DELETE"]


class Unreachable(Exception):
    """The connection was refused."""


class ConnectionBroken(Exception):
    """The connection broke, or the received data is not HTTP."""


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

    def time_limit(self, seconds: float) -> AbstractContextManager[TimeLimit | None]:
        """Return a block whose requests end after `seconds`; the program goes on behind it.

        It has no handle if nothing else can run during a request.
        """

    async def request(self, request: HttpRequest) -> HttpResponse:
        """Send a request and return the response.

        Raise `Unreachable` or `ListenQueueFull` if the request was not sent, and `ConnectionBroken`
        if the connection broke afterwards.
        """


def encode_request(http: h11.Connection, host: str, request: HttpRequest) -> bytes:
    """Return the bytes of a request, which the connection has noted as sent."""
    headers = [("host", host), *request.headers.items()]
    if request.content is not None:
        headers.append(("content-length", str(len(request.content))))
    whole = [
        http.send(h11.Request(method=request.method, target=request.target, headers=headers)),
        http.send(h11.Data(data=request.content or b"")),
        http.send(h11.EndOfMessage()),
    ]
    return b"".join(piece or b"" for piece in whole)
