"""Our ends of pipes to a process that we do not trust to read or to stop writing.

Rule 1: a descriptor is closed exactly once, and whoever waits for it then is woken.
Rule 2: nothing is taken from a pipe without being handed out: no await lies in between.
"""

from __future__ import annotations

import os
from typing import Final

import trio
from trio.lowlevel import notify_closing, wait_readable, wait_writable

from .port import InputClosed, InputStuck

PIECE_BYTES: Final = 65536
# A pipe holds no more than this unless somebody has made it larger.
_PIPE_BYTES: Final = 65536


class Inlet:
    """The end of a pipe that we write to."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor: int | None = descriptor
        self._turn = trio.Lock()  # so that what one sends is not cut by what another does

    async def send(self, data: bytes, *, within_seconds: float) -> None:
        """Write all of it; raises `InputClosed`, and `InputStuck` when the time is over.

        If only a part was written, by then or because it was cancelled, the pipe is closed.
        Where there is room for all of it at once this is no checkpoint.
        """
        rest = memoryview(data)
        with trio.move_on_after(within_seconds) as bound:
            await trio.lowlevel.checkpoint_if_cancelled()
            await self._wait_for_turn()
            try:
                while rest := rest[self._write(rest) :]:
                    await self._wait_for_room()
            finally:
                self._turn.release()
                if 0 < len(rest) < len(data):
                    self.close()
        if bound.cancelled_caught:
            raise InputStuck(f"it has not read what it was sent within {within_seconds} s")

    def send_nowait(self, data: bytes) -> None:
        """Write it if there is room, which there is for a few letters; nobody is told if not."""
        try:
            self._write(memoryview(data))
        except InputClosed:
            return

    def close(self) -> None:
        """Let whoever reads see the end; doing so again does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            notify_closing(descriptor)
            os.close(descriptor)

    def _write(self, data: memoryview) -> int:
        """How much of it there was room for."""
        if self._descriptor is None:
            raise InputClosed("its input is closed")
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise InputClosed("it no longer reads its input") from error

    async def _wait_for_turn(self) -> None:
        try:
            self._turn.acquire_nowait()  # mostly nobody is at it, and the loop need not turn
        except trio.WouldBlock:
            await self._turn.acquire()

    async def _wait_for_room(self) -> None:
        if self._descriptor is None:
            raise InputClosed("its input is closed")
        try:
            await wait_writable(self._descriptor)
        except trio.ClosedResourceError as error:
            raise InputClosed("its input was closed meanwhile") from error


class Outlet:
    """The end of a pipe that we read from."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor: int | None = descriptor
        # Invariant: once set nobody waits here, for whoever could still write is given up.
        self._is_given_up = False

    async def receive(self) -> bytes:
        """The next piece; empty when there will be no more, or it was closed."""
        piece = None
        while piece is None and self._descriptor is not None and not self._is_given_up:
            try:
                # Before there is a look: mostly nothing is there yet, and this is the checkpoint.
                await wait_readable(self._descriptor)
            except trio.ClosedResourceError:
                continue  # by us: what is there is still given out
            piece = self.receive_nowait()
        if piece is None:
            await trio.lowlevel.checkpoint()
            piece = self.receive_nowait()
        return piece or b""

    def receive_nowait(self) -> bytes | None:
        """What is there; None if nothing is, empty when there will be no more."""
        if self._descriptor is None:
            return b""
        try:
            return os.read(self._descriptor, PIECE_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def give_up(self) -> None:
        """Expect nothing more: what is there is given out, and then it is over."""
        self._is_given_up = True
        if self._descriptor is not None:
            notify_closing(self._descriptor)

    def close(self) -> None:
        """Read no more; doing so again does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            notify_closing(descriptor)
            os.close(descriptor)


class Tail:
    """The end of all that comes out of a pipe, which is always being read."""

    def __init__(self, outlet: Outlet, *, max_bytes: int) -> None:
        self._outlet = outlet
        self._max_bytes = max_bytes
        self._end = bytearray()

    async def drain(self) -> None:
        """Read until there is no more."""
        while piece := await self._outlet.receive():
            self._add(piece)

    def read(self) -> bytes:
        """What came last, with what is in the pipe right now."""
        for _ in range(_PIPE_BYTES // 4096):  # each piece is a page or more: no flood keeps us
            piece = self._outlet.receive_nowait()
            if not piece:
                break
            self._add(piece)
        return bytes(self._end)

    def _add(self, piece: bytes) -> None:
        self._end += piece
        del self._end[: -self._max_bytes]
