"""One call: a request to `/mcp` on a connection that has no other meanwhile, and its answer."""

import time

from .message import ClientMessage, fields_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    import socket
else:  # the module behind it, which takes no time to load
    import _socket as socket

MAX_ANSWER_BYTES = 16 * 1024 * 1024
# Longer than any tool waits.
CALL_SECONDS = 3600.0
CONNECT_SECONDS = 10.0
CHUNK_BYTES = 65536
_HTTP_OK = 200
_HTTP_NO_ANSWER = (202, 204)


class ToolsAddress:
    """Where `/mcp` is: the path of a unix socket, or a port of this machine."""

    def __init__(self, place: "str | int", token: "str | None" = None) -> None:
        self.place = place
        self._token = token

    def connect(self) -> "socket.socket":
        """Return a connection that does not block; raise `OSError` if nothing listens."""
        family = socket.AF_UNIX if isinstance(self.place, str) else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.settimeout(CONNECT_SECONDS)
            made.connect(self.place if isinstance(self.place, str) else ("127.0.0.1", self.place))
        except BaseException:
            made.close()
            raise
        made.setblocking(False)  # noqa: FBT003 - its only argument
        return made

    def head(self, length: int, more: "list[tuple[str, str]]") -> bytes:
        """Return the head of a request with a body of that many bytes."""
        host = "localhost" if isinstance(self.place, str) else f"127.0.0.1:{self.place}"
        headers = [
            ("host", host),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("content-length", str(length)),
            *more,
        ]
        if self._token is not None:
            headers.append(("authorization", f"Bearer {self._token}"))
        lines = [f"{name}: {value}\r\n" for name, value in headers]
        return f"POST /mcp HTTP/1.1\r\n{''.join(lines)}\r\n".encode()


class CallFailed(Exception):
    """A call that got no answer; the text says why."""


class BridgeCall:
    """A message on its way: the request, its connection, and the answer as far as it has come."""

    def __init__(self, message: ClientMessage, connection: "socket.socket", request: bytes) -> None:
        self.message = message
        self.connection = connection
        self.unsent = memoryview(request)
        self.deadline = time.monotonic() + CALL_SECONDS
        self._received = bytearray()
        # Number of bytes of the head, 0 until it is complete; and of the body, None if unknown.
        self._head_bytes = 0
        self._body_bytes: int | None = None
        # Whether the server leaves the connection open after the answer.
        self._is_kept = False

    @property
    def is_kept(self) -> bool:
        """True if another request may be sent on the connection, after the whole answer."""
        answer_bytes = self._head_bytes + (self._body_bytes or 0)
        return self._is_kept and not self.unsent and len(self._received) == answer_bytes

    def send(self) -> None:
        """Send what the connection takes now."""
        try:
            sent = self.connection.send(self.unsent)
        except BlockingIOError:
            return
        except OSError:
            sent = len(self.unsent)  # it was refused early; the answer may be there
        self.unsent = self.unsent[sent:]

    def receive(self) -> "bytes | None":
        """Return the line to write when the answer is complete, empty for none; None until then.

        Raise `CallFailed` if there is no answer.
        """
        try:
            data = self.connection.recv(CHUNK_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            raise CallFailed(_lost(error.strerror)) from None
        self._received += data
        if len(self._received) > MAX_ANSWER_BYTES:
            raise CallFailed(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
        if not self._head_bytes:
            self._read_head()
        if not self._is_complete(is_at_end=not data):
            if not data:
                raise CallFailed(_lost("the connection was closed"))
            return None
        return self._line()

    def _read_head(self) -> None:
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        self._head_bytes = end + 4
        is_closed_after = not self._received.startswith(b"HTTP/1.1")
        for header in self._received[:end].lower().split(b"\r\n")[1:]:
            name, _, value = header.partition(b":")
            value = value.strip()
            if name == b"content-length" and value.isdigit():
                self._body_bytes = int(value)
            elif name == b"transfer-encoding" and value != b"identity":
                raise CallFailed(
                    "the supervisor sent an answer in pieces, which no supervisor does"
                )
            elif name == b"connection" and value == b"close":
                is_closed_after = True
        if self._body_bytes is None and self._status() in _HTTP_NO_ANSWER:
            self._body_bytes = 0
        self._is_kept = self._body_bytes is not None and not is_closed_after

    def _is_complete(self, *, is_at_end: bool) -> bool:
        if not self._head_bytes:
            return False
        if self._body_bytes is None:
            return is_at_end
        return len(self._received) >= self._head_bytes + self._body_bytes

    def _status(self) -> int:
        return int(self._received[9:12]) if self._received[9:12].isdigit() else 0

    def _line(self) -> bytes:
        status = self._status()
        body = bytes(self._received[self._head_bytes :])
        if status in _HTTP_NO_ANSWER or not body.strip():
            return b""
        fields = fields_of(body)
        if "jsonrpc" in fields or (status == _HTTP_OK and body.lstrip()[:1] == b"["):
            # Between the values of JSON, a line break is a blank.
            return body.strip().replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"
        detail, hint = fields.get("detail"), fields.get("hint")
        text = f"{detail}; {hint}" if isinstance(detail, str) else f"the supervisor said {status}"
        raise CallFailed(text)


def _lost(why: "str | None") -> str:
    return (
        f"the supervisor has ended, or has closed the connection ({why}); the call may have been"
        " carried out, and the next call connects again"
    )
