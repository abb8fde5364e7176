"""Connections over a real socket: what an app sees of them, and how they end."""

import os
import socket
from pathlib import Path

import orjson
import pytest
import trio
import trio.testing
from starlette.types import Receive, Scope, Send

from supervisor.daemon.listening import connection as one

from .apps import OK, flood, hello, served, wait_until

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\n"
    b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n"
)


async def raw(path: Path, data: bytes) -> trio.SocketStream:
    stream = await trio.open_unix_socket(str(path))
    await stream.send_all(data)
    return stream


async def rest(stream: trio.SocketStream) -> bytes:
    read = b""
    try:
        async for chunk in stream:
            read += chunk
    except trio.BrokenResourceError:
        pass  # it was closed with something of ours unread
    return read


async def test_a_request_is_answered(folder: Path) -> None:
    async with served(hello, folder / "s") as (_, client):
        assert (await client.get("/")).text == "ok"


async def test_one_connection_serves_many_requests(folder: Path) -> None:
    async with served(hello, folder / "s") as (connections, client):
        for _ in range(5):
            await client.get("/")

        assert len(connections) == 1


async def test_an_app_is_told_who_asks(folder: Path) -> None:
    seen = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["state"]["peer_uid"])
        await hello(scope, receive, send)

    async with served(app, folder / "s") as (_, client):
        await client.get("/")

    assert seen == [os.geteuid()]


async def test_an_app_that_fails_is_answered_for(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("my own")

    async with served(app, folder / "s") as (_, client):
        assert (await client.get("/")).status_code == 500
        assert (await client.get("/")).status_code == 500
    assert "an app has failed" in caplog.text


async def test_a_body_that_no_app_reads_leaves_nothing_behind(folder: Path) -> None:
    async with served(hello, folder / "s") as (connections, _):
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n"
        stream = await raw(folder / "s", head + b"x" * 100_000)
        await wait_until(lambda: connections.taken == 1)

        await wait_until(lambda: len(connections) == 0)
        await stream.aclose()


async def test_who_sends_no_request_is_let_go(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one, "IDLE_SECONDS", 0.05)
    async with served(hello, folder / "s") as (connections, _):
        stream = await raw(folder / "s", b"GET / HTTP/1.1\r\nHost: loc")

        assert await rest(stream) == b""
        await wait_until(lambda: len(connections) == 0)
        await stream.aclose()


async def test_who_takes_nothing_is_let_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one, "WRITE_SECONDS", 0.05)
    async with served(flood, folder / "s") as (connections, _):
        stream = await raw(folder / "s", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await wait_until(lambda: connections.taken == 1)

        await wait_until(lambda: len(connections) == 0)
        await stream.aclose()


async def test_who_hangs_up_in_the_middle_is_forgotten(folder: Path) -> None:
    async with served(flood, folder / "s") as (connections, _):
        stream = await raw(folder / "s", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await stream.receive_some(10)

        await stream.aclose()

        await wait_until(lambda: len(connections) == 0)


async def test_readers_that_stand_still_do_not_hold_the_end(folder: Path) -> None:
    async with served(flood, folder / "s") as (connections, _):
        streams = [
            await raw(folder / "s", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(20)
        ]
        await wait_until(lambda: len(connections) == 20)
        began = trio.current_time()

        await connections.close(within_seconds=0.1)

        assert trio.current_time() - began < 2
    for stream in streams:
        await stream.aclose()


async def test_closing_lets_an_answer_end(folder: Path) -> None:
    may_end, began = trio.Event(), trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        began.set()
        await may_end.wait()
        await hello(scope, receive, send)

    async with served(app, folder / "s") as (connections, client), trio.open_nursery() as nursery:
        answers = []

        async def ask() -> None:
            answers.append((await client.get("/")).text)

        nursery.start_soon(ask)
        await began.wait()
        nursery.start_soon(connections.close)
        await trio.testing.wait_all_tasks_blocked(0.01)
        may_end.set()
    assert answers == ["ok"]


async def test_closing_does_not_wait_for_who_asks_nothing(folder: Path) -> None:
    async with served(hello, folder / "s") as (connections, client):
        await client.get("/")

        with trio.fail_after(2):
            await connections.close(within_seconds=60)


async def test_who_comes_when_it_is_full_hears_so(folder: Path) -> None:
    async with served(hello, folder / "s", most=1) as (connections, client):
        await client.get("/")

        stream = await raw(folder / "s", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")

        answer = await rest(stream)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b'"hint":"close some' in answer
        assert connections.refused == 1
        await stream.aclose()


async def test_who_fills_the_port_does_not_fill_the_socket(folder: Path) -> None:
    async with served(hello, folder / "s", most=1) as (connections, client):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            await connections.listen(listener, hello)
            async with await trio.open_tcp_stream(*listener.getsockname()) as greedy:
                await greedy.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert (await greedy.receive_some()).startswith(b"HTTP/1.1 200")

                assert (await client.get("/")).text == "ok"


@pytest.mark.parametrize(
    "request_",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        UPGRADE,
    ],
    ids=["preface", "upgrade"],
)
async def test_there_is_no_way_into_http2(folder: Path, request_: bytes) -> None:
    versions = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        versions.append(scope["http_version"])
        await send({**OK, "headers": [(b"content-length", b"2"), (b"connection", b"close")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async with served(app, folder / "s"):
        stream = await raw(folder / "s", request_)

        assert (await rest(stream)).startswith(b"HTTP/1.1 ")
        await stream.aclose()
    assert set(versions) <= {"1.1"}


async def test_headers_have_a_bound(folder: Path) -> None:
    async with served(hello, folder / "s"):
        stream = await raw(folder / "s", b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000)

        assert (await rest(stream)).startswith(b"HTTP/1.1 431")
        await stream.aclose()


LOCAL = b"Host: localhost\r\n"
NO_HTTP = {
    "no request": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\n" + LOCAL + LOCAL + b"\r\n",
    "another version": b"GET / HTTP/2.0\r\n" + LOCAL + b"\r\n",
    "no name": b"GET / HTTP/1.1\r\n" + LOCAL + b"nonsense\r\n\r\n",
    "a blank in a name": b"GET / HTTP/1.1\r\n" + LOCAL + b"X : y\r\n\r\n",
    "a blank in the path": b"GET /a b HTTP/1.1\r\n" + LOCAL + b"\r\n",
    "no length": b"POST / HTTP/1.1\r\n" + LOCAL + b"Content-Length: -1\r\n\r\n{}",
    "two lengths": b"POST / HTTP/1.1\r\n"
    + LOCAL
    + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a length and chunks": b"POST / HTTP/1.1\r\n"
    + LOCAL
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    + b"GET / HTTP/1.1\r\n"
    + LOCAL
    + b"\r\n",
    "unknown coding": b"POST / HTTP/1.1\r\n" + LOCAL + b"Transfer-Encoding: gzip\r\n\r\nx",
}


@pytest.mark.parametrize("request_", NO_HTTP.values(), ids=NO_HTTP)
async def test_what_is_no_http_hears_so_as_everybody_hears_of_problems(
    folder: Path, request_: bytes
) -> None:
    asked = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope["path"])

    async with served(app, folder / "s"):
        stream = await raw(folder / "s", request_)
        head, _, content = (await rest(stream)).partition(b"\r\n\r\n")
        await stream.aclose()

    assert head.startswith(b"HTTP/1.1 400")
    assert b"application/problem+json" in head
    assert orjson.loads(content)["code"] == "bad_http"
    assert orjson.loads(content)["hint"]
    assert asked == []


async def test_there_is_no_way_into_a_web_socket(folder: Path) -> None:
    kinds = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        kinds.append(scope["type"])
        await hello(scope, receive, send)

    async with served(app, folder / "s"):
        stream = await raw(
            folder / "s",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        assert (await stream.receive_some(1000)).startswith(b"HTTP/1.1 200")
        await stream.aclose()
    assert kinds == ["http"]


async def test_nonsense_ends_its_own_connection_and_no_other(folder: Path) -> None:
    async with served(hello, folder / "s") as (connections, client):
        await client.get("/")
        for nonsense in (b"\x00\xff\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nA\r\n\r\n"):
            stream = await raw(folder / "s", nonsense)
            assert (await rest(stream)).startswith(b"HTTP/1.1 400")
            await stream.aclose()

        assert (await client.get("/")).text == "ok"
        await wait_until(lambda: len(connections) == 1)
