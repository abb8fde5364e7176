"""Who may ask at all: looked at before a path is, for everything there is, streams included.

Rule 1: one gate for every route and every kind of request. What is no HTTP request is refused.
Rule 2: on TCP a browser may be the one who asks, on behalf of a page that means harm: so the name
        that it asked for, the page that it asks for and the token must all be right.
Rule 3: on a unix socket the system says who asks; the name still has to be ours.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Final, Protocol

import attrs
from starlette.types import ASGIApp, Receive, Scope, Send

from .answering.requests import Incoming
from .answering.responses import Header, problem_response
from .wire.problems import RequestRefused, problem_of

MAX_HEADER_BYTES: Final = 16 * 1024
# Where a server puts the user id of whoever is at the other end of a unix socket, in the scope's
# state.
PEER_UID: Final = "peer_uid"
_CHALLENGE: Final[Header] = (b"www-authenticate", b'Bearer realm="understudy"')


class Gate(Protocol):
    """Says who may pass."""

    def refuse(self, scope: Scope) -> None:
        """Raise `RequestRefused` unless the request may pass."""


def _known_pages(origins: Iterable[str]) -> frozenset[str]:
    # Every page that hides whose it is says `null`: nobody can mean all of those.
    return frozenset(origins) - {"null"}


@attrs.frozen(kw_only=True)
class UnixGate:
    """For a unix socket: its permissions are the first gate, the user's id the second.

    `own_uid` is who may ask; None where the system does not say who does.
    """

    own_uid: int | None
    origins: frozenset[str] = attrs.field(default=frozenset(), converter=_known_pages)

    def refuse(self, scope: Scope) -> None:
        """See `Gate`."""
        if self.own_uid is not None and scope.get("state", {}).get(PEER_UID) != self.own_uid:
            raise RequestRefused(
                "forbidden_peer",
                "this socket is another user's",
                hint="run the command as the user who runs the server",
            )
        _refuse_host(scope, {b"localhost"})
        _refuse_origin(scope, self.origins)


def _token(text: str) -> bytes:
    if len(text) < _SHORTEST_TOKEN or not text.isascii() or not text.isprintable():
        raise ValueError("a token is at least 32 printable characters")
    return text.encode()


_SHORTEST_TOKEN: Final = 32


@attrs.frozen(kw_only=True)
class TcpGate:
    """For a port on 127.0.0.1: the exact name, the token, and no page that is not listed."""

    port: int
    token: bytes = attrs.field(converter=_token, repr=False)
    origins: frozenset[str] = attrs.field(default=frozenset(), converter=_known_pages)

    def refuse(self, scope: Scope) -> None:
        """See `Gate`."""
        _refuse_host(scope, {b"127.0.0.1:%d" % self.port, b"localhost:%d" % self.port})
        _refuse_origin(scope, self.origins)
        given = _values(scope, b"authorization")
        wanted = b"Bearer " + self.token
        # Compared in full, whatever was given: how long it takes tells nothing.
        if not hmac.compare_digest(given[0] if len(given) == 1 else b"", wanted):
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
        """Let the request through, or say why not."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})  # before it was accepted: a 403
            return
        try:
            _refuse_large_headers(scope)
            self._gate.refuse(scope)
        except RequestRefused as refusal:
            await Incoming(receive).discard()
            headers = [_CHALLENGE] if refusal.code == "unauthorized" else []
            await problem_response(problem_of(refusal), headers).send(scope, send)
            return
        await self._app(scope, receive, send)


async def _live(receive: Receive, send: Send) -> None:
    """There is nothing to start or to end: whoever runs the app does that."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _values(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]


def _refuse_large_headers(scope: Scope) -> None:
    if sum(len(key) + len(value) for key, value in scope["headers"]) > MAX_HEADER_BYTES:
        raise RequestRefused(
            "headers_too_large",
            f"the headers have more than {MAX_HEADER_BYTES} bytes",
            hint="send fewer, or shorter ones",
        )


def _refuse_host(scope: Scope, allowed: Iterable[bytes]) -> None:
    """Exactly one of the names, once: a page elsewhere may have had its own name lead here."""
    given = _values(scope, b"host")
    if len(given) != 1 or given[0] not in allowed:
        raise RequestRefused(
            "forbidden_host",
            "the request is for another host",
            hint=f"ask for {' or '.join(sorted(name.decode() for name in allowed))}",
        )


def _refuse_origin(scope: Scope, allowed: frozenset[str]) -> None:
    """No page of anybody else's, and none that hides whose it is."""
    for origin in _values(scope, b"origin"):
        if origin.decode("latin-1") not in allowed:
            raise RequestRefused(
                "forbidden_origin",
                "a page of another origin has asked",
                hint="ask from a program, or list the page's origin in the settings",
            )
