"""Which revision a message follows, and whether its headers agree with its body.

Revision 2026-07-28 has no handshake: each request has its revision and the capabilities of the
client in `_meta`, and repeats revision, method and tool in headers, so that a proxy can route it
without reading the body. A server that acted on a body whose headers say otherwise would do what
the proxy has not allowed; hence the comparison.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from .protocol import (
    HANDSHAKE_REVISIONS,
    HEADER_MISMATCH,
    STATELESS_REVISIONS,
    UNSUPPORTED_REVISION,
    Message,
    Notification,
    ProtocolError,
    Request,
    RequestId,
    invalid_params,
)

META_REVISION: Final = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"

_REVISION_HEADER: Final = "mcp-protocol-version"
_METHOD_HEADER: Final = "mcp-method"
_NAME_HEADER: Final = "mcp-name"
# A value that is not plain ASCII is sent in this form.
_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=")

RawHeaders: TypeAlias = Iterable[tuple[bytes, bytes]]


@attrs.frozen
class RoutingHeaders:
    """The headers of the protocol; None where one is absent."""

    revision: str | None = None
    method: str | None = None
    name: str | None = None


def routing_headers(raw: RawHeaders, request_id: RequestId | None = None) -> RoutingHeaders:
    """Return the headers of the protocol; raise ProtocolError if one occurs twice."""
    found: dict[str, str] = {}
    for key, value in raw:
        name = key.decode("latin-1").lower()
        if name not in (_REVISION_HEADER, _METHOD_HEADER, _NAME_HEADER):
            continue
        if name in found:
            raise _mismatch(f"header {name} given twice", request_id)
        found[name] = value.decode("latin-1").strip()
    return RoutingHeaders(
        found.get(_REVISION_HEADER), found.get(_METHOD_HEADER), found.get(_NAME_HEADER)
    )


def is_stateless(message: Message, headers: RoutingHeaders | None) -> bool:
    """Return True if the message follows a revision without handshake, known or unknown.

    Without headers, which is a message that did not come over HTTP, `_meta` alone decides.
    """
    named = None if headers is None else headers.revision
    is_newer = named is not None and named not in HANDSHAKE_REVISIONS
    return is_newer or META_REVISION in _meta(message)


def check_stateless(message: Message, headers: RoutingHeaders | None) -> None:
    """Raise ProtocolError unless the message says all that revision 2026-07-28 demands."""
    if isinstance(message, Notification):
        if headers is not None and headers.revision is not None:
            _check_revision(headers.revision, None)
        return
    meta = _meta(message)
    missing = [name for name in (META_REVISION, META_CAPABILITIES) if name not in meta]
    if missing:
        raise invalid_params(message, f"params._meta has no {' and no '.join(missing)}")
    if headers is not None:
        _check_headers(message, meta[META_REVISION], headers)
    if not isinstance(meta[META_REVISION], str):
        raise invalid_params(message, f"params._meta: {META_REVISION} is not a string")
    if not isinstance(meta[META_CAPABILITIES], dict):
        raise invalid_params(message, f"params._meta: {META_CAPABILITIES} is not an object")
    _check_revision(meta[META_REVISION], message.id)


def _meta(message: Message) -> Mapping[str, Any]:
    meta = message.params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def _check_headers(request: Request, revision: object, headers: RoutingHeaders) -> None:
    if headers.revision is None or headers.revision != revision:
        raise _mismatch("header Mcp-Protocol-Version differs from params._meta", request.id)
    if headers.method != request.method:
        raise _mismatch("header Mcp-Method differs from method", request.id)
    name = request.params.get("name")
    if request.method == "tools/call" and isinstance(name, str) and _decoded(headers.name) != name:
        raise _mismatch("header Mcp-Name differs from params.name", request.id)


def _check_revision(revision: str, request_id: RequestId | None) -> None:
    if revision not in STATELESS_REVISIONS:
        raise ProtocolError(
            UNSUPPORTED_REVISION,
            "unsupported protocol version",
            request_id=request_id,
            data={"supported": list(STATELESS_REVISIONS), "requested": revision},
        )


def _mismatch(problem: str, request_id: RequestId | None) -> ProtocolError:
    return ProtocolError(HEADER_MISMATCH, problem, request_id=request_id)


def _decoded(value: str | None) -> str | None:
    """Return the text of a header value; None if its encoded form is malformed."""
    match = None if value is None else _ENCODED.fullmatch(value)
    if match is None:
        return value
    try:
        data = base64.b64decode(match[1], validate=True)
        # Two spellings of one text would let a proxy read another one than we do.
        return data.decode() if base64.b64encode(data).decode() == match[1] else None
    except ValueError:  # not Base64, not ASCII, or not UTF-8
        return None
