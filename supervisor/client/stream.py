"""One HTTP response, possibly endless, and the server-sent events in it.

It uses h11, not httpx: httpx reads through nested async generators, which cannot all be closed when
a caller stops reading early, and trio and asyncio warn about that.

A response is read chunk by chunk, and can be closed at any moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import urlencode

import attrs
import h11

from .address import Address
from .connection import Connection, connect_to
from .http_client import ConnectionBroken, HttpRequest, encode_request
from .running_loop import running_loop

_READ_BYTES: Final = 65536
# Limit for the body of an error response.
_MAX_ERROR_BYTES: Final = 1024 * 1024
# Limit for connecting and for the start of the response.
OPEN_SECONDS: Final = 30.0
# The server sends something at least every 15 seconds; a longer silence is a dead connection.
MAX_SILENCE_SECONDS: Final = 60.0


class HttpStream:
    """A request and its response on one connection; `status` is 0 until the response begins."""

    def __init__(self, connection: Connection, host: str) -> None:
        self._connection = connection
        self._host = host
        self._http = h11.Connection(h11.CLIENT)
        self.status = 0

    async def request(self, request: HttpRequest) -> None:
        """Send the request and read the head of the response.

        Raise `ConnectionBroken` if the connection ends before that, or the head is malformed.
        """
        # A server that refuses a large body may stop reading it; its response arrives anyway.
        with suppress(ConnectionBroken):
            await self._connection.send_all(encode_request(self._http, self._host, request))
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                self.status = event.status_code
                return
            if not isinstance(event, h11.InformationalResponse):
                raise ConnectionBroken

    async def receive(self) -> bytes | None:
        """Return the next chunk, or None at the end.

        Raise `ConnectionBroken` if the data breaks off. Cancellation loses no data.
        """
        with running_loop().move_on_after(MAX_SILENCE_SECONDS):
            event = await self._event()
            return bytes(event.data) if isinstance(event, h11.Data) else None
        raise ConnectionBroken

    async def read_all(self) -> bytes:
        """Return the rest of a finite body, without a timeout; raise as `receive` does."""
        pieces = []
        while isinstance(event := await self._event(), h11.Data):
            pieces.append(bytes(event.data))
        return b"".join(pieces)

    async def read_error(self) -> bytes:
        """Return the body of an error response to a stream request."""
        content = b""
        while len(content) <= _MAX_ERROR_BYTES:
            chunk = await self.receive()
            if chunk is None:
                return content
            content += chunk
        raise ConnectionBroken

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    async def _event(self) -> object:
        try:
            while True:
                event = self._http.next_event()
                if event is not h11.NEED_DATA:
                    return event
                self._http.receive_data(await self._connection.receive(_READ_BYTES))
        except h11.RemoteProtocolError as error:
            raise ConnectionBroken from error


async def open_stream(
    address: Address, path: str, query: Mapping[str, str], headers: Mapping[str, str]
) -> HttpStream:
    """Return the stream when its response has begun; raise as `connect_to` and `request` do."""
    stream: HttpStream | None = None
    try:
        with running_loop().move_on_after(OPEN_SECONDS):
            stream = HttpStream(await connect_to(address), address.host)
            target = f"/{path}?{urlencode(query)}" if query else f"/{path}"
            await stream.request(HttpRequest("GET", target, {**address.headers, **headers}))
            made, stream = stream, None
            return made
        raise ConnectionBroken
    finally:
        if stream is not None:
            stream.close()


# Larger than any event: the largest record, encoded as JSON.
_MAX_EVENT_BYTES: Final = 256 * 1024 * 1024


class EventTooLong(Exception):
    """An event without an end, longer than the maximum: the data is not an event stream."""


@attrs.frozen
class ServerSentEvent:
    """One event; if it has an `id`, a new stream can continue after that id."""

    name: str
    data: bytes
    id: str | None


class SseParser:
    """Turns chunks of bytes into complete events."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[bytes] = []
        self._id: str | None = None

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that this chunk completes.

        Raise `EventTooLong` if one exceeds the maximum.
        """
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > _MAX_EVENT_BYTES:
            raise EventTooLong
        for line in lines:
            if line.endswith(b"\r"):
                line = line[:-1]  # noqa: PLW2901 - the same line without its carriage return
            event = self._parse_line(line)
            if event is not None:
                yield event

    def _parse_line(self, line: bytes) -> ServerSentEvent | None:
        if not line:
            return self._finish_event()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        elif name == b"id":
            self._id = value.decode("utf-8", "replace")
        return None

    def _finish_event(self) -> ServerSentEvent | None:
        data, self._data = self._data, []
        name, self._name = self._name, ""
        number, self._id = self._id, None
        return ServerSentEvent(name, b"\n".join(data), number) if data else None
