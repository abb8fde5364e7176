"""JSON-RPC 2.0 messages, one per line; the parser tolerates the known faults of agents.

Rule 1: for any line, `parse` returns a message, or `InvalidLine` with the reason.
Rule 2: a message with a clear meaning is accepted: unknown, missing or repeated fields do not
        matter. Its dict is kept as `raw`.
        A line that is not a message may still be meant as the answer to a call; `answered_call`
        finds out to which, so that the call does not wait for ever.
Rule 3: a parsed message has no lone surrogates and only finite numbers, and can be encoded again.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, TypeAlias, assert_never

import attrs
import orjson

from supervisor.core.redaction import redact
from supervisor.core.text import plain_text

from .lines import KEPT_BYTES

# Deeper than any real message, and less than orjson can encode (254) or Python can compare.
MAX_DEPTH: Final = 128
EXCERPT_LETTERS: Final = 120
LARGE_LINE_BYTES: Final = 256 * 1024
MAX_PARTS: Final = 100_000

INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REQUEST_CANCELLED: Final = -32800
AUTH_REQUIRED: Final = -32000
RESOURCE_NOT_FOUND: Final = -32002

RpcId: TypeAlias = int | str | None
RawMessage: TypeAlias = dict[str, Any]

_MISSING: Final = object()


def _raw_field() -> Any:  # noqa: ANN401 - attrs.field is typed so
    return attrs.field(factory=dict, eq=False, repr=False)


def _hidden_field(**options: Any) -> Any:  # noqa: ANN401 - attrs.field is typed so
    # These hold prompts, files and keys, which must not get into a log through a repr.
    return attrs.field(repr=False, **options)


@attrs.frozen
class RpcRequest:
    """A request, which must be answered once, with its id."""

    id: RpcId
    method: str
    params: Any = _hidden_field(default=None)
    raw: RawMessage = _raw_field()


@attrs.frozen
class RpcNotification:
    """A notification, which is not answered."""

    method: str
    params: Any = _hidden_field(default=None)
    raw: RawMessage = _raw_field()


@attrs.frozen
class RpcResult:
    """The successful answer to a request."""

    id: RpcId
    result: Any = _hidden_field(default=None)
    raw: RawMessage = _raw_field()


@attrs.frozen
class RpcErrorResponse:
    """The error answer to a request."""

    id: RpcId
    code: int
    message: str = _hidden_field()
    data: Any = _hidden_field(default=None)
    raw: RawMessage = _raw_field()


@attrs.frozen
class InvalidLine:
    """A line that is not a message, and the reason; only the beginning of the line is kept."""

    reason: str
    beginning: bytes = _hidden_field(converter=lambda line: line[:KEPT_BYTES])
    # Ids of the calls that a batch answers.
    batch_answers: tuple[int, ...] = ()

    @property
    def excerpt(self) -> str:
        """The beginning for a log: short, printable, with known secrets redacted."""
        # Redacted before it is cut: a secret that is cut is not recognised any more.
        text = redact(self.beginning.decode(errors="replace"))
        return ascii(text[:EXCERPT_LETTERS])[1:-1][:EXCERPT_LETTERS]


RpcMessage: TypeAlias = RpcRequest | RpcNotification | RpcResult | RpcErrorResponse


class RpcError(Exception):
    """A request was refused: by the agent, or by one of our handlers, which raises this error.

    `code` may be any integer, because agents invent codes; `message` and `data` of an agent's error
    are untrusted.
    """

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(f"{message} (code {code})")
        self.code = code
        self.message = message
        self.data = data


class InvalidAnswer(RpcError):
    """The agent has answered with a line that is not a message; whether it acted is unknown."""

    def __init__(self, reason: str) -> None:
        super().__init__(INTERNAL_ERROR, f"the agent's answer cannot be read: {reason}")


class Unsendable(ValueError):
    """A message that we send is not JSON: it has NaN, a lone surrogate, or a Python object."""


# Parsing ----------------------------------------------------------------------------------


def parse(line: bytes) -> RpcMessage | InvalidLine:
    """Return the message in the line, or an `InvalidLine` with the reason."""
    try:
        return _parse_message(_parse_object(line))
    except _NotAMessage as error:
        return InvalidLine(str(error), line, error.batch_answers)


class _NotAMessage(Exception):
    """The line is not a message; the text says why."""

    def __init__(self, reason: str, batch_answers: tuple[int, ...] = ()) -> None:
        super().__init__(reason)
        self.batch_answers = batch_answers


def _parse_object(line: bytes) -> RawMessage:
    # Many small parts make Python objects a hundred times the size of the text, slowly.
    if len(line) > LARGE_LINE_BYTES and line.count(b",") > MAX_PARTS:
        raise _NotAMessage(f"the line has more than {MAX_PARTS} parts")
    try:
        raw = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        try:
            raw = orjson.loads(_repaired(line))
        except (ValueError, RecursionError):
            raise _NotAMessage(f"the line is not JSON ({error.msg})") from None
    if type(raw) is list:
        raise _NotAMessage("the line is a batch, and batches are not supported", _answers_in(raw))
    if type(raw) is not dict:
        raise _NotAMessage("the line is not an object")
    if _may_be_too_deep(line) and _is_too_deep(raw):
        raise _NotAMessage(f"the object is nested deeper than {MAX_DEPTH}")
    return raw


def _parse_message(raw: RawMessage) -> RpcMessage:
    request_id = raw.get("id", _MISSING)
    if request_id is not _MISSING and type(request_id) not in ID_TYPES:
        raise _NotAMessage("the id is neither a whole number nor text")
    method = raw.get("method", _MISSING)
    if method is _MISSING:
        return _parse_response(request_id, raw)
    if type(method) is not str:
        raise _NotAMessage("the method is not text")
    if request_id is _MISSING:
        return RpcNotification(method, raw.get("params"), raw)
    return RpcRequest(request_id, method, raw.get("params"), raw)


def _parse_response(request_id: Any, raw: RawMessage) -> RpcResult | RpcErrorResponse:  # noqa: ANN401 - an RpcId or _MISSING
    if request_id is _MISSING:
        raise _NotAMessage("the object has neither a method nor an id")
    # A log line of the agent may have an id and an error; it must not end a call.
    # Some agents leave out a null result; then `jsonrpc` makes the line an answer.
    has_version = "jsonrpc" in raw
    error = raw.get("error")
    if error is not None and (has_version or type(error) is dict):
        return _parse_error(request_id, error, raw)
    if "result" not in raw and not has_version:
        raise _NotAMessage("the object has neither a method nor a result")
    return RpcResult(request_id, raw.get("result"), raw)


def _parse_error(request_id: RpcId, error: object, raw: RawMessage) -> RpcErrorResponse:
    """Return the error response, also for a malformed error, because a call waits for it."""
    if type(error) is not dict:
        return RpcErrorResponse(
            request_id, INTERNAL_ERROR, error if type(error) is str else "", error, raw
        )
    code, message = error.get("code"), error.get("message")
    return RpcErrorResponse(
        request_id,
        code if type(code) is int else INTERNAL_ERROR,
        message if type(message) is str else "",
        error.get("data"),
        raw,
    )


def _answers_in(batch: list[Any]) -> tuple[int, ...]:
    """Return the ids of the answers in a batch that may belong to calls of ours."""
    return tuple(
        one["id"]
        for one in batch
        if type(one) is dict
        and type(one.get("id")) is int
        and "method" not in one
        and ("result" in one or "error" in one)
    )


def answered_call(beginning: bytes) -> int | None:
    """Return the id of the call that an invalid line is meant to answer; None if it is unclear.

    Only the beginning of the line is known. It must look like an answer, with a single id.
    """
    if not _ANSWER.match(beginning) or b'"method"' in beginning:
        return None
    ids = _ID.findall(beginning)
    return int(ids[0]) if len(ids) == 1 else None


# The members of an answer, in any order, before the first nested value.
_ANSWER: Final = re.compile(
    rb"""(?:\xef\xbb\xbf)? \s* \{ \s* (?: "jsonrpc" | "id" | "result" | "error" ) \s* :""",
    re.VERBOSE,
)
_ID: Final = re.compile(rb'"id"\s*:\s*([0-9]{1,15})\b')

ID_TYPES: Final = frozenset({int, str, type(None)})


def _repaired(line: bytes) -> bytes:
    """Return the line with lone surrogates and invalid bytes replaced.

    Agents in JavaScript cut text between the surrogates of a character and write each one as an
    escape; other agents cut it between bytes. Python's own JSON reader accepts lone surrogates.
    Raise `ValueError` if the line is too long or not an object.
    """
    if not line.startswith((b"{", b"\xef\xbb\xbf")):
        raise ValueError("not an object")  # probably one of many log lines of the agent
    if len(line) > LARGE_LINE_BYTES:
        raise ValueError("too long")  # the repair would block the event loop for seconds
    value = json.loads(line.decode("utf-8-sig", errors="replace"))
    return plain_text(json.dumps(value, ensure_ascii=False)).encode()


def _may_be_too_deep(line: bytes) -> bool:
    return line.count(b"[") + line.count(b"{") > MAX_DEPTH


def _is_too_deep(value: object) -> bool:
    """Return True if the value is nested deeper than `MAX_DEPTH`, without recursion."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [item for each in level for item in _items(each) if type(item) in (dict, list)]
        if not level:
            return False
    return True


def _items(value: Any) -> Any:  # noqa: ANN401 - the items of a dict or list
    return value.values() if type(value) is dict else value


# Encoding ---------------------------------------------------------------------------------


def encode(message: RpcMessage) -> bytes:
    """Return the message as one line with its newline; raise `Unsendable` if it is not JSON."""
    fields = _as_json(message)
    try:
        line = orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError as problem:
        raise Unsendable(f"the message cannot be encoded: {problem}") from problem
    # orjson silently writes NaN and infinity as null.
    if b"null" in line:
        _check_finite(fields)
    # A copy: what orjson returns holds a buffer of 4 KB or more, and lines may wait in thousands.
    return bytes(memoryview(line))


def _as_json(message: RpcMessage) -> RawMessage:
    match message:
        case RpcRequest(request_id, method, params):
            fields = {"jsonrpc": "2.0", "id": request_id, "method": method}
            return fields if params is None else fields | {"params": params}
        case RpcNotification(method, params):
            fields = {"jsonrpc": "2.0", "method": method}
            return fields if params is None else fields | {"params": params}
        case RpcResult(request_id, result):
            return {"jsonrpc": "2.0", "id": request_id, "result": result}
        case RpcErrorResponse(request_id, code, text, data):
            error = {"code": code, "message": text}
            error |= {} if data is None else {"data": data}
            return {"jsonrpc": "2.0", "id": request_id, "error": error}
        case _:
            assert_never(message)


def _check_finite(value: Any) -> None:  # noqa: ANN401 - any JSON value
    # Recursion is safe: orjson has encoded the value, so it is not too deep.
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Unsendable(f"the message contains {value!r}, which JSON cannot express")
    elif isinstance(value, dict):
        for item in value.values():
            _check_finite(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_finite(item)
