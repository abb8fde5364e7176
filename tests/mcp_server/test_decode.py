"""Decoding of one message, and the refusals of malformed ones."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.json_rpc.rpc_messages import INVALID_REQUEST
from supervisor.mcp_server.protocol import (
    Notification,
    ProtocolError,
    Request,
    decode,
)


@pytest.mark.parametrize("request_id", ["a", "", 0, -7, 2**62])
def test_a_request_has_a_string_or_an_integer_as_id(request_id: str | int) -> None:
    message = {"jsonrpc": "2.0", "id": request_id, "method": "ping", "params": {"a": 1}}

    assert decode(message) == Request(request_id, "ping", {"a": 1})


def test_a_message_without_id_is_a_notification() -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}

    assert decode(message) == Notification("notifications/initialized", {})


def test_null_params_are_none() -> None:
    assert decode({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": None}) == Request(
        1, "ping", {}
    )


MALFORMED: list[tuple[object, str]] = [
    ([], "batches"),
    ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], "batches"),
    (None, "object"),
    (True, "object"),
    (1, "object"),
    ("ping", "object"),
    ({}, "jsonrpc"),
    ({"jsonrpc": "1.0", "method": "ping"}, "jsonrpc"),
    ({"jsonrpc": 2.0, "method": "ping"}, "jsonrpc"),
    ({"jsonrpc": "2.0"}, "method"),
    ({"jsonrpc": "2.0", "method": None}, "method"),
    ({"jsonrpc": "2.0", "method": 1}, "method"),
    ({"jsonrpc": "2.0", "method": "ping", "params": []}, "params"),
    ({"jsonrpc": "2.0", "method": "ping", "params": "a"}, "params"),
    ({"jsonrpc": "2.0", "id": None, "method": "ping"}, "id"),
    ({"jsonrpc": "2.0", "id": True, "method": "ping"}, "id"),
    ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, "id"),
    ({"jsonrpc": "2.0", "id": {}, "method": "ping"}, "id"),
    ({"jsonrpc": "2.0", "id": [1], "method": "ping"}, "id"),
    ({"jsonrpc": "2.0", "result": {}}, "sends no requests"),
]


@pytest.mark.parametrize(("message", "problem"), MALFORMED, ids=str)
def test_a_malformed_message_without_valid_id_is_refused(message: object, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem) as caught:
        decode(message)

    assert (caught.value.code, caught.value.request_id) == (INVALID_REQUEST, None)


@pytest.mark.parametrize(
    "message",
    [
        {"id": "a", "method": "ping"},
        {"jsonrpc": "2.0", "id": "a"},
        {"jsonrpc": "2.0", "id": "a", "method": "ping", "params": [1]},
        {"jsonrpc": "2.0", "id": "a", "result": {}},
        {"jsonrpc": "2.0", "id": "a", "error": {}},
    ],
)
def test_a_refusal_has_the_id_if_that_is_valid(message: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(message)

    assert (caught.value.code, caught.value.request_id) == (INVALID_REQUEST, "a")
