"""Every line is read as something, and what is written can be read."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.drivers.acp.rpc.messages import (
    EXCERPT_LETTERS,
    INTERNAL_ERROR,
    MAX_DEPTH,
    Answer,
    Junk,
    Message,
    Notification,
    Refusal,
    Request,
    Unsendable,
    encode,
    parse,
)
from tests.drivers.acp.sayings import messages


def said(**fields: Any) -> bytes:  # noqa: ANN401 - as it goes over the wire
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


@pytest.mark.parametrize("request_id", [0, 1, -7, "a", "", None])
def test_what_has_a_method_and_an_id_is_a_request(request_id: int | str | None) -> None:
    assert parse(said(id=request_id, method="m", params={"a": 1})) == Request(
        request_id, "m", {"a": 1}
    )


def test_what_has_a_method_and_no_id_is_a_notification() -> None:
    assert parse(said(method="m", params=[1])) == Notification("m", [1])
    assert parse(said(method="m")) == Notification("m")


def test_what_has_an_id_and_no_method_is_an_answer() -> None:
    assert parse(said(id=1, result={"a": 1})) == Answer(1, {"a": 1})
    assert parse(said(id=1, result=None)) == Answer(1)
    assert parse(said(id=1, result=2, error=None)) == Answer(1, 2)


def test_a_result_that_is_null_may_be_left_out() -> None:
    assert parse(said(id=1)) == Answer(1)


@pytest.mark.parametrize("line", [b'{"id": 1, "level": "info"}', b'{"id": 1, "error": "no disk"}'])
def test_a_line_of_somebodys_log_that_has_an_id_is_no_answer(line: bytes) -> None:
    assert isinstance(parse(line), Junk)


@pytest.mark.parametrize("code", [-32603, 400, 1001, 0])
def test_an_error_may_have_any_code(code: int) -> None:
    error = {"code": code, "message": "no", "data": {"why": "so"}}

    assert parse(said(id=1, error=error)) == Refusal(1, code, "no", {"why": "so"})


@pytest.mark.parametrize(
    "error", ["no", 5, True, [], {}, {"code": "x"}, {"code": 1.5}, {"code": True, "message": 3}]
)
def test_an_error_is_one_however_badly_it_is_worded(error: object) -> None:
    refusal = parse(said(id=1, error=error))

    assert isinstance(refusal, Refusal)
    assert (refusal.id, refusal.code) == (1, INTERNAL_ERROR)


def test_unknown_fields_do_no_harm_and_are_kept() -> None:
    message = parse(b'{"id": 1, "method": "m", "extra": [1], "_meta": {}}')

    assert isinstance(message, Request)
    assert message.raw == {"id": 1, "method": "m", "extra": [1], "_meta": {}}


def test_of_a_name_that_is_there_twice_the_last_counts() -> None:
    assert parse(b'{"method": "a", "method": "b"}') == Notification("b")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"Loading model...", "no JSON"),
        (b'{"method": "m"', "no JSON"),
        (b'{"method": "m", "params": NaN}', "no JSON"),
        (b'{"method": "m", "params": 1e999}', "no JSON"),
        (b'{"method": "m", "params": ' + b"1" * 5000 + b"e", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'{"a":' * 100_000, "no JSON"),
        (b'[{"method": "m"}]', "batches"),
        (b"5", "no object"),
        (b"null", "no object"),
        (b"{}", "neither a method nor an id"),
        (b'{"jsonrpc": "2.0", "result": 1}', "neither a method nor an id"),
        (b'{"id": 1.5, "method": "m"}', "its id"),
        (b'{"id": true, "result": 1}', "its id"),
        (b'{"id": {"a": 1}, "result": 1}', "its id"),
        (b'{"id": 18446744073709551616, "method": "m"}', "its id"),
        (b'{"id": 1, "method": 5}', "its method"),
        (b'{"method": null}', "its method"),
    ],
)
def test_what_is_no_message_is_junk_and_says_why(line: bytes, why: str) -> None:
    junk = parse(line)

    assert isinstance(junk, Junk)
    assert why in junk.reason


def nested(depth: int) -> bytes:
    return b'{"method":"m","params":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def test_a_message_may_be_so_deep_and_no_deeper() -> None:
    deep = parse(nested(MAX_DEPTH))

    assert isinstance(deep, Notification)
    assert encode(deep).strip() == b'{"jsonrpc":"2.0",' + nested(MAX_DEPTH)[1:]
    assert isinstance(parse(nested(MAX_DEPTH + 1)), Junk)
    assert isinstance(parse(nested(1_000)), Junk)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert parse(said(method="m", params=[[]] * 1_000)) == Notification("m", [[]] * 1_000)


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
def test_half_a_character_costs_a_mark_and_not_the_message(text: bytes, read: str) -> None:
    assert parse(b'{"method": "m", "params": "%s"}' % text) == Notification("m", read)


def test_a_byte_order_mark_costs_nothing() -> None:
    assert parse(b'\xef\xbb\xbf{"method": "m"}') == Notification("m")


def test_the_excerpt_of_junk_is_short_printable_and_without_secrets() -> None:
    junk = parse(b"\x1b]52;c;AAAA\x07 api_key=hunter2hunter2 " + b"\xff\x00" * 5_000)

    assert isinstance(junk, Junk)
    assert junk.excerpt.isprintable()
    assert junk.excerpt.isascii()
    assert len(junk.excerpt) <= EXCERPT_LETTERS
    assert "hunter2" not in junk.excerpt
    assert "[redacted]" in junk.excerpt


def test_what_is_in_a_message_does_not_show_in_its_repr() -> None:
    secret = "hunter2"  # noqa: S105 - nobody's
    every = [
        Request(1, "m", secret, {"a": secret}),
        Notification("m", secret),
        Answer(1, secret),
        Refusal(1, 5, secret, secret),
    ]

    assert secret not in repr(every)


@given(messages)
def test_a_message_is_one_line_and_reads_as_it_was_written(message: Message) -> None:
    line = encode(message)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert parse(line.strip()) == message
    assert orjson.loads(line)["jsonrpc"] == "2.0"


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, "\ud800", 2**64, object(), {1: 2}, b"bytes", {"\ud800": 1}],
)
def test_what_json_has_no_word_for_is_not_sent(value: object) -> None:
    for message in (Request(1, "m", [value]), Answer(1, {"a": (value, None)})):
        with pytest.raises(Unsendable):
            encode(message)


@given(st.binary(max_size=200))
def test_whatever_the_line_is_there_is_an_answer(line: bytes) -> None:
    assert parse(line) is not None


def test_a_line_of_very_many_parts_is_no_message() -> None:
    line = b'{"jsonrpc":"2.0","method":"m","params":[' + b"{}," * 200_000 + b"{}]}"

    message = parse(line)

    assert isinstance(message, Junk)
    assert "parts" in message.reason


def test_one_long_text_is_not_many_parts() -> None:
    line = b'{"jsonrpc":"2.0","method":"m","params":{"text":"' + b"word " * 200_000 + b'"}}'

    assert isinstance(parse(line), Notification)
