"""HTTP connections over a real socket."""

import contextlib
import errno
import inspect
import os
import socket
from pathlib import Path

import orjson
import pytest
import trio
import trio.testing
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.task_group import TaskGroup
from starlette.types import Receive, Scope, Send

from supervisor.http_server import connection as one
from supervisor.http_server.connections import BY_DESCRIPTORS, BY_SETTING
from tests.support.asgi_apps import OK, flood, hello, served, wait_until

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


async def test_an_app_gets_the_uid_of_its_peer(folder: Path) -> None:
    seen = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["state"]["peer_uid"])
        await hello(scope, receive, send)

    async with served(app, folder / "s") as (_, client):
        await client.get("/")

    assert seen == [os.geteuid()]


async def test_a_failing_app_yields_a_500_response(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("my own")

    async with served(app, folder / "s") as (_, client):
        assert (await client.get("/")).status_code == 500
        assert (await client.get("/")).status_code == 500
    assert "app raised" in caplog.text


async def test_an_unread_body_does_not_block_the_connection(folder: Path) -> None:
    async with served(hello, folder / "s") as (connections, _):
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n"
        stream = await raw(folder / "s", head + b"x" * 100_000)
        await wait_until(lambda: connections.accepted == 1)

        await wait_until(lambda: len(connections) == 0)
        await stream.aclose()


async def test_an_app_that_answers_with_a_full_queue_of_body_messages_is_not_blocked(
    folder: Path,
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.testing.wait_all_tasks_blocked(0.05)  # until no more of the body is taken
        await hello(scope, receive, send)
        assert (await receive())["type"] == "http.disconnect"
        answered.set()

    answered = trio.Event()
    async with served(app, folder / "s") as (connections, _), trio.open_nursery() as nursery:
        head = b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n"
        stream = await raw(folder / "s", head)
        nursery.start_soon(send_until_broken, stream, b"x" * 3_000_000)

        assert (await stream.receive_some(15)).startswith(b"HTTP/1.1 200")
        await answered.wait()
        await wait_until(lambda: len(connections) == 0)
        nursery.cancel_scope.cancel()
    await stream.aclose()


async def send_until_broken(stream: trio.SocketStream, data: bytes) -> None:
    with contextlib.suppress(trio.BrokenResourceError):
        await stream.send_all(data)


async def test_a_client_without_requests_is_disconnected(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one, "IDLE_SECONDS", 0.05)
    async with served(hello, folder / "s") as (connections, _):
        stream = await raw(folder / "s", b"GET / HTTP/1.1\r\nHost: loc")

        assert await rest(stream) == b""
        await wait_until(lambda: len(connections) == 0)
        await stream.aclose()


async def test_a_client_that_does_not_read_is_disconnected(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one, "WRITE_SECONDS", 0.05)
    async with served(flood, folder / "s") as (connections, _):
        stream = await raw(folder / "s", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await wait_until(lambda: connections.accepted == 1)

        await wait_until(lambda: len(connections) == 0)
        await stream.aclose()


async def test_a_client_that_disconnects_mid_request_is_removed(folder: Path) -> None:
    async with served(flood, folder / "s") as (connections, _):
        stream = await raw(folder / "s", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await stream.receive_some(10)

        await stream.aclose()

        await wait_until(lambda: len(connections) == 0)


async def test_stalled_readers_do_not_delay_close(folder: Path) -> None:
    async with served(flood, folder / "s") as (connections, _):
        streams = [
            await raw(folder / "s", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(20)
        ]
        await wait_until(lambda: len(connections) == 20)

        # Less than the time after which a reader that stalls is disconnected.
        with trio.fail_after(one.WRITE_SECONDS / 2):
            await connections.close(within_seconds=0.1)
    for stream in streams:
        await stream.aclose()


async def test_close_lets_a_running_response_finish(folder: Path) -> None:
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


async def test_close_does_not_wait_for_idle_connections(folder: Path) -> None:
    async with served(hello, folder / "s") as (connections, client):
        await client.get("/")

        with trio.fail_after(15):
            await connections.close(within_seconds=60)


@pytest.mark.parametrize("limited", [BY_SETTING, BY_DESCRIPTORS])
async def test_a_connection_above_the_limit_gets_a_503(folder: Path, limited: str) -> None:
    async with served(hello, folder / "s", most=1, limited=limited) as (connections, client):
        await client.get("/")

        stream = await raw(folder / "s", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")

        answer = await rest(stream)
        assert answer.startswith(b"HTTP/1.1 503")
        head, body = answer.split(b"\r\n\r\n")
        assert orjson.loads(body)["hint"] == f"close some, or raise {limited}"
        assert b"content-length: %d" % len(body) in head
        assert connections.refused == 1
        await stream.aclose()


async def test_the_port_and_the_socket_have_separate_limits(folder: Path) -> None:
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
async def test_http2_is_refused(folder: Path, request_: bytes) -> None:
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


async def test_large_headers_are_refused(folder: Path) -> None:
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
async def test_a_malformed_request_gets_a_problem_response(folder: Path, request_: bytes) -> None:
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


async def test_a_websocket_upgrade_is_not_granted(folder: Path) -> None:
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


async def test_a_malformed_request_closes_only_its_own_connection(folder: Path) -> None:
    async with served(hello, folder / "s") as (connections, client):
        await client.get("/")
        for nonsense in (b"\x00\xff\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nA\r\n\r\n"):
            stream = await raw(folder / "s", nonsense)
            assert (await rest(stream)).startswith(b"HTTP/1.1 400")
            await stream.aclose()

        assert (await client.get("/")).text == "ok"
        await wait_until(lambda: len(connections) == 1)


# The private parts of hypercorn that connection.py overrides or uses -----------------------------


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("_check_protocol", ["self", "event"]),
        ("_create_stream", ["self", "request"]),
        ("_send_error_response", ["self", "status_code"]),
    ],
)
def test_hypercorn_still_has_each_overridden_protocol_method(
    name: str, parameters: list[str]
) -> None:
    method = vars(H11Protocol)[name]

    assert list(inspect.signature(method).parameters) == parameters
    assert inspect.iscoroutinefunction(method)


def test_hypercorn_task_group_still_starts_apps_as_overridden() -> None:
    parameters = ["self", "app", "config", "scope", "send"]

    assert list(inspect.signature(TaskGroup.spawn_app).parameters) == parameters


async def test_a_lack_of_descriptors_is_logged_once_and_passes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    accept, failures = trio.SocketListener.accept, [errno.EMFILE] * 3

    async def accept_later(listener: trio.SocketListener) -> trio.SocketStream:
        if failures:
            raise OSError(failures.pop(), "Too many open files")
        return await accept(listener)

    monkeypatch.setattr(trio.SocketListener, "accept", accept_later)
    async with served(hello, folder / "s") as (_, client):
        assert (await client.get("/")).text == "ok"

    (line,) = [record for record in caplog.records if record.name == "supervisor.http"]
    assert (line.exc_info, failures) == (None, [])
    assert line.getMessage() == "connections wait: Too many open files (0 are open)"
