"""One line, one message: JSON-RPC 2.0 as agents really write it.

Rule 1: whatever the line is, `parse` answers: with a message, or with `Junk` that says why not.
Rule 2: what means something is taken as that. Fields that are unknown, missing though they should
        be there, or there twice do not keep a message from being read; its dict is kept beside it.
Rule 3: what has been parsed holds whole characters and finite numbers, and can be encoded again.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, TypeAlias, assert_never

import attrs
import orjson

from supervisor.core.redaction import redacted
from supervisor.drivers.plain import plain_text
from supervisor.drivers.process.lines import KEPT_BYTES

# Far deeper than any message is, and less than orjson can encode (254) or Python can compare.
MAX_DEPTH: Final = 128
EXCERPT_LETTERS: Final = 120
MANY_BYTES: Final = 256 * 1024
MAX_PARTS: Final = 100_000

INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REQUEST_CANCELLED: Final = -32800
AUTH_REQUIRED: Final = -32000
RESOURCE_NOT_FOUND: Final = -32002

Id: TypeAlias = int | str | None
Raw: TypeAlias = dict[str, Any]

_NOTHING: Final = object()


def _raw() -> Any:  # noqa: ANN401 - attrs wants to know nothing more
    return attrs.field(factory=dict, eq=False, repr=False)


def _payload(**options: Any) -> Any:  # noqa: ANN401 - as above
    # Prompts, files and keys travel here: they do not get into a log by way of a repr.
    return attrs.field(repr=False, **options)


@attrs.frozen
class Request:
    """Asks for something, and is owed one answer that bears its id."""

    id: Id
    method: str
    params: Any = _payload(default=None)
    raw: Raw = _raw()


@attrs.frozen
class Notification:
    """Tells something, and is owed nothing."""

    method: str
    params: Any = _payload(default=None)
    raw: Raw = _raw()


@attrs.frozen
class Answer:
    """What came of a request, if it went well."""

    id: Id
    result: Any = _payload(default=None)
    raw: Raw = _raw()


@attrs.frozen
class Refusal:
    """What came of a request, if it did not."""

    id: Id
    code: int
    message: str = _payload()
    data: Any = _payload(default=None)
    raw: Raw = _raw()


@attrs.frozen
class Junk:
    """A line that is of no use, and why; its beginning is all that is left of it."""

    reason: str
    beginning: bytes = _payload(converter=lambda line: line[:KEPT_BYTES])

    @property
    def excerpt(self) -> str:
        """Some of it for a log: short, printable, and with no known secret in it."""
        # Covered first and cut then, so that no secret is cut to where it is not known any more.
        text = redacted(self.beginning.decode(errors="replace"))
        return ascii(text[:EXCERPT_LETTERS])[1:-1][:EXCERPT_LETTERS]


Message: TypeAlias = Request | Notification | Answer | Refusal


class RpcError(Exception):
    """A request was refused: by the agent, or by us if a handler raises it.

    `code` may be any integer, for agents invent them; `message` and `data` are the other side's
    own words and may hold anything.
    """

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(f"{message} (code {code})")
        self.code = code
        self.message = message
        self.data = data


class Unsendable(ValueError):
    """A message of ours holds what JSON has no word for: NaN, half a character, an object."""


# Reading ----------------------------------------------------------------------------------


def parse(line: bytes) -> Message | Junk:
    """The message in the line."""
    try:
        return _message(_object(line))
    except _NoMessage as why:
        return Junk(str(why), line)


class _NoMessage(Exception):
    """Why the line is none."""


def _object(line: bytes) -> Raw:
    # Many small parts make objects a hundred times the size of their text, and take long to make.
    if len(line) > MANY_BYTES and line.count(b",") > MAX_PARTS:
        raise _NoMessage(f"it has more than {MAX_PARTS} parts")
    try:
        raw = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        try:
            raw = orjson.loads(_mended(line))
        except (ValueError, RecursionError):
            raise _NoMessage(f"it is no JSON ({error.msg})") from None
    if type(raw) is not dict:
        is_batch = type(raw) is list
        raise _NoMessage("batches are not spoken here" if is_batch else "it is no object")
    if _may_be_too_deep(line) and _is_too_deep(raw):
        raise _NoMessage(f"it is nested deeper than {MAX_DEPTH}")
    return raw


def _message(raw: Raw) -> Message:
    request_id = raw.get("id", _NOTHING)
    if request_id is not _NOTHING and type(request_id) not in ID_TYPES:
        raise _NoMessage("its id is neither a whole number nor text")
    method = raw.get("method", _NOTHING)
    if method is _NOTHING:
        return _outcome(request_id, raw)
    if type(method) is not str:
        raise _NoMessage("its method is no text")
    if request_id is _NOTHING:
        return Notification(method, raw.get("params"), raw)
    return Request(request_id, method, raw.get("params"), raw)


def _outcome(request_id: Any, raw: Raw) -> Answer | Refusal:  # noqa: ANN401 - an Id, or nothing
    if request_id is _NOTHING:
        raise _NoMessage("it has neither a method nor an id")
    # A line of somebody's log may well have an id and an error, which a call must not end with.
    # Some leave out what is null; then it is the version that makes an answer of it.
    has_version = "jsonrpc" in raw
    error = raw.get("error")
    if error is not None and (has_version or type(error) is dict):
        return _refusal(request_id, error, raw)
    if "result" not in raw and not has_version:
        raise _NoMessage("it has neither a method nor a result")
    return Answer(request_id, raw.get("result"), raw)


def _refusal(request_id: Id, error: object, raw: Raw) -> Refusal:
    """A refusal is one however badly it is worded, for somebody waits for it."""
    if type(error) is not dict:
        return Refusal(request_id, INTERNAL_ERROR, error if type(error) is str else "", error, raw)
    code, message = error.get("code"), error.get("message")
    return Refusal(
        request_id,
        code if type(code) is int else INTERNAL_ERROR,
        message if type(message) is str else "",
        error.get("data"),
        raw,
    )


ID_TYPES: Final = frozenset({int, str, type(None)})


def _mended(line: bytes) -> bytes:
    """The line with a mark for each half of a character; raises if that is not what is wrong.

    Agents in JavaScript cut text between the halves of a character, and write each half as an
    escape; others cut it between bytes. Python's own reader lets the halves pass.
    """
    if not line.startswith((b"{", b"\xef\xbb\xbf")):
        raise ValueError("it is no object")  # but somebody's log, of which there may be a lot
    if len(line) > MANY_BYTES:
        raise ValueError("it is too long")  # to mend it takes seconds, and everybody would wait
    value = json.loads(line.decode("utf-8-sig", errors="replace"))
    return plain_text(json.dumps(value, ensure_ascii=False)).encode()


def _may_be_too_deep(line: bytes) -> bool:
    return line.count(b"[") + line.count(b"{") > MAX_DEPTH


def _is_too_deep(value: object) -> bool:
    """Looks at one level after the other, so that it needs no depth itself."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [item for each in level for item in _items(each) if type(item) in (dict, list)]
        if not level:
            return False
    return True


def _items(value: Any) -> Any:  # noqa: ANN401 - what is in a dict or a list
    return value.values() if type(value) is dict else value


# Writing ----------------------------------------------------------------------------------


def encode(message: Message) -> bytes:
    """The message as one line, newline included; raises `Unsendable`."""
    said = _said(message)
    try:
        line = orjson.dumps(said, option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError as problem:
        raise Unsendable(f"a message cannot be written: {problem}") from problem
    # What is no finite number is written as null, without a word.
    if b"null" in line:
        _refuse_unless_finite(said)
    return line


def _said(message: Message) -> Raw:
    match message:
        case Request(request_id, method, params):
            said = {"jsonrpc": "2.0", "id": request_id, "method": method}
            return said if params is None else said | {"params": params}
        case Notification(method, params):
            said = {"jsonrpc": "2.0", "method": method}
            return said if params is None else said | {"params": params}
        case Answer(request_id, result):
            return {"jsonrpc": "2.0", "id": request_id, "result": result}
        case Refusal(request_id, code, text, data):
            error = {"code": code, "message": text}
            error |= {} if data is None else {"data": data}
            return {"jsonrpc": "2.0", "id": request_id, "error": error}
        case _:
            assert_never(message)


def _refuse_unless_finite(value: Any) -> None:  # noqa: ANN401 - whatever has been encoded
    # It has been encoded, so it is not deeper than Python can go.
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Unsendable(f"{value!r} is no number that can be sent")
    elif isinstance(value, dict):
        for item in value.values():
            _refuse_unless_finite(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_unless_finite(item)
