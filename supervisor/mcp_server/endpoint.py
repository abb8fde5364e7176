"""`POST /mcp`: the server over HTTP.

Rule 1: one message in a request, its reply as JSON in the response. There is no stream and no
        session: this server sends nothing that was not asked for.
Rule 2: what is wrong with the request is a problem document; what is wrong with the message in it
        is an error of JSON-RPC, which clients of the protocol understand.
Rule 3: a call is cancelled when its client disconnects. That is how a client cancels a call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import attrs
import orjson
from starlette.types import ASGIApp, Receive, Scope, Send
from trio_util import move_on_when

from supervisor.core.errors import SupervisorError
from supervisor.decode import DecodeError
from supervisor.http_server.body import ClientDisconnected, RequestBody, header, read_body
from supervisor.http_server.gate import CHALLENGE
from supervisor.http_server.problems import (
    RequestRefused,
    problem_of,
    problem_of_invalid_fields,
)
from supervisor.http_server.response import Header, Response, problem_response

from .caller import Caller
from .protocol import PARSE_ERROR, ProtocolError
from .replies import Reply, error_reply
from .server import McpServer

# Returns the caller of a request, or raises RequestRefused.
Authenticate: TypeAlias = Callable[[Scope], Caller]

_JSON: Final = frozenset({"application/json", "application/*", "*/*"})


def make_endpoint(server: McpServer, authenticate: Authenticate) -> ASGIApp:
    """Return the app for the path of the protocol; `authenticate` says who calls."""
    return _Endpoint(server, authenticate)


@attrs.frozen
class _Endpoint:
    _server: McpServer
    _authenticate: Authenticate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; send nothing if the client has disconnected."""
        incoming = RequestBody(receive)
        try:
            response = await self._answer(scope, incoming)
        except ClientDisconnected:
            return
        except (SupervisorError, DecodeError) as error:
            response = _refusal(error)
            await incoming.discard()
        await response.send(scope, send)

    async def _answer(self, scope: Scope, incoming: RequestBody) -> Response:
        _check_method(scope)
        caller = self._authenticate(scope)
        _check_accept(scope)
        try:
            message = await read_body(scope, incoming)
        except RequestRefused as refusal:
            if refusal.code != "bad_json":
                raise
            await incoming.discard()
            return _response(error_reply(ProtocolError(PARSE_ERROR, str(refusal.args[0]))))
        async with move_on_when(incoming.wait_disconnected):
            return _response(await self._server.answer(message, caller, headers=scope["headers"]))
        raise ClientDisconnected


def _response(reply: Reply) -> Response:
    return Response(reply.status, b"" if reply.body is None else orjson.dumps(reply.body))


def _refusal(error: SupervisorError | DecodeError) -> Response:
    if isinstance(error, DecodeError):
        return problem_response(problem_of_invalid_fields(error))
    headers: list[Header] = []
    if isinstance(error, RequestRefused) and error.code == "unauthorized":
        headers.append(CHALLENGE)
    if isinstance(error, RequestRefused) and error.code == "method_not_allowed":
        headers.append((b"allow", b"POST"))
    return problem_response(problem_of(error), headers)


def _check_method(scope: Scope) -> None:
    if scope["method"] != "POST":
        raise RequestRefused(
            "method_not_allowed",
            f"{scope['method']} is not allowed here: there is no stream and no session",
            hint="use POST",
        )


def _check_accept(scope: Scope) -> None:
    """Raise RequestRefused if the client does not take JSON; no header means that it does."""
    given = header(scope, b"accept")
    if given is None:
        return
    kinds = {part.partition(";")[0].strip().lower() for part in given.split(",")}
    if not kinds & _JSON:
        raise RequestRefused(
            "not_acceptable",
            "the client does not accept application/json",
            hint="send accept: application/json, text/event-stream",
        )
