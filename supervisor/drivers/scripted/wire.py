"""JSON-RPC 2.0, one message a line: read tolerantly, written exactly."""

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

Id: TypeAlias = int | str | None
Json: TypeAlias = dict[str, Any]


class Refusal(Exception):
    """A request is answered with this error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Request(NamedTuple):
    """Somebody wants an answer."""

    id: Id
    method: str
    params: Json


class Notification(NamedTuple):
    """Somebody says something, and that is all."""

    method: str
    params: Json


class Reply(NamedTuple):
    """An answer to a request of ours; `error` is None if there was none."""

    id: Id
    result: Any
    error: Any


class Malformed(NamedTuple):
    """No message; the answer that it gets."""

    id: Id
    code: int
    text: str


Message: TypeAlias = Request | Notification | Reply | Malformed


def read(line: bytes) -> Message:
    """What a line says; whatever it is, one of the four."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return Malformed(None, PARSE_ERROR, "this is no JSON")
    if not isinstance(said, dict) or said.get("jsonrpc") != "2.0":
        return Malformed(None, INVALID_REQUEST, "this is no JSON-RPC 2.0")
    name = said.get("id")
    if isinstance(name, bool) or not isinstance(name, int | str | None):
        return Malformed(None, INVALID_REQUEST, "an id is a number or a text")
    if "method" in said:
        return _read_call(name, said)
    if "result" in said or "error" in said:
        return Reply(name, said.get("result"), said.get("error"))
    return Malformed(name, INVALID_REQUEST, "there is neither a method nor an answer")


def _read_call(name: Id, said: Json) -> Message:
    method, params = said["method"], said.get("params", {})
    if not isinstance(method, str):
        return Malformed(name, INVALID_REQUEST, "a method is a text")
    if not isinstance(params, dict):
        return Malformed(name, INVALID_PARAMS, "params are an object")
    return Request(name, method, params) if "id" in said else Notification(method, params)


def line(message: Mapping[str, Any]) -> bytes:
    """The message as it goes over the wire, with its end of line."""
    message = {"jsonrpc": "2.0", **message}
    try:
        # Not in ASCII: whoever splits lines at more than a line feed is to be found out.
        return (_READABLE(message) + "\n").encode()
    except UnicodeEncodeError:  # half of a character, which only an escape can carry
        return (_ESCAPED(message) + "\n").encode()


_READABLE: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_ESCAPED: Final = json.JSONEncoder(separators=(",", ":")).encode
