"""10,000 random messages: each is answered, and none makes the server fail.

Most are a valid request of either revision with a few values replaced or removed; so they come far.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import orjson
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import ASGIApp

from supervisor.mcp_server.caller import Caller
from supervisor.mcp_server.endpoint import make_endpoint
from supervisor.mcp_server.server import McpServer
from tests.support.asgi_exchange import Exchange, scope_of
from tests.support.fake_toolbox import FakeToolbox
from tests.support.mcp_messages import META, NEW, OLD, headers_of, initialize, request, stateless

MESSAGES: Final = 10_000
BASE: Final = (b"content-type", b"application/json")

Headers: TypeAlias = list[tuple[bytes, bytes]]

VALID: Final[list[dict[str, Any]]] = [
    initialize(),
    request("ping"),
    request("tools/list"),
    request("tools/call", {"name": "echo", "arguments": {"text": "a"}}),
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    stateless("server/discover"),
    stateless("tools/list"),
    stateless("tools/call", name="echo", arguments={"text": "a"}),
    stateless("tools/call", name="refuse"),
]
JUNK: Final[list[Any]] = [
    None, True, 0, -1, 1.5, 2**63 - 1, "", "a", "\x00", "é", "2.0", OLD, NEW, "v9", [], [[]], {},
    {"a": None}, {"_meta": {}}, f"{META}protocolVersion", "tools/call", "echo", "unknown", "tools/",
]  # fmt: skip
HEADER_JUNK: Final = [b"", b"a", b"\xff", b"=?base64?", b"=?base64?\xff?=", b"=?base64?ZWNobw==?="]


def mutated(value: Any, rng: random.Random) -> Any:  # noqa: ANN401 - any JSON
    """Return the value with one part, at any depth, replaced, removed or added."""
    if not isinstance(value, dict) or not value or rng.random() < 0.1:
        return copy.deepcopy(rng.choice(JUNK))
    key = rng.choice(list(value))
    match rng.randrange(4):
        case 0:
            return {name: one for name, one in value.items() if name != key}
        case 1:
            return {**value, str(rng.choice(JUNK)): rng.choice(JUNK)}
        case _:
            return {**value, key: mutated(value[key], rng)}


def random_message(rng: random.Random) -> tuple[bytes, Headers]:
    message: Any = rng.choice(VALID)
    is_new = META + "protocolVersion" in message.get("params", {}).get("_meta", {})
    headers = headers_of(message) if is_new else []
    for _ in range(rng.randrange(4)):
        message = mutated(message, rng)
    body = orjson.dumps(message)
    if rng.random() < 0.1:
        at = rng.randrange(len(body))
        body = body[:at] + bytes([rng.randrange(256)]) + body[at + rng.randrange(2) :]
    if rng.random() < 0.2:
        name = rng.choice([b"mcp-protocol-version", b"mcp-method", b"mcp-name"])
        value = rng.choice([*HEADER_JUNK, OLD.encode(), NEW.encode()])
        headers = [one for one in headers if one[0] != name or rng.random() < 0.3]
        headers.append((name, value))
    return body, headers


def checked(exchange: Exchange) -> tuple[int, int | None]:
    """Return the status and the code of the error, if the answer is one of the protocol."""
    assert exchange.status in (200, 202, 400, 404)
    if exchange.status == 202:
        assert exchange.body == b""
        return exchange.status, None
    answer = exchange.json
    assert answer["jsonrpc"] == "2.0"
    assert ("result" in answer) != ("error" in answer)
    if "result" in answer:
        assert exchange.status == 200
        return exchange.status, None
    return exchange.status, int(answer["error"]["code"])


def with_app(work: Callable[[ASGIApp], Any]) -> None:
    app = make_endpoint(
        McpServer(FakeToolbox(), "1.2.3"), lambda _: Caller(name="owner", scope="all")
    )
    trio.run(work, app)


async def post(app: ASGIApp, body: bytes, headers: Headers) -> Exchange:
    exchange = Exchange(app, scope_of("POST", "/mcp", headers=[BASE, *headers]), body)
    await exchange.run()
    return exchange


def test_10_000_random_messages_are_answered() -> None:
    rng = random.Random(127)
    seen: Counter[tuple[int, int | None]] = Counter()

    async def send_all(app: ASGIApp) -> None:
        for _ in range(MESSAGES):
            body, headers = random_message(rng)
            try:
                seen[checked(await post(app, body, headers))] += 1
            except AssertionError as failure:
                raise AssertionError(f"{body!r} with {headers}") from failure

    with_app(send_all)

    # The messages reach every answer that this server has.
    assert set(seen) == {
        (200, None),
        (202, None),
        (200, -32601),
        (200, -32602),
        (400, -32700),
        (400, -32600),
        (400, -32602),
        (400, -32020),
        (400, -32022),
        (404, -32601),
    }
    assert seen[200, None] > MESSAGES / 10


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.text(max_size=3), inside),
    max_leaves=4,
)


@settings(max_examples=200, deadline=None, database=None)
@given(ANY_JSON.map(orjson.dumps) | st.binary(max_size=20))
def test_any_json_and_any_bytes_are_answered(body: bytes) -> None:
    async def send(app: ASGIApp) -> None:
        checked(await post(app, body, []))

    with_app(send)
