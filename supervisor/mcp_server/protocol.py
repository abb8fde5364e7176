"""One message of the Model Context Protocol, as received: decoded, or refused.

Rule 1: pure. No transport, no task, no clock; an HTTP request and a line of a pipe are alike here.
Rule 2: a message is an object. Batches were removed from the protocol, and are refused.
Rule 3: a refusal has the id of the request, if that is valid, so that its caller learns of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import attrs

from supervisor.json_rpc.rpc_messages import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND

# Revisions that begin with `initialize`. For tools alone the four are one wire form: a newer one
# adds fields that a client of an older one ignores.
HANDSHAKE_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
NEWEST_HANDSHAKE_REVISION: Final = HANDSHAKE_REVISIONS[-1]
# Revisions whose requests stand alone: each names its revision.
STATELESS_REVISIONS: Final = ("2026-07-28",)

PARSE_ERROR: Final = -32700
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_REVISION: Final = -32022

RequestId: TypeAlias = str | int


class ProtocolError(Exception):
    """A message that is refused with an error of JSON-RPC.

    `request_id` is None where the message has no valid id.
    """

    def __init__(
        self,
        code: int,
        message: str,
        *,
        request_id: RequestId | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.request_id = request_id
        self.data = data


@attrs.frozen
class Request:
    """A request; `params` is empty if the message has none."""

    id: RequestId
    method: str
    params: Mapping[str, Any]


@attrs.frozen
class Notification:
    """A notification: it is acknowledged, and has no reply."""

    method: str
    params: Mapping[str, Any]


Message: TypeAlias = Request | Notification


def decode(message: object) -> Message:
    """Return the request or notification; raise ProtocolError."""
    if isinstance(message, list):
        raise ProtocolError(INVALID_REQUEST, "batches are not supported: send one message each")
    if not isinstance(message, dict):
        raise ProtocolError(INVALID_REQUEST, "a message is a JSON object")
    given_id = message.get("id")
    request_id = given_id if _is_request_id(given_id) else None
    if message.get("jsonrpc") != "2.0":
        raise ProtocolError(INVALID_REQUEST, 'jsonrpc is not "2.0"', request_id=request_id)
    method = message.get("method")
    if not isinstance(method, str):
        is_response = "result" in message or "error" in message
        problem = "this server sends no requests" if is_response else "method is not a string"
        raise ProtocolError(INVALID_REQUEST, problem, request_id=request_id)
    params = message.get("params")
    if params is not None and not isinstance(params, dict):
        raise ProtocolError(INVALID_REQUEST, "params is not an object", request_id=request_id)
    if "id" not in message:
        return Notification(method, params or {})
    if request_id is None:
        raise ProtocolError(INVALID_REQUEST, "id is neither a string nor an integer")
    return Request(request_id, method, params or {})


def _is_request_id(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def parameter(request: Request, name: str, kind: type, *, required: bool) -> Any:  # noqa: ANN401 - any JSON
    """Return a parameter, None if it is absent or null and not required; raise ProtocolError."""
    value = request.params.get(name)
    if value is None and not required:
        return None
    if not isinstance(value, kind):
        wanted = "a string" if kind is str else "an object"
        raise invalid_params(request, f"params.{name} is not {wanted}")
    return value


def invalid_params(request: Request, problem: str) -> ProtocolError:
    """Return the refusal of a request whose parameters are invalid."""
    return ProtocolError(INVALID_PARAMS, problem, request_id=request.id)


def unknown_method(request: Request) -> ProtocolError:
    """Return the refusal of a method that this server does not have."""
    return ProtocolError(
        METHOD_NOT_FOUND, "unknown method: this server has tools only", request_id=request.id
    )
