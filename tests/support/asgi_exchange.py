"""An ASGI app without a server: the test controls both ends of a request."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias
from urllib.parse import unquote

import attrs
import orjson
import trio
from starlette.types import ASGIApp, Message

from actors.testing import settle

LOCALHOST = (b"host", b"localhost")


def scope_of(
    method: str,
    target: str,
    *,
    headers: Iterable[tuple[bytes, bytes]] = (LOCALHOST,),
    state: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the ASGI scope of a request; `target` is the path as in the request line."""
    path, _, query = target.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(key.lower(), value) for key, value in headers],
        "client": None,
        "server": None,
        "state": {} if state is None else state,
    }


@attrs.frozen
class Event:
    """A server-sent event, or a comment."""

    name: str | None
    id: str | None
    data: Any
    comment: str | None = None


class Exchange:
    """One request and what comes back, piece by piece; the reader may stall, and may hang up."""

    def __init__(self, app: ASGIApp, scope: dict[str, Any], body: bytes | None = b"") -> None:
        self._app = app
        self._scope = scope
        self._to_app, self._from_us = trio.open_memory_channel[Message](math.inf)
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.chunks: list[bytes] = []
        self.is_complete = False
        self.is_over = trio.Event()  # the app has returned
        self._may_write = trio.Event()
        self._may_write.set()
        if body is not None:
            self.feed(body, more=False)

    async def run(self) -> None:
        """Have the app answer."""
        try:
            await self._app(self._scope, self._from_us.receive, self._send)
        finally:
            self.is_over.set()

    def feed(self, body: bytes, *, more: bool) -> None:
        """Send a part of the body."""
        self._to_app.send_nowait({"type": "http.request", "body": body, "more_body": more})

    def hang_up(self) -> None:
        """Go away."""
        self._to_app.send_nowait({"type": "http.disconnect"})

    def stall(self) -> None:
        """Take nothing more."""
        self._may_write = trio.Event()

    async def _send(self, message: Any) -> None:  # noqa: ANN401 - an ASGI message
        await self._may_write.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            self.chunks.append(message.get("body", b""))
            self.is_complete = not message.get("more_body", False)

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def json(self) -> Any:  # noqa: ANN401 - any JSON
        return orjson.loads(self.body)

    @property
    def events(self) -> list[Event]:
        """The events that came so far, without comments."""
        return [event for event in self.all_events if event.comment is None and event.data]

    @property
    def all_events(self) -> list[Event]:
        return [_event(block) for block in self.body.decode().split("\n\n") if block]

    @property
    def kinds(self) -> list[str]:
        return [str(event.name) for event in self.events]

    @property
    def ids(self) -> list[int]:
        return [int(event.id) for event in self.events if event.id is not None]


def _event(block: str) -> Event:
    found: dict[str, str] = {}
    for line in block.split("\n"):
        name, _, value = line.partition(": " if not line.startswith(":") else ":")
        found[name or "comment"] = value
    data = orjson.loads(found["data"]) if "data" in found else None
    return Event(found.get("event"), found.get("id"), data, found.get("comment"))


# Opens a stream for the rest of the test; see the fixture `watch`.
Watch: TypeAlias = Callable[..., Awaitable[Exchange]]


async def ask(
    app: ASGIApp,
    method: str,
    target: str,
    *,
    headers: Iterable[tuple[bytes, bytes]] = (LOCALHOST,),
    body: bytes = b"",
    seconds: float = 10.0,
) -> Exchange:
    """Send a request; return the whole answer, which must come within this many seconds."""
    exchange = Exchange(app, scope_of(method, target, headers=headers), body)
    with trio.fail_after(seconds):
        await exchange.run()
    return exchange


async def begin(nursery: trio.Nursery, app: ASGIApp, target: str, **options: Any) -> Exchange:  # noqa: ANN401
    """Ask for something that goes on, and wait until nothing more comes just now."""
    exchange = Exchange(app, scope_of("GET", target, **options))
    nursery.start_soon(exchange.run)
    await settle()
    return exchange
