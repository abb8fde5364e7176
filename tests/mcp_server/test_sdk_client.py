"""The client of the official SDK, in both eras, against the endpoint on a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, TypeAlias

import httpx2
import jsonschema  # type: ignore[import-untyped] # its stubs are another package
import pytest
import trio
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from supervisor.mcp_server.caller import Caller
from supervisor.mcp_server.endpoint import make_endpoint
from supervisor.mcp_server.server import McpServer
from tests.support.asgi_apps import served
from tests.support.fake_toolbox import INSTRUCTIONS, FakeToolbox
from tests.support.mcp_messages import NEW, OLD

Mode: TypeAlias = Literal["auto", "legacy"]
ERAS: list[tuple[Mode, str]] = [("auto", NEW), ("legacy", OLD)]
both_eras = pytest.mark.parametrize(("mode", "revision"), ERAS)


@pytest.fixture
async def path(server: McpServer, owner: Caller, tmp_path: Path) -> AsyncIterator[Path]:
    """The socket that the endpoint is served on."""
    app = make_endpoint(server, lambda _: owner)
    async with served(app, tmp_path / "s"):
        yield tmp_path / "s"


@asynccontextmanager
async def connected(path: Path, mode: Mode) -> AsyncIterator[Client]:
    transport = httpx2.AsyncHTTPTransport(uds=str(path))
    async with (
        httpx2.AsyncClient(transport=transport) as http,
        Client(
            streamable_http_client("http://localhost/mcp", http_client=http), mode=mode
        ) as client,
    ):
        yield client


@both_eras
async def test_the_client_agrees_on_a_revision(path: Path, mode: Mode, revision: str) -> None:
    async with connected(path, mode) as client:
        assert client.protocol_version == revision
        assert client.instructions == INSTRUCTIONS
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("understudy", "1.2.3")


@both_eras
async def test_the_client_lists_the_tools(path: Path, mode: Mode, revision: str) -> None:
    async with connected(path, mode) as client:
        found = await client.list_tools()

    assert [tool.name for tool in found.tools] == ["echo", "refuse", "wait", "break"]
    assert found.next_cursor is None


@both_eras
async def test_the_client_checks_the_result_of_a_call(
    path: Path, mode: Mode, revision: str
) -> None:
    async with connected(path, mode) as client:
        await client.list_tools()  # from here on it validates structured content
        answer = await client.call_tool("echo", {"text": "é"})

    assert answer.structured_content == {"echo": {"text": "é"}}
    assert not answer.is_error


@both_eras
async def test_the_client_gets_a_refusal_as_a_result(path: Path, mode: Mode, revision: str) -> None:
    async with connected(path, mode) as client:
        answer = await client.call_tool("refuse", {})

    assert answer.is_error
    assert answer.structured_content["code"] == "spawn_refused"


@pytest.mark.parametrize("name", ["echo", "refuse"])
async def test_results_and_errors_fit_the_published_schema(path: Path, name: str) -> None:
    async with connected(path, "auto") as client:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        answer = await client.call_tool(name, {})

    schema = schemas[name]
    assert schema is not None
    jsonschema.validate(answer.structured_content, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"neither": 1}, schema)


@both_eras
async def test_the_client_gets_an_unknown_tool_as_an_error(
    path: Path, mode: Mode, revision: str
) -> None:
    async with connected(path, mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("unknown", {})

    assert caught.value.code == -32602


@both_eras
async def test_a_call_that_the_client_cancels_ends_in_the_server(
    path: Path, mode: Mode, revision: str, toolbox: FakeToolbox
) -> None:
    async with connected(path, mode) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "wait", {})
        with trio.fail_after(5):
            await toolbox.waiting.wait()
        nursery.cancel_scope.cancel(reason="the test has seen the call")

    with trio.fail_after(5):
        await toolbox.cancelled.wait()


@both_eras
async def test_many_calls_run_at_once(
    path: Path, mode: Mode, revision: str, toolbox: FakeToolbox
) -> None:
    async with connected(path, mode) as client, trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(client.call_tool, "echo", {"text": str(number)})

    assert {call[1]["text"] for call in toolbox.calls} == {str(number) for number in range(20)}
