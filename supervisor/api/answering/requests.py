"""A request read: its body and its query, checked before anything else happens.

Rule 1: what is too large is not kept, what is too slow is not waited for.
Rule 2: nobody is answered before what they still send was read, within a bound: they could not hear
        us over it, and the connection would be cut under them.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl

import trio
from starlette.types import Message, Receive, Scope

from supervisor.api.describing.forms import Form
from supervisor.api.describing.operations import Operation
from supervisor.api.wire.json_text import parse
from supervisor.api.wire.problems import RequestRefused
from supervisor.api.wire.reading import Fault, Unreadable
from supervisor.core.errors import IdempotencyConflict

MAX_BODY_BYTES: Final = 1024 * 1024
BODY_SECONDS: Final = 30.0
# What is read and thrown away of a body that was refused.
_MAX_DISCARDED_BYTES: Final = 16 * 1024 * 1024
_DISCARD_SECONDS: Final = 2.0
_MAX_QUERY_NAMES: Final = 64


class Gone(Exception):
    """Whoever asked has hung up: nobody is there to be answered."""


def header(scope: Scope, name: bytes) -> str | None:
    """What a header says, None if it is not there; raises `Unreadable` if it is there twice."""
    found = [value for key, value in scope["headers"] if key == name]
    if len(found) > 1:
        fault = Fault(name.decode().title(), "is there twice", "send it once")
        raise Unreadable((fault,))
    return found[0].decode("latin-1") if found else None


class Incoming:
    """What is being sent to us, and whether all of it is here."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._is_over = False

    async def __call__(self) -> Message:
        """The next part, or the news that whoever asked has hung up."""
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._is_over = True
        return message

    async def discard(self) -> None:
        """Read what is still being sent, and throw it away."""
        left = _MAX_DISCARDED_BYTES
        with trio.move_on_after(_DISCARD_SECONDS):
            while left > 0 and not self._is_over:
                left -= len((await self()).get("body", b""))

    async def wait_gone(self) -> None:
        """Wait until whoever asked has hung up."""
        while (await self())["type"] != "http.disconnect":
            pass


async def read_body(scope: Scope, receive: Receive) -> Any:  # noqa: ANN401 - any JSON
    """The JSON that was sent, `{}` if nothing was; raises `RequestRefused`."""
    _refuse_unless_json(scope)
    length = header(scope, b"content-length")
    if length is not None and length.isdecimal() and int(length) > MAX_BODY_BYTES:
        raise _too_large()
    with trio.move_on_after(BODY_SECONDS) as patience:
        content = await _read_all(receive)
    if patience.cancelled_caught:
        raise RequestRefused(
            "too_slow",
            f"the body took more than {BODY_SECONDS:g} seconds",
            hint="send it again, faster",
        )
    if not content.strip():
        return {}
    if header(scope, b"content-type") is None:
        raise _not_json("the body has no content type")
    return parse(content)


async def _read_all(receive: Receive) -> bytes:
    content = bytearray()
    while True:
        message = await _part(receive)
        content += message.get("body", b"")
        if len(content) > MAX_BODY_BYTES:
            raise _too_large()
        if not message.get("more_body", False):
            return bytes(content)


async def _part(receive: Receive) -> Message:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Gone
    return message


def _refuse_unless_json(scope: Scope) -> None:
    """Only `application/json` in UTF-8 and in the open; what sends nothing need not say so."""
    if header(scope, b"content-encoding") is not None:
        raise _not_json("the body is encoded")
    said = header(scope, b"content-type")
    if said is None:
        return
    kind, *parameters = (part.strip().lower() for part in said.split(";"))
    others = [one for one in parameters if one.replace('"', "") not in ("charset=utf-8", "")]
    if kind != "application/json" or others:
        raise _not_json("the body is no application/json")


def _not_json(problem: str) -> RequestRefused:
    return RequestRefused(
        "not_json", problem, hint="send JSON, with content-type: application/json"
    )


def _too_large() -> RequestRefused:
    return RequestRefused(
        "too_large",
        f"the body has more than {MAX_BODY_BYTES} bytes",
        hint="put what is large into a file, and say where that is",
    )


def read_query(operation: Operation, scope: Scope) -> dict[str, Any]:
    """The arguments in the query; raises `Unreadable`."""
    text = scope.get("query_string", b"")
    if not text and not operation.has_body and not any(f.is_needed for f in operation.form.fields):
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
        fault = Fault("?", "cannot be read", "escape it as UTF-8, and give each name once")
        raise Unreadable((fault,)) from None
    form = Form() if operation.has_body else operation.form
    return form.read_query(pairs)


def with_key(operation: Operation, scope: Scope, given: Any) -> Any:  # noqa: ANN401 - any JSON
    """The body with the idempotency key of the header, if there is one.

    Raises `IdempotencyConflict` if the body has another one, and `Unreadable` where no key counts:
    who sends one relies on it.
    """
    key = header(scope, b"idempotency-key")
    if key is None or type(given) is not dict:
        return given
    if "idempotency_key" not in operation.form.names():
        raise Unreadable((Fault("Idempotency-Key", "is not known here", "leave it out"),))
    if not key.isascii() or not key.strip():
        raise Unreadable((Fault("Idempotency-Key", "is no plain text", "use plain letters"),))
    if given.get("idempotency_key", key) not in (key, None):
        raise IdempotencyConflict(
            "the header Idempotency-Key and idempotency_key in the body differ",
            hint="give one of them, or the same in both",
        )
    return {**given, "idempotency_key": key}
