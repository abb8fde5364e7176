"""trio, as the client needs it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

import trio

from .event_loop import SocketClosed

P = ParamSpec("P")
T = TypeVar("T")


class TrioLoop:
    """The `EventLoop` of programs on trio."""

    def current_time(self) -> float:
        """Return the time of trio's clock."""
        return trio.current_time()

    def move_on_after(self, seconds: float, *, shield: bool = False) -> trio.CancelScope:
        """Return a scope that is cancelled after `seconds`."""
        return trio.move_on_after(seconds, shield=shield)

    def make_lock(self) -> trio.Lock:
        """Return a lock for tasks."""
        return trio.Lock()

    async def checkpoint(self) -> None:
        """Let other tasks run, and raise a pending cancellation."""
        await trio.lowlevel.checkpoint()

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        await trio.sleep(seconds)

    async def wait_readable(self, connection: socket.socket) -> None:
        """Wait until there is something to read."""
        try:
            await trio.lowlevel.wait_readable(connection)
        except trio.ClosedResourceError:
            raise SocketClosed from None

    async def wait_writable(self, connection: socket.socket) -> None:
        """Wait until there is room to write."""
        try:
            await trio.lowlevel.wait_writable(connection)
        except trio.ClosedResourceError:
            raise SocketClosed from None

    def notify_closing(self, connection: socket.socket) -> None:
        """Wake the tasks that wait for the socket."""
        trio.lowlevel.notify_closing(connection)

    async def run_in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the work in a thread and return its result."""
        return await trio.to_thread.run_sync(partial(work, *args, **kwargs))
