"""Small apps, and a server around them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import trio
from starlette.types import ASGIApp, Receive, Scope, Send

from supervisor.daemon.listening.connections import Connections, open_connections
from supervisor.daemon.listening.sockets import unix_listener

OK = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
STREAM = {"type": "http.response.start", "status": 200, "headers": []}


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """Says ok and never looks at a body."""
    await send(OK)
    await send({"type": "http.response.body", "body": b"ok"})


async def flood(scope: Scope, receive: Receive, send: Send) -> None:
    """Sends for ever."""
    await send(STREAM)
    while True:
        await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})


@asynccontextmanager
async def served(
    app: ASGIApp, path: Path, *, most: int = 100
) -> AsyncIterator[tuple[Connections, httpx.AsyncClient]]:
    """The app behind a real socket, and a client of it."""
    transport = httpx.AsyncHTTPTransport(uds=str(path))
    with trio.fail_after(20), unix_listener(path) as listener:
        async with open_connections(most=most, peer_name="peer_uid") as connections:
            await connections.listen(listener, app)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost"
            ) as client:
                yield connections, client


async def wait_until(condition: object) -> None:
    """Wait for a fact that nobody tells of; bounded by whoever calls."""
    assert callable(condition)
    while not condition():  # noqa: ASYNC110 - see above
        await trio.sleep(0.005)
