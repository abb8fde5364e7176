"""Standard input and output as streams of bytes that never block the event loop.

Rule 1: only what is sent here reaches standard output. Descriptor 1 itself becomes standard error,
        so that nothing printed by mistake gets between two messages.
Rule 2: the descriptors of our parent get back the mode that they had.
"""

from __future__ import annotations

import os
import select
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

_CHUNK_BYTES: Final = 65536
_INPUT, _OUTPUT, _ERROR = 0, 1, 2


class StandardStreams:
    """The two streams; both ends may be pipes, sockets, terminals or files."""

    def __init__(self, source: int, target: int) -> None:
        self._source = source
        self._target = target

    async def receive(self) -> bytes:
        """Return the next bytes; empty at the end."""
        while True:
            await _until_ready(trio.lowlevel.wait_readable, self._source)
            try:
                return os.read(self._source, _CHUNK_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                return b""

    async def send(self, data: bytes) -> None:
        """Write all bytes, however long the reader takes."""
        rest = memoryview(data)
        while rest:
            await _until_ready(trio.lowlevel.wait_writable, self._target)
            try:
                rest = rest[os.write(self._target, rest) :]
            except BlockingIOError:
                continue

    async def wait_hangup(self) -> None:
        """Wait until the other end of the input is closed, read or unread.

        Where that cannot be known, wait for ever.
        """
        if not hasattr(select, "epoll"):
            await trio.sleep_forever()
        with select.epoll() as poll:
            try:
                poll.register(self._source, select.EPOLLRDHUP | select.EPOLLHUP)
            except PermissionError:
                await trio.sleep_forever()
            await trio.lowlevel.wait_readable(poll.fileno())


async def _until_ready(wait: Callable[[int], Awaitable[None]], descriptor: int) -> None:
    try:
        await wait(descriptor)
    except PermissionError:  # a file, which is always ready
        await trio.lowlevel.checkpoint()


@contextmanager
def take_standard_streams() -> Iterator[StandardStreams]:
    """Take standard input and output for the duration of the block."""
    source, target = os.dup(_INPUT), os.dup(_OUTPUT)
    modes = [(one, os.get_blocking(one)) for one in (source, target)]
    os.dup2(_ERROR, _OUTPUT)
    try:
        for one, _ in modes:
            os.set_blocking(one, False)
        yield StandardStreams(source, target)
    finally:
        os.dup2(target, _OUTPUT)
        for one, blocks in modes:
            os.set_blocking(one, blocks)
            os.close(one)
