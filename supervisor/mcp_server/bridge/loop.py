"""The loop of the bridge: standard input and output of the client, and the calls behind."""

import os
import select
import time

from .call import CALL_SECONDS, CHUNK_BYTES, BridgeCall, CallFailed, ToolsAddress
from .message import (
    INVALID_REQUEST,
    NOT_CONNECTED,
    ClientMessage,
    MalformedLine,
    error_line,
    fields_of,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

MAX_LINE_BYTES = 1024 * 1024
MAX_CALLS = 64
# Calls that run when standard input ends may be answered within this time.
LAST_ANSWERS_SECONDS = 1.0
# How long a connection is kept for the next call. The server closes it after 30 s, and it should
# not be the server: a request that crosses the end of its connection fails.
KEEP_SECONDS = 10.0


class Bridge:
    """Both sides: standard input and output of the client, and the calls behind.

    `start` is called when nothing listens, before the second and last attempt to connect; it raises
    `OSError` if nothing could be started.
    """

    def __init__(
        self,
        address: ToolsAddress,
        *,
        client_in: int = 0,
        client_out: int = 1,
        start: "Callable[[], object] | None" = None,
        keep_seconds: float = KEEP_SECONDS,
    ) -> None:
        self._address = address
        self._in, self._out = client_in, client_out
        self._start = start
        self._keep_seconds = keep_seconds
        self._calls: dict[int, BridgeCall] = {}
        # Invariant: a connection without a call, open since the end of its last one; at most one.
        self._kept: socket.socket | None = None
        self._kept_until = 0.0
        self._unread = bytearray()
        # True while the rest of a line that is too long is dropped.
        self._is_dropping = False
        # When the bridge ends, after the end of its input; None before.
        self._ends_at: float | None = None
        # The version of the protocol that `initialize` has agreed on.
        self._version: str | None = None

    def run(self) -> None:
        """Serve until standard input ends, or the reader of standard output has closed it."""
        try:
            while self._ends_at is None or (self._calls and time.monotonic() < self._ends_at):
                self._wait()
                self._handle_lines()
        except BrokenPipeError:
            pass  # the client has gone without closing our input
        finally:
            self._close_kept()
            for call in self._calls.values():
                call.connection.close()

    def _wait(self) -> None:
        """Wait until something can be read or written, and do that."""
        poll = select.poll()
        if self._ends_at is None and len(self._calls) < MAX_CALLS:
            poll.register(self._in, select.POLLIN)
        for descriptor, call in self._calls.items():
            poll.register(descriptor, select.POLLIN | (select.POLLOUT if call.unsent else 0))
        kept = -1 if self._kept is None else self._kept.fileno()
        if kept >= 0:
            poll.register(kept, select.POLLIN)
        for descriptor, event in poll.poll(self._pause()):
            if descriptor == self._in:
                self._read()
            elif descriptor == kept:
                self._close_kept()  # nothing was asked for, so this is its end
            elif descriptor in self._calls:
                self._advance(descriptor, self._calls[descriptor], event)
        self._end_overdue(time.monotonic())

    def _end_overdue(self, now: float) -> None:
        if now >= self._kept_until:
            self._close_kept()
        for descriptor, call in list(self._calls.items()):
            if now >= call.deadline:
                self._end(descriptor, f"no answer within {CALL_SECONDS:g} seconds")

    def _pause(self) -> "float | None":
        """Return the milliseconds until the next deadline; None if there is none."""
        ends = [call.deadline for call in self._calls.values()]
        ends += [] if self._ends_at is None else [self._ends_at]
        ends += [] if self._kept is None else [self._kept_until]
        return max(0.0, min(ends) - time.monotonic()) * 1000 + 1 if ends else None

    def _advance(self, descriptor: int, call: BridgeCall, event: int) -> None:
        if call.unsent and event & select.POLLOUT:
            call.send()
        if not event & ~select.POLLOUT:
            return
        try:
            line = call.receive()
        except CallFailed as failure:
            self._end(descriptor, str(failure))
            return
        if line is None:
            return
        if call.message.method == "initialize" and self._version is None:
            result = fields_of(line).get("result")
            version = result.get("protocolVersion") if isinstance(result, dict) else None
            self._version = version if isinstance(version, str) else None
        self._keep(self._calls.pop(descriptor))
        if call.message.is_request:
            self._write(line or error_line(call.message.id, NOT_CONNECTED, "the answer is empty"))

    def _end(self, descriptor: int, problem: str) -> None:
        """End a call that has failed."""
        message = self._drop(descriptor).message
        if message.is_request:
            self._write(error_line(message.id, NOT_CONNECTED, problem))

    def _drop(self, descriptor: int) -> BridgeCall:
        call = self._calls.pop(descriptor)
        call.connection.close()
        return call

    def _keep(self, call: BridgeCall) -> None:
        """Keep the connection of a call that has ended for the next one, or close it."""
        if self._kept is not None or not call.is_kept:
            call.connection.close()
            return
        self._kept = call.connection
        self._kept_until = time.monotonic() + self._keep_seconds

    def _take_kept(self) -> "socket.socket | None":
        """Return the kept connection, unless its other end is closed."""
        taken, self._kept = self._kept, None
        if taken is None:
            return None
        poll = select.poll()
        poll.register(taken, select.POLLIN)
        if poll.poll(0):
            taken.close()
            return None
        return taken

    def _close_kept(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    # The client's side ------------------------------------------------------------------

    def _read(self) -> None:
        data = os.read(self._in, CHUNK_BYTES)
        if not data:
            self._ends_at = time.monotonic() + LAST_ANSWERS_SECONDS
            data = b"\n"  # the last line may lack its end
        self._unread += data

    def _handle_lines(self) -> None:
        """Handle the complete lines, as far as there may be more calls."""
        while len(self._calls) < MAX_CALLS:
            line, newline, rest = self._unread.partition(b"\n")
            if not newline:
                break
            self._unread = rest
            if not self._is_dropping:
                self._handle_line(bytes(line))
            self._is_dropping = False
        if len(self._unread) > MAX_LINE_BYTES and b"\n" not in self._unread:
            if not self._is_dropping:
                self._refuse_long_line()
            self._is_dropping = True
            self._unread.clear()

    def _refuse_long_line(self) -> None:
        text = f"the line has more than {MAX_LINE_BYTES} bytes; put large data into a file"
        self._write(error_line(None, INVALID_REQUEST, text))

    def _handle_line(self, line: bytes) -> None:
        if not line.strip():
            return
        if len(line) > MAX_LINE_BYTES:
            self._refuse_long_line()
            return
        try:
            message = ClientMessage(line)
        except MalformedLine as fault:
            self._write(error_line(None, fault.code, str(fault)))
            return
        if message.method == "notifications/cancelled":
            self._cancel(message.params.get("requestId"))
            return
        try:
            self._begin(message)
        except OSError as error:
            if message.is_request:
                why = error.strerror or str(error)
                text = f"no supervisor answers ({why}); the next call connects again"
                self._write(error_line(message.id, NOT_CONNECTED, text))

    def _begin(self, message: ClientMessage) -> None:
        """Send a message; raise `OSError` if nothing listens."""
        connection = self._take_kept() or self._connect()
        head = self._address.head(len(message.line), message.headers(self._version))
        call = BridgeCall(message, connection, head + message.line)
        self._calls[connection.fileno()] = call
        call.send()

    def _connect(self) -> "socket.socket":
        try:
            return self._address.connect()
        except OSError:
            if self._start is None:
                raise
            self._start()
            return self._address.connect()

    def _cancel(self, message_id: object) -> None:
        """Close the connection of a call, which cancels it; its request is not answered."""
        for descriptor, call in list(self._calls.items()):
            if call.message.is_request and call.message.id == message_id:
                self._drop(descriptor)

    def _write(self, line: bytes) -> None:
        while line:
            try:
                line = line[os.write(self._out, line) :]
            except BlockingIOError:  # the client has made its end not block, and ours with it
                poll = select.poll()
                poll.register(self._out, select.POLLOUT)
                poll.poll()
