"""The ASGI app: every operation at its path, behind one gate.

A `Resource` is one path: it reads the request, calls the operation and writes the answer.

Rule 1: every typed error becomes a problem document. Only a bug is a 500, and only a bug is
        logged with a traceback.
"""

from __future__ import annotations

import errno
import functools
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

import attrs
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from supervisor.core.errors import IdempotencyConflict, SessionNotActive, SupervisorError
from supervisor.decode import DecodeError, InvalidField
from supervisor.handles.shapes import Page
from supervisor.handles.supervisor import Supervisor
from supervisor.http_server.body import (
    ClientDisconnected,
    RequestBody,
    announces_body,
    header,
    read_body,
)
from supervisor.http_server.gate import Gate, Gated
from supervisor.http_server.problems import (
    DRAINING_RETRY_SECONDS,
    RequestRefused,
    problem_of,
    problem_of_invalid_fields,
)
from supervisor.http_server.response import HTML_POLICY, Response, problem_response
from supervisor.mcp_server.caller import Caller
from supervisor.mcp_server.endpoint import make_endpoint
from supervisor.mcp_server.server import McpServer
from supervisor.mcp_server.tool import Toolbox
from supervisor.store.pending import StoreState

from .backup_folder import BackupFolder
from .context import OperationContext
from .drain import DrainState
from .encode import encode, encode_page
from .openapi import openapi_document
from .operation import (
    ID_PATTERN,
    PATH_PATTERNS,
    DeferredResponse,
    NotFound,
    Operation,
    Result,
    StreamResponse,
    TextResponse,
)
from .params import NO_PARAMS, OperationCall
from .routes import OPERATIONS

# The headers that operations receive.
_HEADERS: Final = (b"last-event-id",)
_MAX_QUERY_NAMES: Final = 64
_NOT_FOUND: Final = 404
_UNAVAILABLE: Final = 503


class Resource:
    """The operations at one path, by method."""

    def __init__(self, context: OperationContext, operations: Iterable[Operation]) -> None:
        self._context = context
        self._operations: Mapping[str, Operation] = {one.method: one for one in operations}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; send nothing if the client has disconnected."""
        incoming = RequestBody(receive)
        try:
            operation = self._operation(scope)
            call = await self._read(operation, scope, incoming)
            answer = await _call(operation, call)
            if isinstance(answer, StreamResponse):
                await answer(scope, incoming, send)
                return
            response = await _response(operation, answer)
        except ClientDisconnected:
            return
        except (SupervisorError, NotFound, DecodeError) as error:
            response = self._refusal(error)
            await incoming.discard()
        await response.send(scope, send)

    def _operation(self, scope: Scope) -> Operation:
        for name, value in scope["path_params"].items():
            if re.fullmatch(PATH_PATTERNS.get(name, ID_PATTERN), value) is None:
                raise no_such_route()
        method = scope["method"]
        found = self._operations.get("GET" if method == "HEAD" else method)
        if found is None or (found.is_stream and method == "HEAD"):
            raise RequestRefused(
                "method_not_allowed",
                f"{method} is not allowed here",
                hint=f"use {' or '.join(self._operations)}",
            )
        return found

    async def _read(
        self, operation: Operation, scope: Scope, incoming: RequestBody
    ) -> OperationCall:
        if operation.has_body:
            body = await read_body(scope, incoming)
            _read_query(operation, scope)  # refuses any query: arguments are in the body
            given = operation.params.decode_body(_with_idempotency_key(operation, scope, body))
        else:
            if announces_body(scope):
                await incoming.discard()  # no operation without a body reads it
            given = _read_query(operation, scope)
        if operation.unix_only and not self._context.is_unix_socket:
            raise RequestRefused(
                "unix_socket_only",
                "this operation is served on the unix socket only",
                hint="use the command `understudy`, or connect() without an address",
            )
        return OperationCall(
            context=self._context,
            path_ids=scope["path_params"],
            arguments=given,
            headers={
                name.decode(): value
                for name in _HEADERS
                if (value := header(scope, name)) is not None
            },
            wait_disconnected=incoming.wait_disconnected,
        )

    def _refusal(self, error: SupervisorError | NotFound | DecodeError) -> Response:
        if isinstance(error, DecodeError):
            return problem_response(problem_of_invalid_fields(error))
        if isinstance(error, NotFound):
            return problem_response(problem_of(error.error, status=_NOT_FOUND))
        # While draining, a session that is not active is temporary: 503 instead of 409.
        is_draining = self._context.drain_state.is_draining and type(error) is SessionNotActive
        problem = problem_of(error)
        if is_draining:
            problem = attrs.evolve(
                problem, status=_UNAVAILABLE, retry_after_seconds=DRAINING_RETRY_SECONDS
            )
        if problem.code != "method_not_allowed":
            return problem_response(problem)
        return problem_response(problem, [(b"allow", ", ".join(self._operations).encode())])


def _read_query(operation: Operation, scope: Scope) -> dict[str, Any]:
    """Return the arguments in the query; raise DecodeError."""
    params = NO_PARAMS if operation.has_body else operation.params
    text = scope.get("query_string", b"")
    if not text and not any(field.is_required for field in params.fields):
        return {}
    try:
        pairs = parse_qsl(
            text.decode("ascii"),
            keep_blank_values=True,
            encoding="utf-8",
            errors="strict",
            max_num_fields=_MAX_QUERY_NAMES,
        )
    except ValueError:
        fault = InvalidField(
            "?", "malformed query", "percent-encode it as UTF-8, with at most 64 names"
        )
        raise DecodeError((fault,)) from None
    return params.decode_query(pairs)


def _with_idempotency_key(operation: Operation, scope: Scope, given: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return the body with the idempotency key of the header, if there is one.

    Raise IdempotencyConflict if the body has another key, and DecodeError if the operation takes
    no key: a client that sends one relies on it.
    """
    key = header(scope, b"idempotency-key")
    if key is None or type(given) is not dict:
        return given
    if "idempotency_key" not in operation.params.names():
        raise DecodeError(
            (InvalidField("Idempotency-Key", "unknown header for this operation", "leave it out"),)
        )
    if not key.isascii() or not key.strip():
        raise DecodeError(
            (InvalidField("Idempotency-Key", "is not printable ASCII", "use ASCII characters"),)
        )
    if given.get("idempotency_key", key) not in (key, None):
        raise IdempotencyConflict(
            "the header Idempotency-Key and idempotency_key in the body differ",
            hint="give one of them, or the same in both",
        )
    return {**given, "idempotency_key": key}


def no_such_route() -> RequestRefused:
    """Return the error for an unknown path."""
    return RequestRefused(
        "no_such_route", "unknown path", hint="GET /v1/openapi.json lists all paths"
    )


async def _call(operation: Operation, call: OperationCall) -> Result:
    """Return the answer of an operation; after a refusal, raise DecodeError if a value is invalid.

    So an invalid value is answered with 422 and its path, whatever the operation refused first.
    """
    try:
        return await operation.handle(call)
    except (SupervisorError, NotFound, DecodeError):
        root = "$" if operation.has_body else "?"
        invalid = operation.params.invalid_values(call.arguments, root=root)
        if invalid is not None:
            raise invalid from None
        raise


async def _response(operation: Operation, answer: Any) -> Response:  # noqa: ANN401 - see Result
    status = operation.status
    if isinstance(answer, DeferredResponse):
        answer, status = answer.value, answer.status
    if answer is None:
        return Response(204)
    if isinstance(answer, TextResponse):
        policy = (HTML_POLICY,) if answer.media_type.startswith("text/html") else ()
        return Response(status, answer.content, answer.media_type, policy)
    if isinstance(answer, Page):
        return Response(status, await encode_page(answer.items, answer.next))
    return Response(status, encode(answer))


logger = logging.getLogger("supervisor.api")


def make_app(
    sup: Supervisor,
    *,
    gate: Gate,
    drain_state: DrainState,
    metrics: Callable[[], bytes] | None = None,
    store_state: Callable[[], StoreState] | None = None,
    backup_folder: Path | None = None,
    extra_operations: Iterable[Operation] = (),
    toolbox: Toolbox | None = None,
    version: str | None = None,
) -> ASGIApp:
    """Return an ASGI app over a supervisor, for trio.

    `gate` authenticates requests. `drain_state` says whether new work is accepted; several apps
    share one. `metrics` returns the body of `/metrics`, which is a 404 without it. `store_state`
    returns the state of the store without counting sessions. `backup_folder` is the one folder that
    backups are written to; without it they are a 404. `extra_operations` are those of the
    process around the app; they are documented and guarded like all others. `toolbox` has the
    tools of `/mcp`, which is a 404 without it.
    """
    known = version or installed_version("understudy")
    operations = (*OPERATIONS, *extra_operations)
    context = OperationContext(
        sup=sup,
        drain_state=drain_state,
        version=known,
        metrics=metrics,
        store_state=store_state,
        backups=None if backup_folder is None else BackupFolder(backup_folder),
        is_unix_socket=gate.is_unix_socket,
        document=functools.cache(functools.partial(openapi_document, operations, version=known)),
    )
    paths: dict[str, list[Operation]] = {}
    for operation in operations:
        paths.setdefault(operation.path, []).append(operation)
    routes = [Route(path, Resource(context, found)) for path, found in paths.items()]
    if toolbox is not None:
        server = McpServer(toolbox, known, drain_state.move_on_when_closed)
        routes.append(Route("/mcp", make_endpoint(server, lambda _: _OWNER)))
    router = Router(routes, redirect_slashes=False, default=_not_found)
    return Gated(ErrorBoundary(router), gate)


# Whoever passes the gate: the user of this process, or a program that has the token.
_OWNER: Final = Caller(name="owner", scope="all")


class ErrorBoundary:
    """Outermost handler: an exception that reaches it is a bug, logged and answered with 500.

    Only a lack of descriptors is not; it is answered with 503.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the app; answer for it if it raises before the response has started."""
        has_begun = False

        async def note_and_send(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        app = self._app if _is_plain_path(scope) else _not_found
        try:
            await app(scope, receive, note_and_send)
        except Exception as error:
            # Only the path is logged: a query may contain user text.
            request = f"{scope['method']} {scope['path']}"
            if isinstance(error, OSError) and error.errno in _NO_DESCRIPTORS:
                logger.error("request failed: %s: %s", request, error.strerror)  # noqa: TRY400 - not a bug
                refusal = _out_of_descriptors()
            else:
                logger.exception("request failed: %s", request)
                refusal = _internal_error()
            if not has_begun:
                await problem_response(problem_of(refusal)).send(scope, send)


# Of the process, and of the whole machine.
_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})

# Every path of ours matches. Escaped, hidden and relative path segments do not.
_PLAIN_PATH: Final = re.compile(rb"(/[A-Za-z0-9_.-]+)+")


def _is_plain_path(scope: Scope) -> bool:
    raw = scope.get("raw_path") or scope["path"].encode(errors="replace")
    return _PLAIN_PATH.fullmatch(raw) is not None


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    await RequestBody(receive).discard()
    await problem_response(problem_of(no_such_route())).send(scope, send)


def _out_of_descriptors() -> RequestRefused:
    return RequestRefused(
        "out_of_descriptors",
        "the server cannot open another file",
        hint="try again; if it stays so, raise its limit of descriptors (ulimit -n)",
    )


def _internal_error() -> RequestRefused:
    return RequestRefused(
        "internal_error",
        "internal error in the server",
        hint="this is a bug in understudy, please report it; the server log has the traceback",
    )
