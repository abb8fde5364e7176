"""`/mcp` of the daemon: on the unix socket and on TCP, until the daemon exits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from supervisor.daemon import ExitCode
from supervisor.drivers.acp.agent import scripted_process
from supervisor.mcp_server.tokens import SessionTokens
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


async def test_the_port_serves_an_agent_that_got_its_tools_over_http(
    home: Home, toolbox: FakeToolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, tokens = free_port(), list[str]()
    issue = SessionTokens.issue

    def noted(self: SessionTokens, *given: Any) -> str:  # noqa: ANN401 - those of `issue`
        tokens.append(issue(self, *given))
        return tokens[-1]

    monkeypatch.setattr(SessionTokens, "issue", noted)
    command = list(scripted_process(flags=["--mcp"]).command)
    home.write(f'[daemon]\ntcp_port = {port}\n[agents.far]\ntools = "http"\ncommand = {command}\n')
    url = f"http://127.0.0.1:{port}/mcp"
    async with running(home, make_toolbox=lambda _: toolbox) as daemon, httpx.AsyncClient() as http:
        session = await daemon.remote.create("far")
        assert (await session.prompt("servers")).text == "servers: understudy\n"
        headers = {"authorization": f"Bearer {tokens[0]}"}
        answered = await http.post(url, json=call("echo"), headers=headers)
        page = {**headers, "origin": "http://evil.example"}
        assert (await http.post(url, json=call("echo"), headers=page)).status_code == 403
        elsewhere = await http.get(f"http://127.0.0.1:{port}/v1/agents", headers=headers)
        await session.stop()
        ended = await http.post(url, json=call("echo"), headers=headers)

    assert (answered.status_code, elsewhere.status_code, ended.status_code) == (200, 401, 401)
    assert [caller.session_id for _, _, caller in toolbox.calls] == [session.id]


async def test_a_daemon_has_the_tools_of_sessions(home: Home) -> None:
    async with running(home), client_of(home) as client:
        answer = await client.post("/mcp", json=request("tools/list", {}))

    assert answer.status_code == 200
    assert "tools" in answer.json()["result"]


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
