"""ASGI apps on a free port of 127.0.0.1, in the tests' own loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import hypercorn.trio
import trio
from hypercorn.config import Config


@asynccontextmanager
async def serve_on_loopback(app: Any) -> AsyncIterator[str]:  # noqa: ANN401 - starlette's and hypercorn's types of an app differ
    """Serve the app until the block ends; yield its address without a path."""
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.accesslog = config.errorlog = None
    config.graceful_timeout = 0.5
    ended = trio.Event()
    async with trio.open_nursery() as nursery:
        serve = partial(hypercorn.trio.serve, app, config, shutdown_trigger=ended.wait)
        with trio.fail_after(10):
            binds: list[str] = await nursery.start(serve)
        try:
            yield binds[0]
        finally:
            ended.set()
            nursery.cancel_scope.deadline = trio.current_time() + 5
