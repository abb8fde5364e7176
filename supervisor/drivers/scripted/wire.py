"""JSON-RPC 2.0, one message per line: tolerant parser, exact encoder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
UNKNOWN_METHOD: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REQUEST_CANCELLED: Final = -32800
AUTH_REQUIRED: Final = -32000
NOT_FOUND: Final = -32002

MessageId: TypeAlias = int | str | None
Json: TypeAlias = dict[str, Any]


class ErrorReply(Exception):
    """Raised to answer a request with an error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class ClientRequest(NamedTuple):
    """A request of the client."""

    id: MessageId
    method: str
    params: Json


class ClientNotification(NamedTuple):
    """A notification of the client."""

    method: str
    params: Json


class ClientReply(NamedTuple):
    """An answer to a request of ours; `error` is None on success."""

    id: MessageId
    result: Any
    error: Any


class MalformedMessage(NamedTuple):
    """A line that is not a valid message, with the error to answer."""

    id: MessageId
    code: int
    text: str


WireMessage: TypeAlias = ClientRequest | ClientNotification | ClientReply | MalformedMessage


def parse_line(line: bytes) -> WireMessage:
    """Return the message of a line; a `MalformedMessage` if it is not valid."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return MalformedMessage(None, PARSE_ERROR, "the line is not JSON")
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return MalformedMessage(None, INVALID_REQUEST, "the message is not JSON-RPC 2.0")
    message_id = message.get("id")
    if isinstance(message_id, bool) or not isinstance(message_id, int | str | None):
        return MalformedMessage(None, INVALID_REQUEST, "id must be a number or a string")
    if "method" in message:
        return _parse_call(message_id, message)
    if "result" in message or "error" in message:
        return ClientReply(message_id, message.get("result"), message.get("error"))
    return MalformedMessage(message_id, INVALID_REQUEST, "the message has no method and no result")


def _parse_call(message_id: MessageId, message: Json) -> WireMessage:
    method, params = message["method"], message.get("params", {})
    if not isinstance(method, str):
        return MalformedMessage(message_id, INVALID_REQUEST, "method must be a string")
    if not isinstance(params, dict):
        return MalformedMessage(message_id, INVALID_PARAMS, "params must be an object")
    if "id" in message:
        return ClientRequest(message_id, method, params)
    return ClientNotification(method, params)


def encode_line(message: Mapping[str, Any]) -> bytes:
    """Return the encoded message with its newline."""
    message = {"jsonrpc": "2.0", **message}
    try:
        # Not in ASCII, so that a client that splits lines at other separators is found out.
        return (_ENCODE_UTF8(message) + "\n").encode()
    except UnicodeEncodeError:  # a lone surrogate, which must be escaped
        return (_ENCODE_ASCII(message) + "\n").encode()


_ENCODE_UTF8: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_ENCODE_ASCII: Final = json.JSONEncoder(separators=(",", ":")).encode
