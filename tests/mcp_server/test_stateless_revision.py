"""The server as a client of revision 2026-07-28 sees it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from supervisor.mcp_server.caller import Caller
from supervisor.mcp_server.server import McpServer
from tests.support.fake_toolbox import INSTRUCTIONS
from tests.support.mcp_messages import META, NEW, OLD, headers_of, meta, request, stateless

SERVER = {f"{META}serverInfo": {"name": "understudy", "title": "Understudy", "version": "1.2.3"}}


async def answer(
    server: McpServer,
    message: dict[str, Any],
    caller: Caller,
    headers: list[tuple[bytes, bytes]] | None = None,
) -> tuple[int, dict[str, Any]]:
    reply = await server.answer(message, caller, headers=headers or headers_of(message))
    assert reply.body is not None
    return reply.status, dict(reply.body)


async def refusal(
    server: McpServer,
    message: dict[str, Any],
    caller: Caller,
    headers: list[tuple[bytes, bytes]] | None = None,
) -> tuple[int, int, object]:
    status, body = await answer(server, message, caller, headers)
    return status, body["error"]["code"], body["id"]


async def test_discover_names_the_revision_and_the_capabilities(
    server: McpServer, owner: Caller
) -> None:
    status, body = await answer(server, stateless("server/discover"), owner)

    assert status == 200
    assert body["result"] == {
        "supportedVersions": [NEW],
        "capabilities": {"tools": {}},
        "instructions": INSTRUCTIONS,
        "ttlMs": 60_000,
        "cacheScope": "private",
        "resultType": "complete",
        "_meta": SERVER,
    }


async def test_the_list_of_tools_may_be_cached_by_its_credential(
    server: McpServer, owner: Caller
) -> None:
    _, body = await answer(server, stateless("tools/list"), owner)

    rest = {key: value for key, value in body["result"].items() if key != "tools"}
    assert [one["name"] for one in body["result"]["tools"]] == ["echo", "refuse", "wait", "break"]
    assert rest == {
        "ttlMs": 60_000,
        "cacheScope": "private",
        "resultType": "complete",
        "_meta": SERVER,
    }


async def test_a_call_has_a_complete_result(server: McpServer, owner: Caller) -> None:
    message = stateless("tools/call", name="echo", arguments={"text": "a"})

    _, body = await answer(server, message, owner)

    assert body["result"] == {
        "content": [{"type": "text", "text": "echo: a"}],
        "structuredContent": {"echo": {"text": "a"}},
        "isError": False,
        "resultType": "complete",
        "_meta": SERVER,
    }


async def test_the_client_need_not_name_itself(server: McpServer, owner: Caller) -> None:
    message = stateless("tools/list")
    del message["params"]["_meta"][f"{META}clientInfo"]

    status, _ = await answer(server, message, owner)

    assert status == 200


@pytest.mark.parametrize("missing", ["protocolVersion", "clientCapabilities"])
async def test_a_request_that_does_not_say_what_it_must_is_refused(
    server: McpServer, owner: Caller, missing: str
) -> None:
    message = stateless("server/discover")
    del message["params"]["_meta"][f"{META}{missing}"]

    status, body = await answer(server, message, owner)

    assert (status, body["error"]["code"], body["id"]) == (400, -32602, 1)
    assert f"{META}{missing}" in body["error"]["message"]


@pytest.mark.parametrize("params", [None, {}, {"_meta": None}, {"_meta": []}, {"_meta": {}}])
async def test_a_request_without_meta_is_refused(
    server: McpServer, owner: Caller, params: dict[str, Any] | None
) -> None:
    message = request("server/discover", params)

    assert await refusal(server, message, owner) == (400, -32602, 1)


@pytest.mark.parametrize("capabilities", [None, [], "all"])
async def test_capabilities_that_are_not_an_object_are_refused(
    server: McpServer, owner: Caller, capabilities: object
) -> None:
    message = stateless("tools/list")
    message["params"]["_meta"][f"{META}clientCapabilities"] = capabilities

    assert await refusal(server, message, owner) == (400, -32602, 1)


@pytest.mark.parametrize("revision", ["v999.0.0", "2027-01-01", OLD])
async def test_an_unknown_revision_is_refused_with_those_that_are_known(
    server: McpServer, owner: Caller, revision: str
) -> None:
    message = request("server/discover", {"_meta": meta(revision)})

    status, body = await answer(server, message, owner, headers_of(message, revision=revision))

    assert (status, body["error"]["code"]) == (400, -32022)
    assert body["error"]["data"] == {"supported": [NEW], "requested": revision}


@pytest.mark.parametrize(
    "method",
    [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "subscriptions/listen",
        "prompts/list",
        "unknown/method",
    ],
)
async def test_an_unknown_method_is_not_found(
    server: McpServer, owner: Caller, method: str
) -> None:
    assert await refusal(server, stateless(method), owner) == (404, -32601, 1)


@pytest.mark.parametrize(
    "params",
    [{"name": "unknown"}, {"name": "echo", "arguments": []}],
)
async def test_a_malformed_call_is_a_bad_request(
    server: McpServer, owner: Caller, params: dict[str, Any]
) -> None:
    assert await refusal(server, stateless("tools/call", **params), owner) == (400, -32602, 1)


@pytest.mark.parametrize("name", [None, 1])
async def test_a_call_without_name_is_a_bad_request(
    server: McpServer, owner: Caller, name: object
) -> None:
    headers = headers_of(stateless("tools/call", name="echo"))

    message = stateless("tools/call", name=name)

    assert await refusal(server, message, owner, headers) == (400, -32602, 1)


# Headers --------------------------------------------------------------------------------


def with_header(name: str, *values: str) -> list[tuple[bytes, bytes]]:
    """The headers of a call of `echo`, one of them replaced by these values."""
    rest = headers_of(stateless("tools/call", name="echo"))
    kept = [(key, value) for key, value in rest if key != name.encode()]
    return kept + [(name.encode(), value.encode("latin-1")) for value in values]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("mcp-protocol-version", []),
        ("mcp-protocol-version", ["v999.0.0"]),
        ("mcp-protocol-version", [OLD]),
        ("mcp-protocol-version", [NEW, NEW]),
        ("mcp-method", []),
        ("mcp-method", ["TOOLS/CALL"]),
        ("mcp-method", ["tools/list"]),
        ("mcp-method", ["tools/call", "tools/call"]),
        ("mcp-name", []),
        ("mcp-name", [""]),
        ("mcp-name", ["Echo"]),
        ("mcp-name", ["echo", "echo"]),
        ("mcp-name", ["=?base64?ZWNobw?="]),  # without padding
        ("mcp-name", ["=?base64?!!!!?="]),
        ("mcp-name", ["=?base64?ZWNobx==?="]),  # another spelling of the same bytes
        ("mcp-name", ["=?base64?/w==?="]),  # not UTF-8
        ("mcp-name", ["=?base64?\xe9?="]),
    ],
)
async def test_headers_that_differ_from_the_body_are_refused(
    server: McpServer, owner: Caller, name: str, values: list[str]
) -> None:
    message = stateless("tools/call", name="echo")

    assert await refusal(server, message, owner, with_header(name, *values)) == (400, -32020, 1)


@pytest.mark.parametrize("sent", ["echo", "  echo ", "=?base64?ZWNobw==?="])
async def test_a_name_may_be_padded_or_encoded(server: McpServer, owner: Caller, sent: str) -> None:
    message = stateless("tools/call", name="echo")

    status, _ = await answer(server, message, owner, with_header("mcp-name", sent))

    assert status == 200


async def test_a_name_that_is_not_ascii_is_compared_decoded(
    server: McpServer, owner: Caller
) -> None:
    sent = f"=?base64?{base64.b64encode('écho'.encode()).decode()}?="
    message = stateless("tools/call", name="écho")

    _, body = await answer(server, message, owner, with_header("mcp-name", sent))

    assert body["error"]["message"].startswith("unknown tool")


async def test_a_message_that_did_not_come_over_http_has_no_headers(
    server: McpServer, owner: Caller
) -> None:
    reply = await server.answer(stateless("tools/call", name="echo"), owner)

    assert reply.status == 200


@pytest.mark.parametrize("revision", [None, 20260728, {}])
async def test_a_revision_that_is_no_text_is_refused_without_headers_too(
    server: McpServer, owner: Caller, revision: object
) -> None:
    message = stateless("tools/list")
    message["params"]["_meta"][f"{META}protocolVersion"] = revision

    reply = await server.answer(message, owner)

    assert reply.body is not None
    assert (reply.status, reply.body["error"]["code"]) == (400, -32602)


async def test_a_notification_is_acknowledged(server: McpServer, owner: Caller) -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled"}

    known = await server.answer(message, owner, headers=[(b"mcp-protocol-version", NEW.encode())])
    unknown = await server.answer(message, owner, headers=[(b"mcp-protocol-version", b"v9")])

    assert (known.status, known.body) == (202, None)
    assert unknown.status == 400
    assert unknown.body is not None
    assert unknown.body["error"]["code"] == -32022
