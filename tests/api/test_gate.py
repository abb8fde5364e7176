"""The gate: who may ask at all, on a unix socket and on a port."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from actors.testing import settle
from supervisor.drivers.identity import ProcessIdentity
from supervisor.http_server.gate import (
    MAX_HEADER_BYTES,
    AgentPolicy,
    Gate,
    Gated,
    TcpGate,
    UnixGate,
)
from supervisor.http_server.peer import PEER_GUARDIANS, PEER_UID
from tests.support.asgi_exchange import Exchange, ask, scope_of

TOKEN = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"  # noqa: S105 - of no gate but these
BEARER = (b"authorization", b"Bearer " + TOKEN.encode())
HOST = (b"host", b"127.0.0.1:8700")
LOCALHOST = (b"host", b"localhost")

TCP = TcpGate(port=8700, token=TOKEN, origins=frozenset({"http://127.0.0.1:8700"}))
UNIX = UnixGate(own_uid=None)


async def inside(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer that the request passed the gate."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"in", "more_body": False})


async def knock(gate: Gate, *headers: tuple[bytes, bytes], app: ASGIApp = inside) -> Exchange:
    return await ask(Gated(app, gate), "GET", "/", headers=headers)


async def refusal(gate: Gate, *headers: tuple[bytes, bytes]) -> tuple[int | None, str]:
    answer = await knock(gate, *headers)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["hint"]
    return answer.status, answer.json["code"]


# A port ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", [b"127.0.0.1:8700", b"localhost:8700"])
async def test_the_right_host_and_token_pass_the_tcp_gate(host: bytes) -> None:
    assert (await knock(TCP, (b"host", host), BEARER)).body == b"in"


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        b"",
        b"Bearer",
        b"Bearer ",
        b"bearer " + TOKEN.encode(),
        b"Bearer  " + TOKEN.encode(),
        b"Bearer " + TOKEN[:-1].encode(),
        b"Bearer " + TOKEN.encode() + b"x",
        b"Bearer " + TOKEN.swapcase().encode(),
        b"Basic " + TOKEN.encode(),
        TOKEN.encode(),
        b"Bearer \xff\xfe",
    ],
)
async def test_a_request_without_the_exact_token_is_refused(authorization: bytes | None) -> None:
    headers = [] if authorization is None else [(b"authorization", authorization)]

    answer = await knock(TCP, HOST, *headers)

    assert (answer.status, answer.json["code"]) == (401, "unauthorized")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert TOKEN not in answer.body.decode()


async def test_a_request_with_two_tokens_is_refused() -> None:
    assert await refusal(TCP, HOST, BEARER, BEARER) == (401, "unauthorized")


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        [b""],
        [b"127.0.0.1"],
        [b"localhost"],
        [b"127.0.0.1:8701"],
        [b"127.0.0.1:08700"],
        [b"evil.example:8700"],
        [b"localhost:8700.evil.example"],
        [b"localhost:8700@evil.example"],
        [b"127.1:8700"],
        [b"[::1]:8700"],
        [b"0.0.0.0:8700"],
        [b" 127.0.0.1:8700"],
        [b"127.0.0.1:8700", b"127.0.0.1:8700"],
        [b"127.0.0.1:8700", b"evil.example"],
        [b"127.0.0.1:8700\n"],
    ],
)
async def test_another_host_is_refused_even_with_the_token(hosts: Iterable[bytes]) -> None:
    headers = [(b"host", host) for host in hosts]

    assert await refusal(TCP, *headers, BEARER) == (403, "forbidden_host")


@pytest.mark.parametrize(
    "origin",
    [b"http://evil.example", b"null", b"", b"http://127.0.0.1:87000", b"HTTP://127.0.0.1:8700"],
)
async def test_an_unlisted_origin_is_refused_even_with_the_token(origin: bytes) -> None:
    assert await refusal(TCP, HOST, BEARER, (b"origin", origin)) == (403, "forbidden_origin")


async def test_a_valid_origin_does_not_hide_an_invalid_origin() -> None:
    good, bad = (b"origin", b"http://127.0.0.1:8700"), (b"origin", b"http://evil.example")

    assert (await knock(TCP, HOST, BEARER, good)).body == b"in"
    assert await refusal(TCP, HOST, BEARER, good, bad) == (403, "forbidden_origin")


async def test_the_null_origin_cannot_be_allowed() -> None:
    gate = TcpGate(port=8700, token=TOKEN, origins=frozenset({"null"}))

    assert await refusal(gate, HOST, BEARER, (b"origin", b"null")) == (403, "forbidden_origin")


def test_a_gate_does_not_show_its_token() -> None:
    assert TOKEN not in repr(TCP)


@pytest.mark.parametrize("token", ["", "short", "x" * 31, "ä" * 40, "x" * 40 + "\n"])
def test_a_short_or_unprintable_token_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="a token has at least 32"):
        TcpGate(port=8700, token=token)


# A unix socket ---------------------------------------------------------------------------------


async def test_the_unix_gate_needs_only_the_host() -> None:
    assert (await knock(UNIX, LOCALHOST)).body == b"in"


@pytest.mark.parametrize("host", [b"", b"localhost:80", b"127.0.0.1", b"evil.example"])
async def test_the_unix_gate_refuses_another_host(host: bytes) -> None:
    assert await refusal(UNIX, (b"host", host)) == (403, "forbidden_host")


async def test_the_unix_gate_refuses_an_unlisted_origin() -> None:
    assert await refusal(UNIX, LOCALHOST, (b"origin", b"null")) == (403, "forbidden_origin")


@pytest.mark.parametrize(("state", "status"), [({PEER_UID: 7}, 200), ({PEER_UID: 8}, 403)])
async def test_the_unix_gate_refuses_another_user(state: dict[str, Any], status: int) -> None:
    exchange = Exchange(
        Gated(inside, UnixGate(own_uid=7)), scope_of("GET", "/", headers=[LOCALHOST], state=state)
    )
    await exchange.run()

    assert exchange.status == status


@pytest.mark.parametrize("state", [{}, {PEER_UID: None}, {PEER_UID: 0}])
async def test_the_unix_gate_refuses_an_unknown_peer(state: dict[str, Any]) -> None:
    exchange = Exchange(
        Gated(inside, UnixGate(own_uid=7)), scope_of("GET", "/", headers=[LOCALHOST], state=state)
    )
    await exchange.run()

    assert (exchange.status, exchange.json["code"]) == (403, "forbidden_peer")


# Agents ----------------------------------------------------------------------------------------

GUARDIAN = ProcessIdentity(7, 1, "boot")


async def knock_from(guardians: object, policy: AgentPolicy) -> Exchange:
    gate = UnixGate(own_uid=7, agent_policy=policy)
    state = {PEER_UID: 7, PEER_GUARDIANS: guardians}
    exchange = Exchange(Gated(inside, gate), scope_of("GET", "/", headers=[LOCALHOST], state=state))
    await exchange.run()
    return exchange


async def test_the_unix_gate_refuses_a_process_of_an_agent() -> None:
    refused = await knock_from(frozenset({GUARDIAN}), AgentPolicy())

    assert (refused.status, refused.json["code"]) == (403, "forbidden_peer")
    assert "agents_may_use_api" in refused.json["hint"]


async def test_the_unix_gate_refuses_a_peer_that_has_ended() -> None:
    refused = await knock_from(None, AgentPolicy())

    assert (refused.status, refused.json["code"]) == (403, "forbidden_peer")


async def test_the_unix_gate_admits_a_process_outside_of_all_agents() -> None:
    assert (await knock_from(frozenset(), AgentPolicy())).status == 200


@pytest.mark.parametrize("guardians", [frozenset({GUARDIAN}), None])
async def test_the_setting_admits_agents_from_now_on(guardians: object) -> None:
    policy = AgentPolicy()
    policy.agents_may_use_api = True

    assert (await knock_from(guardians, policy)).status == 200


# Everything else -------------------------------------------------------------------------------


async def test_too_many_headers_are_refused_before_parsing() -> None:
    large = (b"x", b"y" * MAX_HEADER_BYTES)

    assert await refusal(UNIX, LOCALHOST, large) == (431, "headers_too_large")


async def test_a_websocket_is_refused() -> None:
    said: list[Any] = []

    async def send(message: Any) -> None:  # noqa: ANN401 - an ASGI message
        said.append(message)

    async def receive() -> Any:  # noqa: ANN401 - as above
        raise AssertionError("nobody listens")

    scope = {**scope_of("GET", "/v1/stream", headers=[LOCALHOST]), "type": "websocket"}
    await Gated(inside, UNIX)(scope, receive, send)

    assert [message["type"] for message in said] == ["websocket.close"]


async def test_lifespan_messages_are_acknowledged() -> None:
    said: list[str] = []
    coming = iter(["lifespan.startup", "lifespan.shutdown"])

    async def send(message: Any) -> None:  # noqa: ANN401 - an ASGI message
        said.append(message["type"])

    async def receive() -> Any:  # noqa: ANN401 - as above
        return {"type": next(coming)}

    await Gated(inside, UNIX)({"type": "lifespan"}, receive, send)

    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_a_refused_body_is_read_within_a_bound(nursery: Any) -> None:  # noqa: ANN401
    exchange = Exchange(Gated(inside, TCP), scope_of("POST", "/", headers=[HOST]), body=None)
    nursery.start_soon(exchange.run)
    exchange.feed(b"x" * 1000, more=True)
    await settle()
    assert exchange.status is None

    exchange.feed(b"x", more=False)
    await exchange.is_over.wait()

    assert exchange.status == 401


async def test_a_refused_client_that_sends_nothing_is_answered(nursery: Any) -> None:  # noqa: ANN401
    exchange = Exchange(Gated(inside, TCP), scope_of("POST", "/", headers=[HOST]), body=None)

    await exchange.run()

    assert exchange.status == 401
