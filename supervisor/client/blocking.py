"""Requests over one connection each, without trio: for commands that only read.

The methods of a remote supervisor are coroutines. With this client they never suspend, so a program
runs them to their end in one step, without an event loop.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import attrs
import h11

from .address import LOOPBACK, Address, retry_pauses
from .http_client import ConnectionBroken, HttpRequest, HttpResponse, Unreachable, encode_request

_READ_BYTES: Final = 65536


class BlockingClient:
    """The `HttpClient` of commands that only read; blocks the thread."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._deadline = math.inf

    @contextmanager
    def time_limit(self, seconds: float) -> Iterator[None]:
        """End the requests of the block after `seconds`."""
        self._deadline = time.monotonic() + seconds
        with suppress(TimeoutError):
            yield

    async def request(self, request: HttpRequest) -> HttpResponse:
        """Send the request over a new connection and close it.

        Raise as `HttpClient.request` does, and `TimeoutError` at the end of the time limit.
        """
        request = attrs.evolve(request, headers=self._address.once(request.headers))
        http = h11.Connection(h11.CLIENT)
        with self._connect() as connection:
            try:
                # A server that refuses a body may stop reading it; its response arrives anyway.
                with suppress(BrokenPipeError, ConnectionResetError):
                    connection.sendall(encode_request(http, self._address.host, request))
                return self._read_response(http, connection)
            except TimeoutError:
                raise
            except (OSError, h11.RemoteProtocolError) as error:
                raise ConnectionBroken from error

    def _connect(self) -> socket.socket:
        pauses = retry_pauses(time.monotonic)
        while True:
            connection = socket.socket(
                socket.AF_INET if self._address.socket is None else socket.AF_UNIX
            )
            try:
                self._set_timeout(connection)
                connection.connect(self._address.socket or (LOOPBACK, self._address.port))
            except BlockingIOError:  # the listen queue is full
                connection.close()
                time.sleep(next(pauses))
            except OSError as error:
                connection.close()
                if isinstance(error, TimeoutError):
                    raise
                raise Unreachable from error
            else:
                return connection

    def _read_response(self, http: h11.Connection, connection: socket.socket) -> HttpResponse:
        status = 0
        pieces = []
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                self._set_timeout(connection)
                http.receive_data(connection.recv(_READ_BYTES))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
            elif not isinstance(event, h11.InformationalResponse):
                break
        if not status:
            raise ConnectionBroken
        return HttpResponse(status, b"".join(pieces))

    def _set_timeout(self, connection: socket.socket) -> None:
        """Let the next call end in time; raise `TimeoutError` if the time is over."""
        if self._deadline == math.inf:
            return
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
