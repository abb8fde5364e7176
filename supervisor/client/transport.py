"""Requests to the daemon: each returns its answer, or raises the error that the daemon raised.

Rule 1: every request has a timeout. A request that timed out may still have taken effect.
Rule 2: a GET is repeated once if the connection broke; a request that changes something is not.
Rule 3: unknown fields in an answer of a newer server are ignored.
Rule 4: closing ends what waits: requests raise `NoDaemon`, or `AnswerLost` if they may have changed
        something, and feeds end.

Errors between the client and the daemon; all other errors are raised as in the daemon.

SupervisorError
├── NoDaemon       no daemon listens there: nothing has happened
├── DaemonBusy     the daemon accepts no more connections at present: nothing has happened
└── AnswerLost     the request was sent, and no answer came: it may have taken effect or not
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlencode

import attrs
import orjson

from supervisor.api.encode import encode
from supervisor.core.errors import ConfigError, SupervisorError
from supervisor.decode import DecodeError, decode_light
from supervisor.http_server.problems import error_of

from .address import Address, ListenQueueFull
from .deep_json import parse_json
from .event_loop import TimeLimit
from .http_client import (
    ConnectionBroken,
    HttpClient,
    HttpRequest,
    HttpResponse,
    Method,
    Unreachable,
)

if TYPE_CHECKING:  # it needs trio
    from .stream import HttpStream


class NoDaemon(SupervisorError):
    """No daemon listens at the address."""


class DaemonBusy(SupervisorError):
    """The daemon listens and accepts no more connections: nothing has happened."""


class AnswerLost(SupervisorError):
    """The request was sent and not answered: it may have taken effect."""


T = TypeVar("T")

# Timeouts: for answers from memory or after one commit; for starting, stopping and copying.
QUICK_SECONDS: Final = 30.0
SLOW_SECONDS: Final = 600.0
# Time in which a daemon may be unreachable while a result or a feed is waited for.
MAX_ABSENCE_SECONDS: Final = 60.0
_ERRORS: Final = 400
_NO_SUCH_ROUTE: Final = "no_such_route"
# All filters of a list fit, percent-encoded. httpx refuses a URL of more than 64 KiB.
_MAX_QUERY_BYTES: Final = 32 * 1024
_CLOSED: Final = "this connection has been closed"
_CHANGE_HINT: Final = "it may have taken effect: check, or repeat it with the same idempotency_key"
_READ_HINT: Final = (
    "the daemon does not answer, nothing was changed: see `understudy status` and `understudy logs`"
)
_JSON: Final = {"content-type": "application/json"}
_ID: Final = re.compile(r"[a-z0-9_]{3,64}")


class Transport:
    """Sends requests to one daemon and raises its errors; created by `connect()`."""

    def __init__(self, http: HttpClient, address: Address) -> None:
        self._http = http
        self.address = address
        self.is_closed = False
        # What ends when the block of `connect()` does.
        self._waits: set[TimeLimit] = set()
        # The daemon's version of the program, once it has said so.
        self.daemon_version: str | None = None

    @property
    def display_name(self) -> str:
        """The daemon's address as shown to people."""
        return self.address.display_name

    def close(self) -> None:
        """End what waits and refuse more, because the block of `connect()` has ended."""
        self.is_closed = True
        for wait in list(self._waits):
            wait.cancel()

    @contextmanager
    def until_closed(self, limit: AbstractContextManager[TimeLimit | None]) -> Iterator[None]:
        """End the block at its limit, or when the connection is closed."""
        with limit as wait:
            if wait is not None:
                self._waits.add(wait)
            try:
                yield
            finally:
                if wait is not None:
                    self._waits.discard(wait)

    async def request(
        self,
        kind: type[T],
        method: Method,
        path: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout_seconds: float = QUICK_SECONDS,
    ) -> T:
        """Send a request and return the answer as a `kind`; raise the error in the answer.

        Raise `NoDaemon`, `DaemonBusy` or `AnswerLost` if there is no answer.
        """
        content = await self.request_bytes(method, path, arguments, timeout_seconds=timeout_seconds)
        try:
            return decode_light(kind, parse_json(content))
        except (DecodeError, orjson.JSONDecodeError) as problem:
            raise AnswerLost(
                f"cannot decode the server's answer: {problem}",
                hint="compare its version with `understudy version`",
            ) from problem

    async def request_bytes(
        self,
        method: Method,
        path: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout_seconds: float = QUICK_SECONDS,
    ) -> bytes:
        """Send a request and return the bytes of its answer; raise as `request` does.

        `arguments` are sent in the body, or in the query of a GET.
        """
        self.refuse_if_closed()
        request = _http_request(method, path, arguments or {})
        with self.until_closed(self._http.time_limit(timeout_seconds)):
            response = await self._send(request)
            if response.status >= _ERRORS:
                raise self._error(response.content, response.status)
            return response.content
        if self.is_closed:
            raise self.lost_error(method)
        raise AnswerLost(
            f"no answer from {self.display_name} within {timeout_seconds:g} seconds",
            hint=_READ_HINT if method == "GET" else _CHANGE_HINT,
        )

    async def _send(self, request: HttpRequest) -> HttpResponse:
        try:
            try:
                return await self._http.request(request)
            except ConnectionBroken:
                if request.method != "GET" or self.is_closed:
                    raise
            return await self._http.request(request)
        except ListenQueueFull:
            raise self.daemon_busy_error() from None
        except Unreachable:
            # The cause, a refused or missing socket, says no more than the error.
            raise self.no_daemon_error() from None
        except ConnectionBroken as error:
            raise self.lost_error(request.method) from error

    async def open_stream(
        self, path: str, query: Mapping[str, Any], headers: Mapping[str, str]
    ) -> HttpStream:
        """Return the stream of a GET when its response has begun; raise as `request` does.

        Reading it may raise `ConnectionBroken`. The caller closes it.
        """
        from .stream import open_stream  # noqa: PLC0415 - it needs trio

        self.refuse_if_closed()
        try:
            stream = await open_stream(self.address, path, encode_query(query), headers)
        except ListenQueueFull:
            raise self.daemon_busy_error() from None
        except Unreachable:
            raise self.no_daemon_error() from None
        except ConnectionBroken:
            raise self.lost_error("GET") from None
        if stream.status < _ERRORS:
            return stream
        try:
            raise self._error(await stream.read_error(), stream.status)
        except ConnectionBroken:
            raise self.lost_error("GET") from None
        finally:
            stream.close()

    def _error(self, content: bytes, status: int) -> SupervisorError:
        """Return the error of an answer; an unknown route is one of a daemon of another version."""
        error = decode_error(content, status=status)
        if error.code != _NO_SUCH_ROUTE:
            return error
        known = "" if self.daemon_version is None else f" (version {self.daemon_version})"
        return AnswerLost(
            f"the daemon on {self.display_name}{known} does not know this request",
            hint="restart it with the version of this client: `understudy down`, then"
            " `understudy serve --detach`",
        )

    def refuse_if_closed(self) -> None:
        """Raise `NoDaemon` if the block of `connect()` has ended."""
        if self.is_closed:
            raise NoDaemon(_CLOSED, hint="use it inside the block of connect()")

    def no_daemon_error(self) -> NoDaemon:
        """Return the error for an address where no daemon listens."""
        return NoDaemon(
            f"no daemon listens on {self.display_name}", hint="start one with `understudy serve`"
        )

    def daemon_busy_error(self) -> DaemonBusy:
        """Return the error for a daemon whose listen queue is full."""
        return DaemonBusy(
            f"the daemon on {self.display_name} accepts no more connections at present",
            hint="nothing has happened: try again in a moment, with fewer at once",
        )

    def lost_error(self, method: Method) -> AnswerLost | NoDaemon:
        """Return the error for a connection that ended after the request was sent."""
        if self.is_closed and method == "GET":
            return NoDaemon(_CLOSED, hint="use it inside the block of connect()")
        if self.is_closed:
            return AnswerLost(f"{_CLOSED} before the answer", hint=_CHANGE_HINT)
        return AnswerLost(
            f"the connection to {self.display_name} broke before the answer",
            hint=_READ_HINT if method == "GET" else _CHANGE_HINT,
        )


def _http_request(method: Method, path: str, arguments: Mapping[str, Any]) -> HttpRequest:
    if method == "GET":
        query = urlencode(encode_query(arguments))
        if len(query) > _MAX_QUERY_BYTES:
            raise ConfigError(
                f"the arguments have {len(query)} bytes of {_MAX_QUERY_BYTES} allowed in a query",
                hint="make them shorter",
            )
        return HttpRequest(method, f"/{path}?{query}" if query else f"/{path}", {})
    content = encode_body(arguments) if method in ("POST", "PATCH") else None
    return HttpRequest(method, f"/{path}", {} if content is None else _JSON, content)


def decode_error(content: bytes, *, status: int) -> SupervisorError:
    """Return the error described by an error response."""
    try:
        problem: object = orjson.loads(content)
    except orjson.JSONDecodeError:
        problem = None
    return error_of(problem, status=status)


def is_id(text: object) -> bool:
    """Return True if the text has the form of an id; otherwise no request is necessary."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def encode_query(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments as text for a query; None is left out."""
    return {
        name: _query_value(name, value) for name, value in arguments.items() if value is not None
    }


def _query_value(name: str, value: Any) -> str:  # noqa: ANN401 - arguments have many types
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        _check_finite(name, value)
        return repr(value)
    return str(value)


def encode_body(arguments: Mapping[str, Any]) -> bytes:
    """Return the arguments as JSON; raise `ConfigError` for values that JSON cannot express."""
    for name, value in arguments.items():
        _check_finite(name, value)
    try:
        return encode(dict(arguments))
    except (TypeError, orjson.JSONEncodeError, UnicodeEncodeError) as error:
        raise ConfigError(
            f"the arguments cannot be sent: {error}", hint="give plain text, numbers and lists"
        ) from error


def _check_finite(name: str, value: Any) -> None:  # noqa: ANN401 - arguments have many types
    # JSON cannot express inf and nan, and null would mean something else.
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{name} is {value}", hint="give a finite number")
    if attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            _check_finite(f"{name}.{field.name}", getattr(value, field.name))
