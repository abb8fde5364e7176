"""The server: one message in, one reply out, in both revisions.

Rule 1: nothing is remembered between two messages, so a client may reconnect at any time, and one
        connection may carry the messages of several clients.
Rule 2: an error that a model can act on is a result; an error of JSON-RPC means that the message
        was wrong, or that this program has a bug.
Rule 3: a call ends when its task is cancelled, which the transport does when the client is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Any, Final, TypeAlias

import attrs
import trio

from supervisor.http_server.problems import DRAINING_RETRY_SECONDS, RequestRefused
from supervisor.json_rpc.rpc_messages import INTERNAL_ERROR

from .caller import Caller
from .protocol import (
    HANDSHAKE_REVISIONS,
    NEWEST_HANDSHAKE_REVISION,
    Notification,
    ProtocolError,
    Request,
    decode,
    invalid_params,
    parameter,
    unknown_method,
)
from .replies import (
    ACKNOWLEDGED,
    Reply,
    Results,
    called,
    error_reply,
    listed,
    result_reply,
)
from .routing import RawHeaders, check_stateless, is_stateless, routing_headers
from .tool import ToolAnswer, Toolbox

logger = logging.getLogger("supervisor.mcp")

# Yields a scope that is cancelled when calls must end, and raises RequestRefused after that.
UntilClosed: TypeAlias = Callable[[], AbstractAsyncContextManager[trio.CancelScope]]


@attrs.frozen
class McpServer:
    """A server of tools.

    `version` is that of the program. `until_closed` bounds each call by the time in which the
    process answers; without it a call ends by itself, or when it is cancelled.
    """

    toolbox: Toolbox
    version: str
    until_closed: UntilClosed = attrs.field(default=lambda: nullcontext(trio.CancelScope()))

    async def answer(
        self, message: object, caller: Caller, *, headers: RawHeaders | None = None
    ) -> Reply:
        """Return the reply to a decoded JSON value; `headers` are those of its HTTP request."""
        await trio.lowlevel.checkpoint()
        stateless = False
        try:
            decoded = decode(message)
            request_id = decoded.id if isinstance(decoded, Request) else None
            routing = None if headers is None else routing_headers(headers, request_id)
            stateless = is_stateless(decoded, routing)
            if stateless:
                check_stateless(decoded, routing)
            if isinstance(decoded, Notification):
                return ACKNOWLEDGED
            result: Mapping[str, Any]
            if decoded.method == "tools/call":
                result = called(await self._call(decoded, caller))
            else:
                result = self._result(decoded, caller, stateless=stateless)
        except ProtocolError as error:
            return error_reply(error, is_stateless=stateless)
        if stateless:
            result = Results(self.version).stateless(result)
        return result_reply(decoded.id, result)

    def _result(self, request: Request, caller: Caller, *, stateless: bool) -> Mapping[str, Any]:
        """Return the result of every method but `tools/call`."""
        match request.method:
            case "tools/list":
                # All tools fit on one page, so no cursor of ours exists.
                if parameter(request, "cursor", str, required=False) is not None:
                    raise invalid_params(request, "unknown cursor: the list has one page")
                return listed(self.toolbox.tools_for(caller), is_stateless=stateless)
            case "server/discover" if stateless:
                return Results(self.version).discovered(self.toolbox.instructions_for(caller))
            case "initialize" if not stateless:
                return self._initialize(request, caller)
            case "ping" if not stateless:
                return {}
        raise unknown_method(request)

    def _initialize(self, request: Request, caller: Caller) -> Mapping[str, Any]:
        """Agree on a revision: that of the client if we have it, else our newest one."""
        wanted = parameter(request, "protocolVersion", str, required=True)
        parameter(request, "capabilities", dict, required=True)
        client = parameter(request, "clientInfo", dict, required=True)
        if not all(isinstance(client.get(name), str) for name in ("name", "version")):
            raise invalid_params(request, "params.clientInfo has no name or no version")
        revision = wanted if wanted in HANDSHAKE_REVISIONS else NEWEST_HANDSHAKE_REVISION
        return Results(self.version).initialized(revision, self.toolbox.instructions_for(caller))

    async def _call(self, request: Request, caller: Caller) -> ToolAnswer:
        name = parameter(request, "name", str, required=True)
        arguments = parameter(request, "arguments", dict, required=False) or {}
        answer: ToolAnswer | ProtocolError = _CLOSED
        with suppress(RequestRefused):
            async with self.until_closed():
                # Errors do not leave the block, because its nursery would wrap them in groups.
                answer = await self._try_call(request, name, arguments, caller)
        if isinstance(answer, ProtocolError):
            raise answer
        return answer

    async def _try_call(
        self, request: Request, name: str, arguments: Mapping[str, Any], caller: Caller
    ) -> ToolAnswer | ProtocolError:
        try:
            return await self.toolbox.call(name, arguments, caller)
        except KeyError:
            if any(one.name == name for one in self.toolbox.tools_for(caller)):
                logger.exception("tool call failed: %s", name)
                return _internal_error(request)
            return invalid_params(request, "unknown tool: tools/list has those that may be called")
        except Exception:
            # The boundary of a call: a bug in a tool fails this call only.
            logger.exception("tool call failed: %s", name)
            return _internal_error(request)


_CLOSED: Final = ToolAnswer(
    structured={
        "code": "draining",
        "detail": "the server is shutting down",
        "hint": "call again in a moment",
        "retry": "after",
        "after_seconds": DRAINING_RETRY_SECONDS,
    },
    text="The server is shutting down; call again in a moment.",
    is_error=True,
)


def _internal_error(request: Request) -> ProtocolError:
    return ProtocolError(
        INTERNAL_ERROR,
        "internal error in the server: this is a bug in understudy, please report it",
        request_id=request.id,
    )
