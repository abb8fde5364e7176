"""Authentication of requests, before routing, streams included; who is at the other end.

Rule 1: one gate for every route and every kind of request; only HTTP requests pass.
Rule 2: on TCP the client may be a browser that runs a hostile page, so the Host, the Origin and
        the token must all be right.
Rule 3: on a unix socket the kernel identifies the user; the Host must still be ours.
"""

from __future__ import annotations

import hmac
import socket
import struct
import sys
from collections.abc import Iterable
from typing import ClassVar, Final, Protocol

import attrs
from starlette.types import ASGIApp, Receive, Scope, Send

from .body import RequestBody
from .problems import RequestRefused, problem_of
from .response import Header, problem_response

MAX_HEADER_BYTES: Final = 16 * 1024
# Key in the state of the scope: the user id of the peer of a unix socket.
PEER_UID: Final = "peer_uid"
_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid
CHALLENGE: Final[Header] = (b"www-authenticate", b'Bearer realm="understudy"')


class Gate(Protocol):
    """Check that decides whether a request may reach the app.

    `is_unix_socket` says that the caller is the user of this process, as the kernel reports.
    """

    is_unix_socket: ClassVar[bool]

    def check(self, scope: Scope) -> None:
        """Raise RequestRefused if the request is not authenticated or its origin is forbidden."""


def _without_null_origin(origins: Iterable[str]) -> frozenset[str]:
    # Every page with an opaque origin sends `null`, so it cannot be allowed.
    return frozenset(origins) - {"null"}


@attrs.frozen(kw_only=True)
class UnixGate:
    """Gate of a unix socket, behind the permissions of its file: checks the user id of the peer.

    `own_uid` is the allowed user; None where the system does not report the peer.
    """

    is_unix_socket: ClassVar[bool] = True
    own_uid: int | None
    origins: frozenset[str] = attrs.field(default=frozenset(), converter=_without_null_origin)

    def check(self, scope: Scope) -> None:
        """Raise RequestRefused if the Host is not ours, or another user sends the request."""
        if self.own_uid is not None and scope.get("state", {}).get(PEER_UID) != self.own_uid:
            raise RequestRefused(
                "forbidden_peer",
                "this socket belongs to another user",
                hint="run the command as the user who runs the server",
            )
        _check_host(scope, {b"localhost"})
        _check_origin(scope, self.origins)


def _token(text: str) -> bytes:
    if len(text) < _SHORTEST_TOKEN or not text.isascii() or not text.isprintable():
        raise ValueError("a token has at least 32 printable ASCII characters")
    return text.encode()


_SHORTEST_TOKEN: Final = 32


@attrs.frozen(kw_only=True)
class TcpGate:
    """Gate of a port on 127.0.0.1: exact Host, token, and only listed Origins."""

    is_unix_socket: ClassVar[bool] = False
    port: int
    token: bytes = attrs.field(converter=_token, repr=False)
    origins: frozenset[str] = attrs.field(default=frozenset(), converter=_without_null_origin)

    def check(self, scope: Scope) -> None:
        """Raise RequestRefused unless Host, Origin and token of the request are right."""
        _check_host(scope, {b"127.0.0.1:%d" % self.port, b"localhost:%d" % self.port})
        _check_origin(scope, self.origins)
        sent = _values(scope, b"authorization")
        wanted = b"Bearer " + self.token
        # In constant time, so that the duration reveals nothing about the token.
        if not hmac.compare_digest(sent[0] if len(sent) == 1 else b"", wanted):
            raise RequestRefused(
                "unauthorized",
                "the token is missing or wrong",
                hint="send authorization: Bearer TOKEN; `understudy config token` prints it",
            )


class Gated:
    """An app behind a gate."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request to the app, or answer with the refusal."""
        if scope["type"] == "lifespan":
            await _handle_lifespan(receive, send)
            return
        if scope["type"] != "http":
            await send(
                {"type": "websocket.close", "code": 1008}
            )  # before the handshake is accepted: the server answers 403
            return
        try:
            _check_header_size(scope)
            self._gate.check(scope)
        except RequestRefused as refusal:
            await RequestBody(receive).discard()
            headers = [CHALLENGE] if refusal.code == "unauthorized" else []
            await problem_response(problem_of(refusal), headers).send(scope, send)
            return
        await self._app(scope, receive, send)


async def _handle_lifespan(receive: Receive, send: Send) -> None:
    """Acknowledge lifespan messages; the daemon, not the server, starts and stops the app."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _values(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]


def _check_header_size(scope: Scope) -> None:
    if sum(len(key) + len(value) for key, value in scope["headers"]) > MAX_HEADER_BYTES:
        raise RequestRefused(
            "headers_too_large",
            f"the headers have more than {MAX_HEADER_BYTES} bytes",
            hint="send fewer, or shorter ones",
        )


def _check_host(scope: Scope, allowed: Iterable[bytes]) -> None:
    """Raise RequestRefused for a foreign Host.

    With DNS rebinding, any name can resolve to this address.
    """
    given = _values(scope, b"host")
    if len(given) != 1 or given[0] not in allowed:
        raise RequestRefused(
            "forbidden_host",
            "the Host header names another host",
            hint=f"use {' or '.join(sorted(name.decode() for name in allowed))}",
        )


def _check_origin(scope: Scope, allowed: frozenset[str]) -> None:
    """Raise RequestRefused for an Origin that is not listed; `null` is refused too."""
    for origin in _values(scope, b"origin"):
        if origin.decode("latin-1") not in allowed:
            raise RequestRefused(
                "forbidden_origin",
                "the origin of the page is not allowed",
                hint="use a program, or add the origin to daemon.allowed_origins",
            )


# The process at the other end of a unix socket -------------------------------------------


def peer_uid(connection: socket.socket) -> int | None:
    """Return the uid of the peer of a unix socket; None where the system does not report it."""
    credentials = _credentials(connection)
    return None if credentials is None else credentials[1]


def peer_pid(connection: socket.socket) -> int | None:
    """Return the pid of the peer or listener; None where the system does not report it."""
    credentials = _credentials(connection)
    return None if credentials is None else credentials[0]


def _credentials(connection: socket.socket) -> tuple[int, int, int] | None:
    if not has_peer_credentials():
        return None
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(data)
    return pid, uid, gid


def has_peer_credentials() -> bool:
    """Return True if the system reports peer credentials."""
    return sys.platform == "linux"
