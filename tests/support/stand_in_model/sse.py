"""Events of a text/event-stream, and the response that sends them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send


def event(data: dict[str, Any], *, name: str | None = None) -> bytes:
    """Return one event with JSON data, named if the dialect names its events."""
    first = b"" if name is None else f"event: {name}\n".encode()
    return first + b"data: " + orjson.dumps(data) + b"\n\n"


class EventStream(Response):
    """A response that sends events, each in a piece of its own.

    starlette's StreamingResponse reads the events from an async generator, which is left unclosed
    when the client goes away in the middle.
    """

    def __init__(self, events: Iterator[bytes]) -> None:
        super().__init__(media_type="text/event-stream")
        # The length is not known: without the header the server sends chunks.
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all events; the server drops those for a client that has gone."""
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        for one in self._events:
            await send({"type": "http.response.body", "body": one, "more_body": True})
        await send({"type": "http.response.body"})
