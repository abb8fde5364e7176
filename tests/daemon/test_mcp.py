"""`/mcp` of the daemon: on the unix socket and on TCP, until the daemon exits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from supervisor.daemon import ExitCode
from tests.support.daemon_in_process import Home, running
from tests.support.daemon_process import free_port
from tests.support.fake_toolbox import FakeToolbox
from tests.support.mcp_messages import request


@pytest.fixture
def home(folder: Path) -> Home:
    made = Home(folder)
    made.write("[settings]\nexit_seconds = 0.05")
    return made


@pytest.fixture
def toolbox() -> FakeToolbox:
    return FakeToolbox()


def client_of(home: Home) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(uds=home.socket)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=20)


def call(name: str) -> dict[str, Any]:
    return request("tools/call", {"name": name})


async def test_the_socket_serves_the_tools(home: Home, toolbox: FakeToolbox) -> None:
    async with running(home, make_toolbox=lambda _: toolbox), client_of(home) as client:
        answer = await client.post("/mcp", json=call("echo"))

    assert answer.json()["result"]["structuredContent"] == {"echo": {}}
    assert [caller.name for _, _, caller in toolbox.calls] == ["owner"]


async def test_the_port_serves_the_tools_to_those_who_have_the_token(
    home: Home, toolbox: FakeToolbox
) -> None:
    port = free_port()
    home.write(f"[daemon]\ntcp_port = {port}")
    url = f"http://127.0.0.1:{port}/mcp"
    async with running(home, make_toolbox=lambda _: toolbox), httpx.AsyncClient() as client:
        token = (await trio.Path(home.load().daemon.token).read_text()).strip()
        headers = {"authorization": f"Bearer {token}"}

        refused = await client.post(url, json=call("echo"))
        answered = await client.post(url, json=call("echo"), headers=headers)

    assert (refused.status_code, answered.status_code) == (401, 200)
    assert len(toolbox.calls) == 1


async def test_a_daemon_without_tools_has_no_such_path(home: Home) -> None:
    async with running(home), client_of(home) as client:
        answer = await client.post("/mcp", json=call("echo"))

    assert answer.status_code == 404


async def test_a_call_that_waits_is_answered_when_the_daemon_exits(
    home: Home, toolbox: FakeToolbox
) -> None:
    answers: list[httpx.Response] = []

    async def wait(client: httpx.AsyncClient) -> None:
        answers.append(await client.post("/mcp", json=call("wait")))

    async with (
        client_of(home) as client,
        trio.open_nursery() as nursery,
        running(home, make_toolbox=lambda _: toolbox) as daemon,
    ):
        nursery.start_soon(wait, client)
        await toolbox.waiting.wait()

    assert daemon.code is ExitCode.CLEAN
    assert answers[0].json()["result"]["structuredContent"]["code"] == "draining"


async def test_a_call_ends_when_its_connection_is_closed(home: Home, toolbox: FakeToolbox) -> None:
    async with running(home, make_toolbox=lambda _: toolbox), client_of(home) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: client.post("/mcp", json=call("wait")))
            await toolbox.waiting.wait()
            nursery.cancel_scope.cancel(reason="the client gives up")

        with trio.fail_after(5):
            await toolbox.cancelled.wait()
