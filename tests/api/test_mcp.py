"""`/mcp` of the API: behind the gate, served only if the process has tools, and while draining."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
import trio
from starlette.types import ASGIApp

from supervisor import Supervisor
from supervisor.api.app import make_app
from supervisor.api.drain import DrainState
from supervisor.http_server.gate import TcpGate
from tests.support.asgi_exchange import Exchange, ask, scope_of
from tests.support.fake_toolbox import FakeToolbox
from tests.support.mcp_messages import request

TOKEN = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"  # noqa: S105 - of no gate but this
HOST = (b"host", b"127.0.0.1:8700")
BEARER = (b"authorization", b"Bearer " + TOKEN.encode())
JSON = (b"content-type", b"application/json")


@pytest.fixture
def toolbox() -> FakeToolbox:
    return FakeToolbox()


@pytest.fixture
def app(sup: Supervisor, drain_state: DrainState, toolbox: FakeToolbox) -> ASGIApp:
    gate = TcpGate(port=8700, token=TOKEN)
    return make_app(sup, gate=gate, drain_state=drain_state, toolbox=toolbox)


def call(app: ASGIApp, name: str) -> Exchange:
    body = orjson.dumps(request("tools/call", {"name": name}))
    return Exchange(app, scope_of("POST", "/mcp", headers=[HOST, BEARER, JSON]), body)


async def test_the_owner_of_the_server_calls_the_tools(app: ASGIApp, toolbox: FakeToolbox) -> None:
    exchange = call(app, "echo")

    await exchange.run()

    assert exchange.status == 200
    ((_, _, caller),) = toolbox.calls
    assert (caller.name, caller.scope, caller.session_id) == ("owner", "all", None)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([HOST, JSON], 401),
        ([HOST, JSON, (b"authorization", b"Bearer " + TOKEN[::-1].encode())], 401),
        ([BEARER, JSON], 403),
        ([HOST, BEARER, JSON, (b"origin", b"http://evil.example")], 403),
        ([HOST, BEARER, JSON, (b"origin", b"null")], 403),
    ],
)
async def test_a_stranger_is_refused_by_the_gate(
    app: ASGIApp, toolbox: FakeToolbox, headers: list[tuple[bytes, bytes]], status: int
) -> None:
    body = orjson.dumps(request("tools/call", {"name": "echo"}))

    exchange = await ask(app, "POST", "/mcp", headers=headers, body=body)

    assert exchange.status == status
    assert toolbox.calls == []


async def test_there_is_no_such_path_without_tools(
    sup: Supervisor, drain_state: DrainState
) -> None:
    app = make_app(sup, gate=TcpGate(port=8700, token=TOKEN), drain_state=drain_state)
    exchange = call(app, "echo")

    await exchange.run()

    assert (exchange.status, exchange.json["code"]) == (404, "no_such_route")


async def test_a_waiting_call_ends_with_a_result_when_the_server_closes(
    app: ASGIApp, toolbox: FakeToolbox, drain_state: DrainState, nursery: trio.Nursery
) -> None:
    exchange = call(app, "wait")
    nursery.start_soon(exchange.run)
    await toolbox.waiting.wait()
    assert drain_state.open_streams == 1

    drain_state.close()
    await exchange.is_over.wait()

    assert drain_state.open_streams == 0
    assert refusal(exchange) == ("draining", "after", 5)


async def test_a_call_after_that_is_refused_by_a_result(
    app: ASGIApp, toolbox: FakeToolbox, drain_state: DrainState
) -> None:
    drain_state.close()
    exchange = call(app, "echo")

    await exchange.run()

    assert refusal(exchange) == ("draining", "after", 5)
    assert toolbox.calls == []


def refusal(exchange: Exchange) -> tuple[Any, ...]:
    assert exchange.status == 200
    result = exchange.json["result"]
    assert result["isError"] is True
    error = result["structuredContent"]
    return error["code"], error["retry"], error["after_seconds"]
