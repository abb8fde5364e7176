"""Bytes into plain data: whatever could not be stored, compared or shown stays outside."""

from __future__ import annotations

import contextlib
import gc
import json
import subprocess
import sys
import typing

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.http_server.body import MAX_DEPTH, parse_json
from supervisor.http_server.problems import RequestRefused


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"{}x",
        b"nope",
        b"'a'",
        b"NaN",
        b"Infinity",
        b"1e999",
        b"-1e400",
        b"1" * 5_000,
        b"9223372036854775808",
        b"-9223372036854775809",
        b'"\\ud800"',
        b'{"\\udfff": 1}',
        b'"\xed\xa0\x80"',
        b'"\xff"',
        b"\xef\xbb\xbf{}",
        b'{"a": 1, "a": 1}',
        b'{"a": [{"b": 1, "c": 2, "b": 3}]}',
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 70 + b"1" + b"}" * 70,
    ],
    ids=lambda body: body[:12].decode(errors="replace"),
)
def test_invalid_json_is_refused(body: bytes) -> None:
    with pytest.raises(RequestRefused) as raised:
        parse_json(body)

    assert raised.value.code == "bad_json"
    assert raised.value.hint


def test_json_deeper_than_the_maximum_is_refused() -> None:
    deepest = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    mixed = b'{"a":[' * (MAX_DEPTH // 2) + b"]}" * (MAX_DEPTH // 2)

    assert parse_json(deepest)
    assert parse_json(mixed)
    for body in (b"[" + deepest + b"]", b"[1," + mixed + b"]"):
        with pytest.raises(RequestRefused):
            parse_json(body)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.floats(),
        lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
    )
)
def test_valid_json_is_parsed_as_by_the_standard_library(value: object) -> None:
    body = json.dumps(value)
    try:
        body.encode()
        is_good = "NaN" not in body and "Infinity" not in body and "\\ud" not in body
    except UnicodeEncodeError:
        is_good = False
    if is_good:
        assert parse_json(body.encode()) == value


@given(st.binary())
def test_any_bytes_are_parsed_or_refused(body: bytes) -> None:
    with contextlib.suppress(RequestRefused):
        parse_json(body)


def test_encode_and_decode_import_no_server_library() -> None:
    program = (
        "import sys, supervisor.api.encode, supervisor.http_server.problems\n"
        "import supervisor.api.reports, supervisor.decode\n"
        "print([n for n in ('starlette', 'hypercorn', 'httpx', 'anyio') if n in sys.modules])"
    )

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert said.stdout.strip() == b"[]"


async def test_requests_with_a_body_generate_no_decoders(client: httpx.AsyncClient) -> None:
    def typed_dicts() -> int:
        return sum(typing.is_typeddict(one) for one in gc.get_objects())

    body = {"agent": "echo", "tags": [" "]}
    await client.post("/v1/sessions", json=body)
    before = typed_dicts()
    for _ in range(5):
        await client.post("/v1/sessions", json=body)

    assert typed_dicts() == before
