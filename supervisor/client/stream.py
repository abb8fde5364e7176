"""One answer, also one that does not end: read chunk by chunk, and given up at any moment.

It is read with h11 and not through httpx, which reads by generators inside generators: whoever
leaves those in the middle cannot close them all, and trio says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
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

    async def ask(
        self, method: str, target: str, headers: Mapping[str, str], content: bytes | None = None
    ) -> None:
        """Send the request, and read how the answer begins; raises `Broken`."""
        sent = [("host", self._host), *headers.items()]
        if content is not None:
            sent.append(("content-length", str(len(content))))
        whole = [
            self._http.send(h11.Request(method=method, target=target, headers=sent)),
            self._http.send(h11.Data(data=content or b"")),
            self._http.send(h11.EndOfMessage()),
        ]
        # Who refuses a large body may hang up before its end; the answer is there all the same.
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._connection.send_all(b"".join(piece or b"" for piece in whole))
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

    async def whole(self) -> bytes:
        """All of an answer that has an end, however long that takes; raises `Broken`."""
        pieces = []
        while isinstance(event := await self._event(), h11.Data):
            pieces.append(bytes(event.data))
        return b"".join(pieces)

    async def rest(self) -> bytes:
        """All of an answer that should have been a stream, and is an error."""
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
            stream = Stream(await dial(address), address.host)
            target = f"/{path}?{urlencode(query)}"
            await stream.ask("GET", target, {**address.headers, **headers})
            made, stream = stream, None
            return made
    except trio.TooSlowError:
        raise Broken from None
    finally:
        if stream is not None:
            stream.close()


async def dial(address: Address) -> trio.SocketStream:
    """A connection; raises `Unreachable`, or `Crowded`."""
    try:
        return await address.dial()
    except OSError as error:
        raise Unreachable from error
