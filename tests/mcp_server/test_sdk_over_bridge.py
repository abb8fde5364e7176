"""The client of the official SDK, in both eras, over stdio through the bridge."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, TypeAlias

import pytest
import trio
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client

from supervisor.mcp_server import bridge
from supervisor.mcp_server.caller import Caller
from supervisor.mcp_server.endpoint import make_endpoint
from supervisor.mcp_server.hand_over import BRIDGE
from supervisor.mcp_server.server import McpServer
from tests.support.asgi_apps import served
from tests.support.fake_toolbox import INSTRUCTIONS, FakeToolbox
from tests.support.mcp_messages import NEW, OLD

Mode: TypeAlias = Literal["auto", "legacy"]
both_eras = pytest.mark.parametrize(("mode", "revision"), [("auto", NEW), ("legacy", OLD)])


@pytest.fixture
async def path(server: McpServer, owner: Caller, tmp_path: Path) -> AsyncIterator[Path]:
    """The socket that the endpoint is served on."""
    async with served(make_endpoint(server, lambda _: owner), tmp_path / "s"):
        yield tmp_path / "s"


@asynccontextmanager
async def connected(path: Path, mode: Mode) -> AsyncIterator[Client]:
    program = StdioServerParameters(
        command=sys.executable,
        args=["-I", "-S", str(BRIDGE)],
        env={bridge.SOCKET_VARIABLE: str(path), bridge.TOKEN_VARIABLE: "unread"},
    )
    async with Client(stdio_client(program), mode=mode) as client:
        yield client


@both_eras
async def test_the_client_agrees_on_a_revision(path: Path, mode: Mode, revision: str) -> None:
    async with connected(path, mode) as client:
        assert client.protocol_version == revision
        assert client.instructions == INSTRUCTIONS


@both_eras
async def test_the_client_lists_and_calls_the_tools(path: Path, mode: Mode, revision: str) -> None:
    async with connected(path, mode) as client:
        found = await client.list_tools()
        answer = await client.call_tool("echo", {"text": "é\n"})
        refusal = await client.call_tool("refuse", {})

    assert [tool.name for tool in found.tools] == ["echo", "refuse", "wait", "break"]
    assert answer.structured_content == {"echo": {"text": "é\n"}}
    assert refusal.is_error


@both_eras
@pytest.mark.parametrize("name", ["unknown", "é", "=?base64?eA==?="])
async def test_the_client_gets_an_unknown_tool_as_an_error(
    path: Path, mode: Mode, revision: str, name: str
) -> None:
    async with connected(path, mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool(name, {})

    assert caught.value.code == -32602


@both_eras
async def test_a_call_that_the_client_cancels_ends_in_the_server(
    path: Path, mode: Mode, revision: str, toolbox: FakeToolbox
) -> None:
    async with connected(path, mode) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "wait", {})
            with trio.fail_after(10):
                await toolbox.waiting.wait()
            nursery.cancel_scope.cancel(reason="the test has seen the call")
        answer = await client.call_tool("echo", {})
        with trio.fail_after(10):
            await toolbox.cancelled.wait()

    assert not answer.is_error
