"""Requests over one connection each, on trio or asyncio: for commands that send a few."""

from __future__ import annotations

from contextlib import AbstractContextManager

import attrs

from .address import Address
from .connection import connect_to
from .event_loop import TimeLimit
from .http_client import HttpRequest, HttpResponse
from .running_loop import running_loop
from .stream import HttpStream


class OneShotClient:
    """The `HttpClient` of commands; sends each request over its own connection."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def time_limit(self, seconds: float) -> AbstractContextManager[TimeLimit]:
        """Return a scope that is cancelled after `seconds`."""
        return running_loop().move_on_after(seconds)

    async def request(self, request: HttpRequest) -> HttpResponse:
        """Send the request over a new connection and close it.

        Raise as `HttpClient.request` does.
        """
        stream = HttpStream(await connect_to(self._address), self._address.host)
        try:
            await stream.request(attrs.evolve(request, headers=self._address.once(request.headers)))
            return HttpResponse(stream.status, await stream.read_all())
        finally:
            stream.close()
