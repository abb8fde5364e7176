"""Every route refuses every unauthorized request: nothing is done, and nothing breaks.

The routes are those of the OpenAPI document, so a new one is attacked as soon as it is there.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from starlette.types import ASGIApp

from supervisor import Session, Supervisor
from supervisor.api.app import make_app
from supervisor.api.drain import DrainState
from supervisor.api.openapi import openapi_document
from supervisor.api.operation import Operation
from supervisor.api.routes import OPERATIONS
from supervisor.configuration import AgentCatalog, load
from supervisor.daemon.reload import Reloader
from supervisor.http_server.body import MAX_BODY_BYTES
from supervisor.http_server.gate import MAX_HEADER_BYTES, AgentPolicy, TcpGate
from tests.support.asgi_exchange import Exchange, ask, scope_of


def reloading(sup: Any = None) -> Operation:  # noqa: ANN401 - a supervisor; none, for the document
    """What only the daemon has."""
    configuration = load(cwd=None, environ={"HOME": "/nowhere"})
    return Reloader(
        sup, configuration, None, {}, AgentCatalog((), {}), agent_policy=AgentPolicy()
    ).operation()


SPEC = orjson.loads(openapi_document((*OPERATIONS, reloading()), version="0"))
ROUTES = [(method.upper(), path) for path, item in SPEC["paths"].items() for method in item]
WITH_BODY = [(method, path) for method, path in ROUTES if method in ("POST", "PATCH")]
STREAMS = ("stream", "/v1/watch")
WITHOUT_BODY = [one for one in ROUTES if one not in WITH_BODY and not one[1].endswith(STREAMS)]
WITH_IDS = [(method, path) for method, path in ROUTES if "{" in path]

SECRET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"  # noqa: S105 - of no gate but this
HOST = (b"host", b"127.0.0.1:8700")
TOKEN = (b"authorization", b"Bearer " + SECRET.encode())
JSON = (b"content-type", b"application/json")

STRANGERS = {
    "no token": ([HOST], 401),
    "a wrong token": ([HOST, (b"authorization", b"Bearer " + SECRET[::-1].encode())], 401),
    "the token elsewhere": ([HOST, (b"x-token", SECRET.encode())], 401),
    "no host": ([TOKEN], 403),
    "another host": ([(b"host", b"evil.example:8700"), TOKEN], 403),
    "another port": ([(b"host", b"127.0.0.1:8701"), TOKEN], 403),
    "a foreign page": ([HOST, TOKEN, (b"origin", b"http://evil.example")], 403),
    "a page that hides": ([HOST, TOKEN, (b"origin", b"null")], 403),
    "headers without end": ([HOST, TOKEN, (b"x", b"y" * MAX_HEADER_BYTES)], 431),
}

BODIES = {
    "plain text": ([(b"content-type", b"text/plain")], b"{}", 415),
    "a form": ([(b"content-type", b"application/x-www-form-urlencoded")], b"a=b", 415),
    "many parts": ([(b"content-type", b"multipart/form-data; boundary=x")], b"--x--", 415),
    "nothing, as a form": ([(b"content-type", b"application/x-www-form-urlencoded")], b"", 415),
    "other letters": ([(b"content-type", b"application/json; charset=utf-16")], b"{}", 415),
    "almost json": ([(b"content-type", b"application/jsonp")], b"{}", 415),
    "no type": ([], b"{}", 415),
    "squeezed": ([JSON, (b"content-encoding", b"gzip")], b"{}", 415),
    "too large": ([JSON], b'{"x":"' + b"x" * MAX_BODY_BYTES + b'"}', 413),
    "said to be too large": ([JSON, (b"content-length", b"99999999999")], b"{}", 413),
    "deep": ([JSON], b'{"x":' + b"[" * 100_000, 400),
    "deep and whole": ([JSON], b'{"x":' + b"[" * 65 + b"]" * 65 + b"}", 400),
    "half a character": ([JSON], b'{"text":"\\ud800"}', 400),
    "half a character in a name": ([JSON], b'{"\\udc00":1}', 400),
    "no text": ([JSON], b'{"text":"\xff"}', 400),
    "no number": ([JSON], b'{"x":NaN}', 400),
    "a number without end": ([JSON], b'{"x":1e999}', 400),
    "a number too large": ([JSON], b'{"x":' + b"9" * 400 + b"}", 400),
    "a name twice": ([JSON], b'{"text":"a","text":"b"}', 400),
    "no json": ([JSON], b"{text: 1}", 400),
    "no object": ([JSON], b"[]", 422),
    "an unknown name": ([JSON], b'{"__proto__":{"x":1}}', 422),
}

PATHS_IN = [
    "..", ".", "%2e%2e", "..%2f..%2f..%2fetc%2fpasswd", "%2e%2e%2f%2e%2e", "a%00b", "x%0a", "ab",
    "A_B_C", "x" * 65, "s_1;rm", "s_1'--", "%f0%9f%98%80", "%ff", "s_1%20", "*", "s-1", "s_1.json",
]  # fmt: skip


@pytest.fixture
def app(sup: Supervisor, drain_state: DrainState) -> ASGIApp:
    gate = TcpGate(port=8700, token=SECRET)
    return make_app(
        sup,
        gate=gate,
        drain_state=drain_state,
        metrics=lambda: b"",
        extra_operations=[reloading(sup)],
    )


@pytest.fixture
async def unchanged(sup: Supervisor, session: Session) -> AsyncIterator[str]:
    """The id of a session; sees that nothing has happened to it, nor to the house."""
    await session.stop()
    before = (await sup.list()).items
    yield session.id
    assert (await sup.list()).items == before


def filled(path: str, id_: str) -> str:
    return re.sub(r"{\w+}", id_, path)


def assert_harmless(answer: Exchange, status: int) -> None:
    assert answer.status == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "code", "hint"} <= answer.json.keys()
    assert SECRET not in answer.body.decode()
    assert not [name for name in answer.headers if name.startswith("access-control")]


def cases(of: dict[str, Any]) -> list[Any]:
    return [pytest.param(*given, id=name) for name, given in of.items()]


@pytest.mark.parametrize(("headers", "status"), cases(STRANGERS))
async def test_every_route_refuses_an_unauthenticated_client(
    app: ASGIApp, unchanged: str, headers: list[tuple[bytes, bytes]], status: int
) -> None:
    for method, path in (*ROUTES, ("GET", "/nowhere"), ("OPTIONS", "/v1/sessions")):
        target = filled(path, unchanged)
        answer = await ask(app, method, target, headers=[*headers, JSON], body=b"{}")
        assert_harmless(answer, status)


async def test_a_token_in_the_query_is_ignored(app: ASGIApp, unchanged: str) -> None:
    for method, path in ROUTES:
        target = f"{filled(path, unchanged)}?token={SECRET}&access_token={SECRET}"
        assert_harmless(await ask(app, method, target, headers=[HOST]), 401)


@pytest.mark.parametrize(("headers", "body", "status"), cases(BODIES))
async def test_a_body_of_another_type_is_refused_everywhere(
    app: ASGIApp,
    unchanged: str,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
    status: int,
) -> None:
    for method, path in WITH_BODY:
        target = filled(path, unchanged)
        answer = await ask(app, method, target, headers=[HOST, TOKEN, *headers], body=body)
        assert_harmless(answer, status)


@pytest.mark.parametrize(("headers", "body", "_"), cases(BODIES))
async def test_a_body_of_a_get_request_is_ignored(
    app: ASGIApp, session: Session, headers: list[tuple[bytes, bytes]], body: bytes, _: int
) -> None:
    for method, path in WITHOUT_BODY:
        # Ids that are not there, but for the session: a deletion would be one.
        target = filled(path.replace("{id}", session.id) if method == "GET" else path, "s_none")
        plain = await ask(app, method, target, headers=[HOST, TOKEN])
        answer = await ask(app, method, target, headers=[HOST, TOKEN, *headers], body=body)
        assert (answer.status, answer.headers) == (plain.status, plain.headers)
        assert answer.status is not None
        assert answer.status < 500


async def test_the_document_has_every_route_that_is_answered(app: ASGIApp, sup: Supervisor) -> None:
    served = await ask(app, "GET", "/v1/openapi.json", headers=[HOST, TOKEN])

    assert served.json["paths"] == SPEC["paths"]
    router = app._app._app  # type: ignore[attr-defined] # what is behind the gate and the guard
    assert {route.path for route in router.routes} == set(SPEC["paths"])
    for route in router.routes:
        found = {"GET", "POST", "PATCH", "DELETE", "PUT", "TRACE", "CONNECT"}
        for method in found - {name.upper() for name in SPEC["paths"][route.path]}:
            answer = await ask(
                app, method, filled(route.path, "s_none"), headers=[HOST, TOKEN, JSON], body=b"{}"
            )
            assert_harmless(answer, 405)


@pytest.mark.parametrize("id_", PATHS_IN)
async def test_a_path_id_cannot_escape_its_segment(app: ASGIApp, unchanged: str, id_: str) -> None:
    for method, path in WITH_IDS:
        for place in re.findall(r"{\w+}", path):
            target = filled(path.replace(place, id_, 1), unchanged)
            answer = await ask(app, method, target, headers=[HOST, TOKEN, JSON], body=b"{}")
            assert_harmless(answer, 404)


async def test_an_endless_body_times_out(app: ASGIApp, unchanged: str) -> None:
    for method, path in WITH_BODY:
        scope = scope_of(method, filled(path, unchanged), headers=[HOST, TOKEN, JSON])
        exchange = Exchange(app, scope, body=None)
        exchange.feed(b'{"text":', more=True)
        await exchange.run()
        assert_harmless(exchange, 408)


async def test_a_disconnect_within_the_body_has_no_effect(app: ASGIApp, unchanged: str) -> None:
    for method, path in WITH_BODY:
        scope = scope_of(method, filled(path, unchanged), headers=[HOST, TOKEN, JSON])
        exchange = Exchange(app, scope, body=None)
        exchange.feed(b"{", more=True)
        exchange.hang_up()
        await exchange.run()
        assert exchange.status is None
