"""`POST /mcp` over ASGI: what is wrong with a request, and what with its message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
import pytest
import trio
from starlette.types import ASGIApp, Scope

from actors.testing import settle
from supervisor.http_server.body import BODY_SECONDS, MAX_BODY_BYTES
from supervisor.http_server.problems import RequestRefused
from supervisor.mcp_server.caller import Caller
from supervisor.mcp_server.endpoint import make_endpoint
from supervisor.mcp_server.server import McpServer
from tests.support.asgi_exchange import Exchange, ask, scope_of
from tests.support.fake_toolbox import FakeToolbox
from tests.support.mcp_messages import OLD, headers_of, initialize, request, stateless

JSON = (b"content-type", b"application/json")
ACCEPT = (b"accept", b"application/json, text/event-stream")
BOTH = (JSON, ACCEPT)


@pytest.fixture
def app(server: McpServer, owner: Caller) -> ASGIApp:
    return make_endpoint(server, lambda _: owner)


async def post(
    app: ASGIApp, message: object, headers: Iterable[tuple[bytes, bytes]] = BOTH
) -> Exchange:
    body = message if isinstance(message, bytes) else orjson.dumps(message)
    return await ask(app, "POST", "/mcp", headers=headers, body=body)


def code(exchange: Exchange) -> tuple[int | None, Any]:
    return exchange.status, exchange.json["error"]["code"]


async def test_a_request_of_either_revision_is_answered_with_json(app: ASGIApp) -> None:
    new = stateless("tools/list")

    first = await post(app, initialize())
    second = await post(app, new, [*BOTH, *headers_of(new)])

    for exchange in (first, second):
        assert exchange.status == 200
        assert exchange.headers["content-type"] == "application/json"
        assert "mcp-session-id" not in exchange.headers
    assert first.json["result"]["protocolVersion"] == OLD
    assert second.json["result"]["resultType"] == "complete"


async def test_a_notification_is_accepted_without_a_body(app: ASGIApp) -> None:
    exchange = await post(app, {"jsonrpc": "2.0", "method": "notifications/initialized"})

    assert (exchange.status, exchange.body) == (202, b"")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"])
async def test_only_post_is_allowed(app: ASGIApp, method: str) -> None:
    exchange = await ask(app, method, "/mcp", headers=BOTH)

    assert exchange.status == 405
    assert exchange.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "accepted",
    [
        b"application/json",
        b"application/json, text/event-stream",
        b"text/event-stream,Application/JSON;q=0.5",
        b"*/*",
        b"application/*",
    ],
)
async def test_a_client_that_takes_json_is_answered(app: ASGIApp, accepted: bytes) -> None:
    exchange = await post(app, request("ping"), [JSON, (b"accept", accepted)])

    assert exchange.status == 200


async def test_a_client_that_does_not_say_what_it_takes_is_answered(app: ASGIApp) -> None:
    assert (await post(app, request("ping"), [JSON])).status == 200


@pytest.mark.parametrize("accepted", [b"text/event-stream", b"text/*", b"", b"application/jsonp"])
async def test_a_client_that_takes_no_json_is_refused(app: ASGIApp, accepted: bytes) -> None:
    exchange = await post(app, request("ping"), [JSON, (b"accept", accepted)])

    assert (exchange.status, exchange.json["code"]) == (406, "not_acceptable")


@pytest.mark.parametrize("kind", [b"text/plain", b"application/jsonp", b"application/json; a=b"])
async def test_a_body_of_another_type_is_refused(app: ASGIApp, kind: bytes) -> None:
    exchange = await post(app, request("ping"), [(b"content-type", kind)])

    assert (exchange.status, exchange.json["code"]) == (415, "not_json")


async def test_a_header_that_is_given_twice_is_refused(app: ASGIApp) -> None:
    for header in (JSON, ACCEPT):
        exchange = await post(app, request("ping"), [*BOTH, header])
        assert exchange.status == 422


@pytest.mark.parametrize(
    "body",
    [b"{", b"\xff", b"nothing", b'{"a":1,"a":2}', b"[" * 70 + b"]" * 70, b'{"id":NaN}'],
    ids=repr,
)
async def test_a_body_that_is_no_json_is_a_parse_error(app: ASGIApp, body: bytes) -> None:
    exchange = await post(app, body)

    assert code(exchange) == (400, -32700)
    assert exchange.json["id"] is None


@pytest.mark.parametrize("body", [b"", b"  ", b"{}", b"[]", b"null", b"1", b'"a"'])
async def test_json_that_is_no_message_is_an_invalid_request(app: ASGIApp, body: bytes) -> None:
    assert code(await post(app, body)) == (400, -32600)


async def test_a_body_that_is_too_large_is_refused(app: ASGIApp) -> None:
    exchange = await post(app, b'"' + b"a" * MAX_BODY_BYTES + b'"')

    assert (exchange.status, exchange.json["code"]) == (413, "too_large")


async def test_a_body_that_is_too_slow_is_refused(
    app: ASGIApp, autojump_clock: trio.testing.MockClock
) -> None:
    exchange = Exchange(app, scope_of("POST", "/mcp", headers=BOTH), None)
    exchange.feed(b'{"jsonrpc"', more=True)

    with trio.fail_after(BODY_SECONDS + 5):
        await exchange.run()

    assert (exchange.status, exchange.json["code"]) == (408, "too_slow")


async def test_a_caller_without_credential_is_refused_with_a_challenge(
    server: McpServer, toolbox: FakeToolbox
) -> None:
    def refuse(_: Scope) -> Caller:
        raise RequestRefused("unauthorized", "no token", hint="send one")

    message = request("tools/call", {"name": "echo"})

    exchange = await post(make_endpoint(server, refuse), message)

    assert (exchange.status, exchange.json["code"]) == (401, "unauthorized")
    assert exchange.headers["www-authenticate"].startswith("Bearer")
    assert toolbox.calls == []


async def test_the_caller_is_who_the_request_comes_from(
    server: McpServer, toolbox: FakeToolbox
) -> None:
    def by_header(scope: Scope) -> Caller:
        return Caller(name=dict(scope["headers"])[b"x-name"].decode(), scope="self")

    message = request("tools/call", {"name": "echo"})

    await post(make_endpoint(server, by_header), message, [*BOTH, (b"x-name", b"someone")])

    assert [call[2].name for call in toolbox.calls] == ["someone"]


async def test_a_bug_is_an_internal_error(app: ASGIApp) -> None:
    exchange = await post(app, request("tools/call", {"name": "break"}))

    assert code(exchange) == (500, -32603)
    assert exchange.json["id"] == 1


# Calls that wait ------------------------------------------------------------------------


async def test_a_call_that_waits_answers_when_there_are_news(
    app: ASGIApp, toolbox: FakeToolbox, nursery: trio.Nursery
) -> None:
    exchange = waiting(app)
    nursery.start_soon(exchange.run)
    await toolbox.waiting.wait()
    await settle()
    assert exchange.status is None

    toolbox.news.set()
    await exchange.is_over.wait()

    assert exchange.status == 200


async def test_a_call_ends_when_its_client_disconnects(
    app: ASGIApp, toolbox: FakeToolbox, nursery: trio.Nursery
) -> None:
    exchange = waiting(app)
    nursery.start_soon(exchange.run)
    await toolbox.waiting.wait()

    exchange.hang_up()
    await exchange.is_over.wait()

    assert toolbox.cancelled.is_set()
    assert exchange.status is None


async def test_a_client_that_leaves_before_its_message_was_read_gets_nothing(
    app: ASGIApp, toolbox: FakeToolbox
) -> None:
    exchange = Exchange(app, scope_of("POST", "/mcp", headers=BOTH), None)
    exchange.feed(b'{"jsonrpc"', more=True)
    exchange.hang_up()

    await exchange.run()

    assert exchange.status is None
    assert toolbox.calls == []


def waiting(app: ASGIApp) -> Exchange:
    """A call that waits for news."""
    body = orjson.dumps(request("tools/call", {"name": "wait"}))
    return Exchange(app, scope_of("POST", "/mcp", headers=BOTH), body)
