"""The steps that call our tools: what the agent says to its MCP server, and what it makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.scripted_client import Client, Json

SERVER = {"name": "understudy", "command": "/bin/bridge", "args": ["-x"], "env": []}


class Server:
    """The MCP server of an agent in memory, which answers when the test says so."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @property
    def lines(self) -> list[Json]:
        """What the agent has sent."""
        sent = [json.loads(one.text) for one in self.client.actions if one.kind == "mcp"]
        assert all(one["server"] == SERVER for one in sent)
        return [json.loads(one["line"]) for one in sent]

    def answer(self, **answer: object) -> None:
        """Answer the last request."""
        number = [line["id"] for line in self.lines if "id" in line][-1]
        line = {"jsonrpc": "2.0", "id": number, **answer}
        self.client.agent.receive_server_line(json.dumps(line).encode())
        self.client.attend()


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def server(client: Client) -> Server:
    return Server(client)


@pytest.fixture
def session(client: Client) -> str:
    client.request("initialize", protocolVersion=1, clientCapabilities={})
    opened = client.request("session/new", cwd="/", mcpServers=[SERVER])
    return str(client.result_of(opened)["sessionId"])


def result(**structured: object) -> Mapping[str, Any]:
    return {"structuredContent": structured, "content": [], "isError": False}


def test_call_greets_the_server_once_and_says_the_results(
    client: Client, server: Server, session: str
) -> None:
    asked = client.prompt(session, 'call spawn {"text": "hello"}\ncall agents')
    server.answer(result={"protocolVersion": "2025-11-25"})
    server.answer(result=result(session="s_2"))
    server.answer(result=result(agents=[]))

    methods = [line["method"] for line in server.lines]
    assert methods == ["initialize", "notifications/initialized", "tools/call", "tools/call"]
    assert server.lines[2]["params"] == {"name": "spawn", "arguments": {"text": "hello"}}
    assert client.text == 'spawn: {"session": "s_2"}\nagents: {"agents": []}\n'
    assert client.result_of(asked) == {"stopReason": "end_turn"}


def test_a_call_is_a_tool_call_of_the_turn(client: Client, server: Server, session: str) -> None:
    client.prompt(session, "call spawn {}")
    server.answer(result={})
    server.answer(result={"isError": True, "structuredContent": {"code": "spawn_refused"}})

    begun, ended = [one for one in client.updates() if "toolCallId" in one]
    assert (begun["title"], begun["status"]) == ("understudy: spawn", "in_progress")
    assert ended["status"] == "failed"
    assert client.text == 'spawn: {"code": "spawn_refused"}\n'


def test_an_error_of_the_server_is_said(client: Client, server: Server, session: str) -> None:
    client.prompt(session, "call nothing {}")
    server.answer(result={})
    server.answer(error={"code": -32602, "message": "unknown tool"})

    assert client.text == 'nothing: {"code": -32602, "message": "unknown tool"}\n'


def test_a_cancelled_call_is_cancelled_at_the_server(
    client: Client, server: Server, session: str
) -> None:
    asked = client.prompt(session, "call wait {}")
    server.answer(result={})
    number = server.lines[-1]["id"]
    client.cancel(session)

    last = server.lines[-1]
    assert (last["method"], last["params"]) == ("notifications/cancelled", {"requestId": number})
    assert client.result_of(asked) == {"stopReason": "cancelled"}


def test_a_server_that_ends_fails_the_call_and_is_greeted_again(
    client: Client, server: Server, session: str
) -> None:
    client.prompt(session, "call wait {}\ncall wait {}")
    server.answer(result={})
    client.agent.receive_server_end()
    client.attend()

    assert client.text == 'wait: {"code": 0, "message": "the MCP server has ended"}\n'
    assert [line["method"] for line in server.lines][-1] == "initialize"


def test_lines_that_answer_nothing_are_ignored(
    client: Client, server: Server, session: str
) -> None:
    client.prompt(session, "call agents")
    for line in (b"", b"no JSON", b"[1]", b'{"id": 77, "result": {}}', b'{"method": "x"}'):
        client.agent.receive_server_line(line)
    server.answer(result={})
    server.answer(result=result(agents=[]))

    assert client.text == 'agents: {"agents": []}\n'


def test_tools_says_the_names_of_the_tools(client: Client, server: Server, session: str) -> None:
    client.prompt(session, "tools")
    server.answer(result={})
    server.answer(result={"tools": [{"name": "agents"}, {"name": "spawn"}]})

    assert client.text == "tools: agents, spawn\n"


@pytest.mark.parametrize("script", ["call agents {}", "tools"])
def test_without_the_server_there_is_no_call(client: Client, script: str) -> None:
    client.request("initialize", protocolVersion=1, clientCapabilities={})
    opened = client.request("session/new", cwd="/", mcpServers=[])
    client.prompt(str(client.result_of(opened)["sessionId"]), script)

    assert "there is no MCP server understudy over stdio" in client.text
    assert client.actions == []


def test_a_server_that_cannot_be_started_is_said(session: str) -> None:
    client = Client(performs={"mcp": "no such file"})
    client.request("initialize", protocolVersion=1, clientCapabilities={})
    opened = client.request("session/new", cwd="/", mcpServers=[SERVER])
    client.prompt(str(client.result_of(opened)["sessionId"]), "call agents")

    assert client.text == 'agents: {"code": 0, "message": "no such file"}\n'


@pytest.mark.parametrize("script", ["call", "call agents [1]", "call agents {"])
def test_a_wrong_call_fails_the_turn(client: Client, session: str, script: str) -> None:
    asked = client.prompt(session, script)

    assert "write: call TOOL" in client.error_of(asked)[1]
