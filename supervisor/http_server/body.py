"""Reading of requests: headers, and a JSON body within bounds of size, time and depth.

A body is parsed twice. orjson refuses lone surrogates, infinite numbers and bytes that are not
UTF-8, but takes the last of two equal names and approximates a large integer. The parser of the
standard library lets us refuse both, but fails at depth, so the depth is checked in between.

Rule 1: a body that is too large or too slow is refused, and not kept in memory.
Rule 2: an answer is sent only after the rest of the body was read, within a bound; otherwise the
        connection is reset before the client has read the answer.
"""

from __future__ import annotations

import json
from typing import Any, Final

import orjson
import trio
from starlette.types import Message, Receive, Scope

from supervisor.decode import DecodeError, InvalidField

from .problems import RequestRefused

MAX_DEPTH: Final = 64

_LARGEST: Final = 2**63


def parse_json(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Return the value of a JSON body.

    Raise RequestRefused if it is malformed or nested too deeply.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _bad_json_error(f"the body is not JSON: {error}", "send one JSON object") from None
    if _depth(value) > MAX_DEPTH:
        raise _bad_json_error(
            f"the body is nested more than {MAX_DEPTH} levels deep", "send less nested data"
        )
    return json.loads(body, object_pairs_hook=_unique_names, parse_int=_parse_int)


def _depth(value: object) -> int:
    """Return the nesting depth of lists and objects; stop counting one above the allowed depth."""
    depth = 0
    level: list[object] = [value]
    while level and depth <= MAX_DEPTH:
        inside: list[object] = []
        for one in level:
            if type(one) is dict:
                inside.extend(one.values())
            elif type(one) is list:
                inside.extend(one)
        if not any(type(one) in (dict, list) for one in level):
            return depth
        level = inside
        depth += 1
    return depth


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise _bad_json_error(
            "an object in the body has the same name twice", "give each name once"
        )
    return made


def _parse_int(digits: str) -> int:
    number = int(digits) if len(digits) <= len(str(-_LARGEST)) else _LARGEST
    if not -_LARGEST <= number < _LARGEST:
        raise _bad_json_error(
            "the body has an integer of more than 64 bits", "give a smaller integer, or a string"
        )
    return number


def _bad_json_error(problem: str, hint: str) -> RequestRefused:
    return RequestRefused("bad_json", problem, hint=hint)


MAX_BODY_BYTES: Final = 1024 * 1024

BODY_SECONDS: Final = 30.0
# Read and discarded of a body that is refused, or that the operation does not take.
_MAX_DISCARDED_BYTES: Final = 16 * 1024 * 1024

_DISCARD_SECONDS: Final = 2.0


class ClientDisconnected(Exception):
    """The client disconnected before the answer was sent."""


def header(scope: Scope, name: bytes) -> str | None:
    """Return a header, None if it is absent; raise DecodeError if it occurs twice."""
    found = [value for key, value in scope["headers"] if key == name]
    if len(found) > 1:
        fault = InvalidField(name.decode().title(), "header given twice", "send it once")
        raise DecodeError((fault,))
    return found[0].decode("latin-1") if found else None


def announces_body(scope: Scope) -> bool:
    """Return True if the request has a header that announces a body."""
    return any(
        name in (b"content-length", b"transfer-encoding") and value != b"0"
        for name, value in scope["headers"]
    )


class RequestBody:
    """Receiving side of a request, which knows whether the body is complete."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._is_over = False

    async def __call__(self) -> Message:
        """Return the next message: a part of the body, or a disconnect."""
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._is_over = True
        return message

    async def discard(self) -> None:
        """Read and discard the rest of the body, within bounds of size and time."""
        left = _MAX_DISCARDED_BYTES
        with trio.move_on_after(_DISCARD_SECONDS):
            while left > 0 and not self._is_over:
                left -= len((await self()).get("body", b""))

    async def wait_disconnected(self) -> None:
        """Wait until the client disconnects."""
        while (await self())["type"] != "http.disconnect":
            pass


async def read_body(scope: Scope, receive: Receive) -> Any:  # noqa: ANN401 - any JSON
    """Return the JSON body, `{}` if it is empty.

    Raise RequestRefused if the body is too large, too slow or malformed.
    """
    _require_json(scope)
    length = header(scope, b"content-length")
    if length is not None and length.isdecimal() and int(length) > MAX_BODY_BYTES:
        raise _too_large_error()
    with trio.move_on_after(BODY_SECONDS) as timeout:
        content = await _read_all(receive)
    if timeout.cancelled_caught:
        raise RequestRefused(
            "too_slow",
            f"the body took more than {BODY_SECONDS:g} seconds",
            hint="send it again within that time",
        )
    if not content.strip():
        return {}
    if header(scope, b"content-type") is None:
        raise _not_json_error("the body has no content type")
    return parse_json(content)


async def _read_all(receive: Receive) -> bytes:
    content = bytearray()
    while True:
        message = await _receive_part(receive)
        content += message.get("body", b"")
        if len(content) > MAX_BODY_BYTES:
            raise _too_large_error()
        if not message.get("more_body", False):
            return bytes(content)


async def _receive_part(receive: Receive) -> Message:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    return message


def _require_json(scope: Scope) -> None:
    """Raise RequestRefused unless the body is unencoded `application/json` in UTF-8.

    A request without a body needs no content type.
    """
    if header(scope, b"content-encoding") is not None:
        raise _not_json_error("the body has a content encoding")
    said = header(scope, b"content-type")
    if said is None:
        return
    kind, *parameters = (part.strip().lower() for part in said.split(";"))
    others = [one for one in parameters if one.replace('"', "") not in ("charset=utf-8", "")]
    if kind != "application/json" or others:
        raise _not_json_error("the body is not application/json")


def _not_json_error(problem: str) -> RequestRefused:
    return RequestRefused(
        "not_json", problem, hint="send JSON, with content-type: application/json"
    )


def _too_large_error() -> RequestRefused:
    return RequestRefused(
        "too_large",
        f"the body has more than {MAX_BODY_BYTES} bytes",
        hint="put large data into a file, and send its path",
    )
