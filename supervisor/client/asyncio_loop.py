"""asyncio, as the client needs it, through anyio.

A task on asyncio is cancelled once, by `Task.cancel()`, and anyio's shields do not stop that. So a
wait that must not be left early remembers the cancellation and requests it again at its end.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

import anyio
import anyio.lowlevel

from .event_loop import SocketClosed

P = ParamSpec("P")
T = TypeVar("T")


class AsyncioLoop:
    """The `EventLoop` of programs on asyncio."""

    def current_time(self) -> float:
        """Return the time of asyncio's clock."""
        return anyio.current_time()

    def move_on_after(self, seconds: float, *, shield: bool = False) -> anyio.CancelScope:
        """Return a scope that is cancelled after `seconds`."""
        return anyio.move_on_after(seconds, shield=shield)

    def make_lock(self) -> anyio.Lock:
        """Return a lock for tasks."""
        return anyio.Lock()

    async def checkpoint(self) -> None:
        """Let other tasks run, and raise a pending cancellation."""
        await anyio.lowlevel.checkpoint()

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        await anyio.sleep(seconds)

    async def wait_readable(self, connection: socket.socket) -> None:
        """Wait until there is something to read."""
        try:
            await anyio.wait_readable(connection)
        except anyio.ClosedResourceError:
            raise SocketClosed from None

    async def wait_writable(self, connection: socket.socket) -> None:
        """Wait until there is room to write."""
        try:
            await anyio.wait_writable(connection)
        except anyio.ClosedResourceError:
            raise SocketClosed from None

    def notify_closing(self, connection: socket.socket) -> None:
        """Wake the tasks that wait for the socket."""
        anyio.notify_closing(connection)

    async def run_in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the work in a thread and return its result, also if the task is cancelled.

        The cancellation is then raised at the next wait, as on trio.
        """
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(None, partial(work, *args, **kwargs))
        cancelled: asyncio.CancelledError | None = None
        with anyio.CancelScope(shield=True):
            while not running.done():
                try:
                    await asyncio.wait([running])
                except asyncio.CancelledError as error:
                    cancelled = error
        task = asyncio.current_task()
        if cancelled is not None and task is not None:
            # The count of requests stays as it is: `asyncio.timeout` compares it.
            task.uncancel()
            task.cancel(*cancelled.args)
        return running.result()
