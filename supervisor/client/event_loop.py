"""What the client needs of the event loop that it runs on.

Rule 1: only `trio_loop` and `asyncio_loop`, which implement it, import a library of event loops.
Rule 2: a cancelled wait has read and written nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class SocketClosed(Exception):
    """The socket was closed while a task waited for it."""


class TimeLimit(Protocol):
    """A block with a deadline."""

    def cancel(self) -> None:
        """End the block now, as its deadline does."""

    @property
    def cancelled_caught(self) -> bool:
        """Whether the deadline has ended the block."""


class EventLoop(Protocol):
    """The functions of an event loop, with the names and the meaning that trio gives them."""

    def current_time(self) -> float:
        """Return the time of the loop's clock, in seconds."""

    def move_on_after(
        self, seconds: float, *, shield: bool = False
    ) -> AbstractContextManager[TimeLimit]:
        """Return a block that is cancelled after `seconds`; the program goes on behind it."""

    def make_lock(self) -> AbstractAsyncContextManager[object]:
        """Return a lock for tasks."""

    async def checkpoint(self) -> None:
        """Let other tasks run, and raise a pending cancellation."""

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""

    async def wait_readable(self, connection: socket.socket) -> None:
        """Wait until there is something to read; raise `SocketClosed` if it is closed."""

    async def wait_writable(self, connection: socket.socket) -> None:
        """Wait until there is room to write; raise `SocketClosed` if it is closed."""

    def notify_closing(self, connection: socket.socket) -> None:
        """Wake the tasks that wait for a socket which the caller closes next."""

    async def run_in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the work in a thread and return its result; a cancellation waits for its end."""
