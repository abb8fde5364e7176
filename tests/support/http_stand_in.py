"""A small HTTP server on a unix socket, in threads, that answers as a test says."""

from __future__ import annotations

import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any, TypeAlias

import attrs


@attrs.frozen
class Received:
    """A request as the server has read it."""

    path: str
    headers: Mapping[str, str]
    message: Any
    # Which connection of the server it came on.
    connection: int = 0

    @property
    def id(self) -> Any:  # noqa: ANN401 - any JSON
        return self.message.get("id")


@attrs.frozen
class Reply:
    """A reply; without a body the connection is closed without a word."""

    body: bytes | None
    status: int = 200
    media_type: str = "application/json"
    headers: Mapping[str, str] = attrs.field(factory=dict)


Answer: TypeAlias = Callable[[Received], Reply]


def result(received: Received, value: object) -> Reply:
    """Return a result for the request."""
    body = {"jsonrpc": "2.0", "id": received.id, "result": value}
    return Reply(json.dumps(body, indent=1).encode())


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 200


@contextmanager
def http_stand_in(
    path: Path,
    answer: Answer,
    *,
    version: str = "HTTP/1.0",
    on_close: Callable[[], object] = object,
) -> Iterator[list[Received]]:
    """Serve at the path during the block; yield the list of what was received.

    With HTTP/1.1 connections are kept. `on_close` is called when one has ended.
    """
    received: list[Received] = []
    connections: set[socket.socket] = set()
    numbers = itertools.count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = version

        def setup(self) -> None:
            super().setup()
            self.number = next(numbers)
            connections.add(self.connection)

        def finish(self) -> None:
            connections.discard(self.connection)
            super().finish()
            on_close()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = dict(self.headers.items())
            one = Received(self.path, headers, json.loads(body), self.number)
            received.append(one)
            reply = answer(one)
            if reply.body is None:
                self.close_connection = True
                return
            with suppress(BrokenPipeError):  # the test has closed the connection
                self.send_response(reply.status)
                self.send_header("content-type", reply.media_type)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

        def log_message(self, *_: object) -> None:
            pass

    server = _Server(str(path), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        for connection in list(connections):  # as when the process ends
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        path.unlink()
