"""Small ASGI apps, and a server for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import trio
from starlette.types import ASGIApp, Receive, Scope, Send

from supervisor.http_server.connections import BY_SETTING, Connections, open_connections
from supervisor.http_server.unix_listener import unix_listener

OK = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
STREAM = {"type": "http.response.start", "status": 200, "headers": []}


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer ok without reading the body."""
    await send(OK)
    await send({"type": "http.response.body", "body": b"ok"})


async def flood(scope: Scope, receive: Receive, send: Send) -> None:
    """Send without end."""
    await send(STREAM)
    while True:
        await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})


@asynccontextmanager
async def served(
    app: ASGIApp, path: Path, *, most: int = 100, limited: str = BY_SETTING
) -> AsyncIterator[tuple[Connections, httpx.AsyncClient]]:
    """Serve the app on a real socket, and yield a client."""
    transport = httpx.AsyncHTTPTransport(uds=str(path))
    with trio.fail_after(20), unix_listener(path) as listener:
        async with open_connections(
            max_connections=most, peer_state_key="peer_uid", limited=limited
        ) as connections:
            await connections.listen(listener, app)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost"
            ) as client:
                yield connections, client


async def wait_until(condition: object) -> None:
    """Poll a condition that has no event; the caller bounds the time."""
    assert callable(condition)
    while not condition():  # noqa: ASYNC110 - see above
        await trio.sleep(0.005)
