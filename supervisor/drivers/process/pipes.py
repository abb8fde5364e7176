"""Our ends of pipes to a process that may stop reading or never stop writing.

Rule 1: a descriptor is closed exactly once, and closing wakes a task that waits for it.
Rule 2: no data is lost: nothing is awaited between reading data and returning it.
"""

from __future__ import annotations

import os
from typing import Final

import trio
from trio.lowlevel import notify_closing, wait_readable, wait_writable

from supervisor.json_rpc.rpc_outbox import InputClosed, InputStuck

CHUNK_BYTES: Final = 65536
# The default capacity of a pipe.
_PIPE_BYTES: Final = 65536


class PipeWriter:
    """The write end of a pipe."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor: int | None = descriptor
        self._lock = trio.Lock()  # concurrent sends must not interleave
        # The number of bytes written so far.
        self.written_bytes = 0

    async def send(self, data: bytes, *, within_seconds: float) -> None:
        """Write all of the data; raise `InputClosed`, or `InputStuck` after `within_seconds`.

        If only a part was written, because of the timeout or a cancellation, the pipe is closed.
        Nothing is written after a cancellation.
        The call is not a trio checkpoint if the pipe has room for all of the data.
        """
        rest = memoryview(data)
        with trio.move_on_after(within_seconds) as bound:
            await self._acquire_lock()
            try:
                # Before each write, not only while waiting: the pipe may get room in the same pass
                # of the event loop in which the caller is cancelled.
                await trio.lowlevel.checkpoint_if_cancelled()
                while rest := rest[self._write(rest) :]:
                    await self._wait_writable()
                    await trio.lowlevel.checkpoint_if_cancelled()
            finally:
                self._lock.release()
                if 0 < len(rest) < len(data):
                    self.close()
        if bound.cancelled_caught:
            raise InputStuck(f"the process has not read its input within {within_seconds} s")

    def send_nowait(self, data: bytes) -> None:
        """Write the data if the pipe has room, as it has for a few bytes; drop it otherwise."""
        try:
            self._write(memoryview(data))
        except InputClosed:
            return

    def close(self) -> None:
        """Close the pipe, so that the reader sees its end; do nothing if it is closed already."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            notify_closing(descriptor)
            os.close(descriptor)

    def _write(self, data: memoryview) -> int:
        """Return the number of bytes written; 0 if the pipe is full."""
        if self._descriptor is None:
            raise InputClosed("the input of the process is closed")
        try:
            written = os.write(self._descriptor, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise InputClosed("the process no longer reads its input") from error
        self.written_bytes += written
        return written

    async def _acquire_lock(self) -> None:
        try:
            self._lock.acquire_nowait()  # the usual case, which saves a pass of the event loop
        except trio.WouldBlock:
            await self._lock.acquire()

    async def _wait_writable(self) -> None:
        if self._descriptor is None:
            raise InputClosed("the input of the process is closed")
        try:
            await wait_writable(self._descriptor)
        except trio.ClosedResourceError as error:
            raise InputClosed("the input of the process was closed during a write") from error


class PipeReader:
    """The read end of a pipe."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor: int | None = descriptor
        # Invariant: once set, `receive` never waits, because the remaining writers are given up.
        self._has_stopped_waiting = False

    async def receive(self) -> bytes:
        """Return the next chunk; empty at the end of the stream, or if the pipe was closed."""
        chunk = None
        while chunk is None and self._descriptor is not None and not self._has_stopped_waiting:
            try:
                # Before the first read: usually no data has arrived, and this is the checkpoint.
                await wait_readable(self._descriptor)
            except trio.ClosedResourceError:
                continue  # from stop_waiting or close; data that has arrived is still returned
            chunk = self.receive_nowait()
        if chunk is None:
            await trio.lowlevel.checkpoint()
            chunk = self.receive_nowait()
        return chunk or b""

    def receive_nowait(self) -> bytes | None:
        """Return the data that has arrived; None before any has arrived, empty at the end."""
        if self._descriptor is None:
            return b""
        try:
            return os.read(self._descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def stop_waiting(self) -> None:
        """Return only the data that has already arrived, then the end of the stream."""
        self._has_stopped_waiting = True
        if self._descriptor is not None:
            notify_closing(self._descriptor)

    def close(self) -> None:
        """Close the pipe; do nothing if it is closed already."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            notify_closing(descriptor)
            os.close(descriptor)


class OutputTail:
    """The last bytes of a pipe that is read continuously."""

    def __init__(self, reader: PipeReader, *, max_bytes: int) -> None:
        self._reader = reader
        self._max_bytes = max_bytes
        self._tail = bytearray()

    async def drain(self) -> None:
        """Read to the end of the pipe."""
        while chunk := await self._reader.receive():
            self._add(chunk)

    def read(self) -> bytes:
        """Return the last bytes, including those that are still in the pipe."""
        for _ in range(_PIPE_BYTES // 4096):  # bounded, so that a flood cannot keep us here
            chunk = self._reader.receive_nowait()
            if not chunk:
                break
            self._add(chunk)
        return bytes(self._tail)

    def _add(self, chunk: bytes) -> None:
        self._tail += chunk
        del self._tail[: -self._max_bytes]
