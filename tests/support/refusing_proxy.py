"""An HTTP proxy on loopback that lets nothing through and records what was wanted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import attrs
import trio

READ_SECONDS = 5.0
REFUSAL = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@attrs.define
class RefusingProxy:
    """A proxy; `wanted` has the first line of each request, such as `CONNECT example.org:443`."""

    url: str = ""
    wanted: list[str] = attrs.field(factory=list)

    async def refuse(self, stream: trio.SocketStream) -> None:
        """Read the first bytes of a connection and refuse it."""
        with trio.move_on_after(READ_SECONDS):
            async with stream:
                try:
                    first = await stream.receive_some(4096)
                    self.wanted.append(first.split(b"\r\n")[0].decode("latin-1"))
                    await stream.send_all(REFUSAL)
                except trio.BrokenResourceError:
                    return


@asynccontextmanager
async def open_refusing_proxy() -> AsyncIterator[RefusingProxy]:
    """Listen on a free port of 127.0.0.1 until the block ends."""
    proxy = RefusingProxy()
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(
            partial(trio.serve_tcp, proxy.refuse, 0, host="127.0.0.1")
        )
        proxy.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        yield proxy
        nursery.cancel_scope.cancel()
