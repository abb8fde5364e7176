"""The shape of replies, in both revisions.

Rule 1: a result of revision 2026-07-28 has a result type and names the server; a result of an
        older revision has neither.
Rule 2: the published output schema admits an error too. Structured content must fit the schema,
        and clients check that of errors as well.
Rule 3: lists are private to a credential, because its scope decides which tools it may use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

import attrs

from supervisor.json_rpc.rpc_messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
)

from .protocol import (
    HEADER_MISMATCH,
    PARSE_ERROR,
    STATELESS_REVISIONS,
    UNSUPPORTED_REVISION,
    ProtocolError,
    RequestId,
)
from .tool import ToolAnswer, ToolDescription

_NAME: Final = "understudy"
_TITLE: Final = "Understudy"
_META_SERVER: Final = "io.modelcontextprotocol/serverInfo"
# The tools change with the version of the program and the scope of the credential only.
_LIST_TTL_MS: Final = 60_000
_CAPABILITIES: Final[Mapping[str, Any]] = {"tools": {}}

# Errors of a message. A request of an older revision that was understood is answered with 200.
_MALFORMED: Final[Mapping[int, int]] = {
    PARSE_ERROR: HTTPStatus.BAD_REQUEST,
    INVALID_REQUEST: HTTPStatus.BAD_REQUEST,
    HEADER_MISMATCH: HTTPStatus.BAD_REQUEST,
    UNSUPPORTED_REVISION: HTTPStatus.BAD_REQUEST,
    INTERNAL_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
}
_STATELESS: Final[Mapping[int, int]] = {
    **_MALFORMED,
    INVALID_PARAMS: HTTPStatus.BAD_REQUEST,
    METHOD_NOT_FOUND: HTTPStatus.NOT_FOUND,
}

ERROR_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "An error: what happened, what to do, and whether to try again.",
    "properties": {
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "hint": {"type": "string"},
        "retry": {"enum": ["never", "later", "after"]},
        "after_seconds": {"type": "number"},
        "limit": {"type": "string"},
        "used": {"type": "number"},
        "allowed": {"type": "number"},
    },
    "required": ["code", "detail", "hint", "retry"],
    "additionalProperties": False,
}


@attrs.frozen
class Reply:
    """A reply: the body, None for an acknowledged notification, and its status over HTTP."""

    status: int
    body: Mapping[str, Any] | None = None


ACKNOWLEDGED: Final = Reply(HTTPStatus.ACCEPTED)


@attrs.frozen
class Results:
    """Results of one version of this program."""

    version: str

    @property
    def _server(self) -> dict[str, str]:
        return {"name": _NAME, "title": _TITLE, "version": self.version}

    def initialized(self, revision: str, instructions: str) -> dict[str, Any]:
        """Return the result of `initialize`."""
        return {
            "protocolVersion": revision,
            "capabilities": _CAPABILITIES,
            "serverInfo": self._server,
            "instructions": instructions,
        }

    def discovered(self, instructions: str) -> dict[str, Any]:
        """Return the result of `server/discover`."""
        return {
            "supportedVersions": list(STATELESS_REVISIONS),
            "capabilities": _CAPABILITIES,
            "instructions": instructions,
            **_CACHING,
        }

    def stateless(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return a result with what revision 2026-07-28 adds to every one."""
        return {**result, "resultType": "complete", "_meta": {_META_SERVER: self._server}}


_CACHING: Final = {"ttlMs": _LIST_TTL_MS, "cacheScope": "private"}


def listed(tools: Iterable[ToolDescription], *, is_stateless: bool) -> dict[str, Any]:
    """Return the result of `tools/list`."""
    result: dict[str, Any] = {"tools": [_tool(one) for one in tools]}
    return {**result, **_CACHING} if is_stateless else result


def called(answer: ToolAnswer) -> dict[str, Any]:
    """Return the result of `tools/call`."""
    return {
        "content": [{"type": "text", "text": answer.text}],
        "structuredContent": answer.structured,
        "isError": answer.is_error,
    }


def result_reply(request_id: RequestId, result: Mapping[str, Any]) -> Reply:
    """Return the reply with a result."""
    return Reply(HTTPStatus.OK, {"jsonrpc": "2.0", "id": request_id, "result": result})


def error_reply(error: ProtocolError, *, is_stateless: bool = False) -> Reply:
    """Return the reply with an error."""
    statuses = _STATELESS if is_stateless else _MALFORMED
    described: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        described["data"] = error.data
    return Reply(
        statuses.get(error.code, HTTPStatus.OK),
        {"jsonrpc": "2.0", "id": error.request_id, "error": described},
    )


def _tool(tool: ToolDescription) -> dict[str, Any]:
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": _with_error(tool.output_schema),
        "annotations": tool.annotations,
    }


def _with_error(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a result or an error; definitions stay at the root, where refs look."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    union: dict[str, Any] = {"type": "object", "anyOf": [inner, ERROR_SCHEMA]}
    if "$defs" in schema:
        union["$defs"] = schema["$defs"]
    return union
