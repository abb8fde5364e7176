"""One answer that does not end: read chunk by chunk, and given up at any moment.

It is read with h11 and not through httpx, which reads by generators inside generators: whoever
leaves those in the middle cannot close them all, and trio says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

import h11
import trio

from .address import Address

_READ_BYTES: Final = 65536
# An error's answer is no larger.
_MOST_ERROR_BYTES: Final = 1024 * 1024
# How long connecting and the first answer may take.
OPEN_SECONDS: Final = 30.0
# A stream says something at least every 15 seconds: one that does not is dead.
SILENT_SECONDS: Final = 60.0


class Unreachable(Exception):
    """Nobody took the connection."""


class Broken(Exception):
    """The connection broke, or what comes is no HTTP."""


class Stream:
    """An answer that was begun; `status` is its own."""

    def __init__(self, connection: trio.SocketStream, host: str) -> None:
        self._connection = connection
        self._host = host
        self._http = h11.Connection(h11.CLIENT)
        self.status = 0

    async def ask(self, target: str, headers: Mapping[str, str]) -> None:
        """Send the request, and read how the answer begins; raises `Broken`."""
        request = h11.Request(
            method="GET", target=target, headers=[("host", self._host), *headers.items()]
        )
        whole = self._http.send(request) + self._http.send(h11.EndOfMessage())
        try:
            await self._connection.send_all(whole)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise Broken from error
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                self.status = event.status_code
                return
            if not isinstance(event, h11.InformationalResponse):
                raise Broken

    async def receive(self) -> bytes | None:
        """What has come; None at the end. Cancelled, it has lost nothing. Raises `Broken`."""
        try:
            with trio.fail_after(SILENT_SECONDS):
                event = await self._event()
        except trio.TooSlowError:
            raise Broken from None
        return bytes(event.data) if isinstance(event, h11.Data) else None

    async def rest(self) -> bytes:
        """All of an answer that has an end."""
        content = b""
        while len(content) <= _MOST_ERROR_BYTES:
            chunk = await self.receive()
            if chunk is None:
                return content
            content += chunk
        raise Broken

    def close(self) -> None:
        """Hang up."""
        self._connection.socket.close()

    async def _event(self) -> object:
        try:
            while True:
                event = self._http.next_event()
                if event is not h11.NEED_DATA:
                    return event
                self._http.receive_data(await self._connection.receive_some(_READ_BYTES))
        except (
            h11.RemoteProtocolError,
            trio.BrokenResourceError,
            trio.ClosedResourceError,
        ) as error:
            raise Broken from error


async def open_stream(
    address: Address, path: str, query: Mapping[str, str], headers: Mapping[str, str]
) -> Stream:
    """Ask for it, and have it once its answer has begun; raises `Unreachable` or `Broken`."""
    stream: Stream | None = None
    try:
        with trio.fail_after(OPEN_SECONDS):
            stream = Stream(await _dial(address), address.host)
            target = f"/{path}?{urlencode(query)}"
            await stream.ask(target, {**address.headers, **headers})
            made, stream = stream, None
            return made
    except trio.TooSlowError:
        raise Broken from None
    finally:
        if stream is not None:
            stream.close()


async def _dial(address: Address) -> trio.SocketStream:
    try:
        return await address.dial()
    except OSError as error:
        raise Unreachable from error
