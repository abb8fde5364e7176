"""The server as a client of revision 2025-11-25 or an older one sees it."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.mcp_server.caller import Caller
from supervisor.mcp_server.replies import ERROR_SCHEMA
from supervisor.mcp_server.server import McpServer
from tests.support.fake_toolbox import INSTRUCTIONS, FakeToolbox
from tests.support.mcp_messages import CLIENT, OLD, initialize, request


async def result(
    server: McpServer, message: object, caller: Caller, status: int = 200
) -> dict[str, Any]:
    reply = await server.answer(message, caller, headers=[])
    assert reply.status == status
    assert reply.body is not None
    assert (reply.body["jsonrpc"], reply.body["id"]) == ("2.0", 1)
    found: dict[str, Any] = reply.body["result"]
    return found


async def error(server: McpServer, message: object, caller: Caller) -> tuple[int, int]:
    reply = await server.answer(message, caller, headers=[])
    assert reply.body is not None
    return reply.status, reply.body["error"]["code"]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", OLD])
async def test_initialize_agrees_on_the_revision_of_the_client(
    server: McpServer, owner: Caller, revision: str
) -> None:
    assert await result(server, initialize(revision), owner) == {
        "protocolVersion": revision,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "understudy", "title": "Understudy", "version": "1.2.3"},
        "instructions": INSTRUCTIONS,
    }


@pytest.mark.parametrize("revision", ["2026-07-28", "2031-01-01", "", "no date"])
async def test_initialize_offers_the_newest_revision_with_a_handshake_instead(
    server: McpServer, owner: Caller, revision: str
) -> None:
    answer = await result(server, initialize(revision), owner)

    assert answer["protocolVersion"] == OLD


@pytest.mark.parametrize(
    "params",
    [
        {"protocolVersion": None},
        {"protocolVersion": 20251125},
        {"capabilities": None},
        {"capabilities": []},
        {"clientInfo": None},
        {"clientInfo": "test"},
        {"clientInfo": {"name": "test"}},
        {"clientInfo": {"name": "test", "version": 1}},
    ],
)
async def test_initialize_without_what_it_needs_is_refused(
    server: McpServer, owner: Caller, params: dict[str, Any]
) -> None:
    assert await error(server, initialize(**params), owner) == (200, -32602)


async def test_ping_has_an_empty_result(server: McpServer, owner: Caller) -> None:
    assert await result(server, request("ping"), owner) == {}


@pytest.mark.parametrize(
    "method", ["notifications/initialized", "notifications/cancelled", "notifications/anything"]
)
async def test_a_notification_is_acknowledged(
    server: McpServer, owner: Caller, method: str
) -> None:
    message = {"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}}

    reply = await server.answer(message, owner, headers=[])

    assert (reply.status, reply.body) == (202, None)


async def test_no_request_needs_an_earlier_one(server: McpServer, owner: Caller) -> None:
    headers = [(b"mcp-protocol-version", OLD.encode()), (b"mcp-session-id", b"unknown")]

    reply = await server.answer(request("tools/list"), owner, headers=headers)

    assert reply.status == 200


async def test_the_list_of_tools_is_that_of_the_scope_and_always_the_same(
    server: McpServer, owner: Caller
) -> None:
    reader = Caller(name="reader", scope="self,look")

    all_tools = await result(server, request("tools/list"), owner)
    again = await result(server, request("tools/list", {"cursor": None}), owner)
    few_tools = await result(server, request("tools/list"), reader)

    assert [one["name"] for one in all_tools["tools"]] == ["echo", "refuse", "wait", "break"]
    assert again == all_tools
    assert [one["name"] for one in few_tools["tools"]] == ["echo"]
    assert set(all_tools) == {"tools"}


async def test_a_tool_has_a_schema_of_its_results_and_errors(
    server: McpServer, owner: Caller
) -> None:
    tools = await result(server, request("tools/list"), owner)

    assert tools["tools"][0] == {
        "name": "echo",
        "title": "Echo",
        "description": "Run echo",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"echo": {"$ref": "#/$defs/Echo"}},
                    "required": ["echo"],
                    "additionalProperties": False,
                },
                ERROR_SCHEMA,
            ],
            "$defs": {"Echo": {"type": "object"}},
        },
        "annotations": {"readOnlyHint": True},
    }


async def test_a_cursor_is_refused_because_none_was_given_out(
    server: McpServer, owner: Caller
) -> None:
    cursors: list[object] = ["a", 1, {}]
    for cursor in cursors:
        message = request("tools/list", {"cursor": cursor})
        assert await error(server, message, owner) == (200, -32602)


async def test_a_call_returns_structured_content_and_a_text(
    server: McpServer, owner: Caller, toolbox: FakeToolbox
) -> None:
    call = {"name": "echo", "arguments": {"text": "a"}, "_meta": {"progressToken": 1}}

    answer = await result(server, request("tools/call", call), owner)

    assert answer == {
        "content": [{"type": "text", "text": "echo: a"}],
        "structuredContent": {"echo": {"text": "a"}},
        "isError": False,
    }
    assert toolbox.calls == [("echo", {"text": "a"}, owner)]


@pytest.mark.parametrize("arguments", [{}, {"arguments": None}, {"arguments": {}}])
async def test_arguments_may_be_left_out(
    server: McpServer, owner: Caller, arguments: dict[str, Any]
) -> None:
    answer = await result(server, request("tools/call", {"name": "echo", **arguments}), owner)

    assert answer["structuredContent"] == {"echo": {}}


async def test_a_refusal_of_a_tool_is_a_result(server: McpServer, owner: Caller) -> None:
    answer = await result(server, request("tools/call", {"name": "refuse"}), owner)

    assert answer["isError"] is True
    assert answer["structuredContent"]["code"] == "spawn_refused"


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"name": None},
        {"name": 1},
        {"name": "unknown"},
        {"name": "echo", "arguments": []},
        {"name": "echo", "arguments": "a"},
    ],
)
async def test_a_malformed_call_is_refused(
    server: McpServer, owner: Caller, toolbox: FakeToolbox, params: dict[str, Any] | None
) -> None:
    assert await error(server, request("tools/call", params), owner) == (200, -32602)
    assert toolbox.calls == []


async def test_a_tool_outside_the_scope_is_unknown(server: McpServer) -> None:
    reader = Caller(name="reader", scope="self,look")

    assert await error(server, request("tools/call", {"name": "refuse"}), reader) == (200, -32602)


async def test_a_bug_in_a_tool_fails_the_call_and_is_logged(
    server: McpServer, owner: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    assert await error(server, request("tools/call", {"name": "break"}), owner) == (500, -32603)
    assert "tool call failed: break" in caplog.text
    assert "a bug" in caplog.text


@pytest.mark.parametrize(
    "method", ["server/discover", "resources/list", "logging/setLevel", "tools", ""]
)
async def test_an_unknown_method_is_refused(server: McpServer, owner: Caller, method: str) -> None:
    assert await error(server, request(method), owner) == (200, -32601)


async def test_a_malformed_message_is_a_bad_request(server: McpServer, owner: Caller) -> None:
    reply = await server.answer([initialize()], owner, headers=[])

    assert reply.status == 400
    assert reply.body is not None
    assert reply.body["id"] is None
    assert reply.body["error"]["code"] == -32600


def test_the_client_of_these_tests_names_itself() -> None:
    assert initialize()["params"]["clientInfo"] == CLIENT
