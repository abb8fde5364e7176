"""Parsing and encoding of JSON-RPC messages; see acp/rpc_messages.py."""

from __future__ import annotations

import json
import math
import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.json_rpc.rpc_messages import (
    EXCERPT_LETTERS,
    INTERNAL_ERROR,
    MAX_DEPTH,
    InvalidLine,
    RpcErrorResponse,
    RpcMessage,
    RpcNotification,
    RpcRequest,
    RpcResult,
    Unsendable,
    answered_call,
    encode,
    parse,
)
from tests.support.rpc_samples import messages


def said(**fields: Any) -> bytes:  # noqa: ANN401 - as it goes over the wire
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


@pytest.mark.parametrize("request_id", [0, 1, -7, "a", "", None])
def test_a_message_with_method_and_id_is_a_request(request_id: int | str | None) -> None:
    assert parse(said(id=request_id, method="m", params={"a": 1})) == RpcRequest(
        request_id, "m", {"a": 1}
    )


def test_a_message_with_method_and_no_id_is_a_notification() -> None:
    assert parse(said(method="m", params=[1])) == RpcNotification("m", [1])
    assert parse(said(method="m")) == RpcNotification("m")


def test_a_message_with_id_and_no_method_is_an_answer() -> None:
    assert parse(said(id=1, result={"a": 1})) == RpcResult(1, {"a": 1})
    assert parse(said(id=1, result=None)) == RpcResult(1)
    assert parse(said(id=1, result=2, error=None)) == RpcResult(1, 2)


def test_a_null_result_may_be_absent() -> None:
    assert parse(said(id=1)) == RpcResult(1)


@pytest.mark.parametrize("line", [b'{"id": 1, "level": "info"}', b'{"id": 1, "error": "no disk"}'])
def test_a_log_line_with_an_id_is_not_an_answer(line: bytes) -> None:
    assert isinstance(parse(line), InvalidLine)


@pytest.mark.parametrize("code", [-32603, 400, 1001, 0])
def test_an_error_may_have_any_code(code: int) -> None:
    error = {"code": code, "message": "no", "data": {"why": "so"}}

    assert parse(said(id=1, error=error)) == RpcErrorResponse(1, code, "no", {"why": "so"})


@pytest.mark.parametrize(
    "error", ["no", 5, True, [], {}, {"code": "x"}, {"code": 1.5}, {"code": True, "message": 3}]
)
def test_a_malformed_error_is_an_error_response(error: object) -> None:
    refusal = parse(said(id=1, error=error))

    assert isinstance(refusal, RpcErrorResponse)
    assert (refusal.id, refusal.code) == (1, INTERNAL_ERROR)


def test_unknown_fields_are_kept() -> None:
    message = parse(b'{"id": 1, "method": "m", "extra": [1], "_meta": {}}')

    assert isinstance(message, RpcRequest)
    assert message.raw == {"id": 1, "method": "m", "extra": [1], "_meta": {}}


def test_the_last_of_a_repeated_field_counts() -> None:
    assert parse(b'{"method": "a", "method": "b"}') == RpcNotification("b")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"Loading model...", "not JSON"),
        (b'{"method": "m"', "not JSON"),
        (b'{"method": "m", "params": NaN}', "not JSON"),
        (b'{"method": "m", "params": 1e999}', "not JSON"),
        (b'{"method": "m", "params": ' + b"1" * 5000 + b"e", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"a":' * 100_000, "not JSON"),
        (b'[{"method": "m"}]', "batches"),
        (b"5", "not an object"),
        (b"null", "not an object"),
        (b"{}", "neither a method nor an id"),
        (b'{"jsonrpc": "2.0", "result": 1}', "neither a method nor an id"),
        (b'{"id": 1.5, "method": "m"}', "the id"),
        (b'{"id": true, "result": 1}', "the id"),
        (b'{"id": {"a": 1}, "result": 1}', "the id"),
        (b'{"id": 18446744073709551616, "method": "m"}', "the id"),
        (b'{"id": 1, "method": 5}', "the method"),
        (b'{"method": null}', "the method"),
    ],
)
def test_an_invalid_line_has_a_reason(line: bytes, why: str) -> None:
    junk = parse(line)

    assert isinstance(junk, InvalidLine)
    assert why in junk.reason


def nested(depth: int) -> bytes:
    return b'{"method":"m","params":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


@pytest.mark.parametrize(
    ("line", "call"),
    [
        (b'{"jsonrpc": "2.0", "id": 7, "result": NaN', 7),
        (b'{"result": NaN, "id": 7}', 7),
        (b'{"id" : 7, "error": {"code": 1e999}}', 7),
        (b'{"id": "7", "result": NaN}', None),
        (b'{"id": 7, "result": {"id": 8, "x": NaN}}', None),
        (b'{"id": 7, "method": "m", "params": NaN}', None),
        (b'{"level": "info", "id": 7, "x": NaN}', None),
        (b'working on "id": 7', None),
    ],
)
def test_an_invalid_line_may_name_the_call_that_it_answers(line: bytes, call: int | None) -> None:
    assert isinstance(parse(line), InvalidLine) or call is None
    assert answered_call(line) == call


def test_the_depth_of_a_message_is_limited() -> None:
    deep = parse(nested(MAX_DEPTH))

    assert isinstance(deep, RpcNotification)
    assert encode(deep).strip() == b'{"jsonrpc":"2.0",' + nested(MAX_DEPTH)[1:]
    assert isinstance(parse(nested(MAX_DEPTH + 1)), InvalidLine)
    assert isinstance(parse(nested(1_000)), InvalidLine)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert parse(said(method="m", params=[[]] * 1_000)) == RpcNotification("m", [[]] * 1_000)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (rb"cut \ud83d", "cut \ufffd"),
        (rb"\ude00 here", "\ufffd here"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\\ud83d \ud83d", "\\ud83d \ufffd"),
        (b"caf\xc3", "caf\ufffd"),
        (b"\xed\xa0\xbd", "\ufffd\ufffd\ufffd"),
    ],
)
def test_a_lone_surrogate_is_replaced_and_the_message_kept(text: bytes, read: str) -> None:
    assert parse(b'{"method": "m", "params": "%s"}' % text) == RpcNotification("m", read)


def test_a_byte_order_mark_is_accepted() -> None:
    assert parse(b'\xef\xbb\xbf{"method": "m"}') == RpcNotification("m")


def test_the_excerpt_of_an_invalid_line_is_short_printable_and_redacted() -> None:
    junk = parse(b"\x1b]52;c;AAAA\x07 api_key=hunter2hunter2 " + b"\xff\x00" * 5_000)

    assert isinstance(junk, InvalidLine)
    assert junk.excerpt.isprintable()
    assert junk.excerpt.isascii()
    assert len(junk.excerpt) <= EXCERPT_LETTERS
    assert "hunter2" not in junk.excerpt
    assert "[redacted]" in junk.excerpt


def test_the_repr_of_a_message_hides_its_content() -> None:
    secret = "hunter2"  # noqa: S105 - not a real password
    every = [
        RpcRequest(1, "m", secret, {"a": secret}),
        RpcNotification("m", secret),
        RpcResult(1, secret),
        RpcErrorResponse(1, 5, secret, secret),
    ]

    assert secret not in repr(every)


@given(messages)
def test_an_encoded_message_is_one_line_and_parses_back(message: RpcMessage) -> None:
    line = encode(message)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert parse(line.strip()) == message
    assert orjson.loads(line)["jsonrpc"] == "2.0"


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, "\ud800", 2**64, object(), {1: 2}, b"bytes", {"\ud800": 1}],
)
def test_values_that_are_not_json_are_unsendable(value: object) -> None:
    for message in (RpcRequest(1, "m", [value]), RpcResult(1, {"a": (value, None)})):
        with pytest.raises(Unsendable):
            encode(message)


@given(st.binary(max_size=200))
def test_parse_returns_a_message_or_an_invalid_line_for_any_bytes(line: bytes) -> None:
    assert parse(line) is not None


def test_a_line_with_too_many_parts_is_invalid() -> None:
    line = b'{"jsonrpc":"2.0","method":"m","params":[' + b"{}," * 200_000 + b"{}]}"

    message = parse(line)

    assert isinstance(message, InvalidLine)
    assert "parts" in message.reason


def test_one_long_text_is_a_valid_message() -> None:
    line = b'{"jsonrpc":"2.0","method":"m","params":{"text":"' + b"word " * 200_000 + b'"}}'

    assert isinstance(parse(line), RpcNotification)


def test_a_line_takes_little_more_memory_than_its_bytes() -> None:
    """Answers to an agent that does not read wait in thousands."""
    tracemalloc.start()
    try:
        lines = [encode(RpcResult(number, {"x": "y"})) for number in range(1_000)]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert taken < sum(map(len, lines)) + 200 * len(lines)
