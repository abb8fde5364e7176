"""The server, with real sockets: slow and stalled readers, bad peers, and how it stops."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import trio

import supervisor
from supervisor import Supervisor
from supervisor.api import serving
from supervisor.api.app import make_app
from supervisor.api.doors import Doors
from supervisor.api.gate import TcpGate, UnixGate
from supervisor.api.serving import serve

TOKEN = "t" * 43


@pytest.fixture
async def sup() -> AsyncIterator[Supervisor]:
    async with supervisor.open(":memory:") as opened:
        yield opened


@pytest.fixture
def doors() -> Doors:
    made = Doors()
    made.open()
    return made


@pytest.fixture
def stopping() -> trio.Event:
    return trio.Event()


@pytest.fixture
async def address(
    sup: Supervisor, doors: Doors, stopping: trio.Event, nursery: trio.Nursery, tmp_path: Path
) -> str:
    """A unix socket at which the app is served."""
    name = str(tmp_path / "s")
    listening = trio.socket.socket(socket.AF_UNIX)
    await listening.bind(name)
    listening.listen()
    app = make_app(sup, gate=UnixGate(own_uid=os.getuid()), doors=doors)
    listener = trio.SocketListener(listening)

    async def run(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        await serve(
            app, [listener], stopping=stopping, graceful_seconds=1.0, task_status=task_status
        )

    await nursery.start(run)
    return name


async def connect(address: str, *, buffer_bytes: int | None = None) -> trio.SocketStream:
    made = trio.socket.socket(socket.AF_UNIX)
    if buffer_bytes is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    await made.connect(address)
    return trio.SocketStream(made)


async def read_until(stream: trio.SocketStream, mark: bytes) -> bytes:
    found = b""
    with trio.fail_after(10):
        while mark not in found:
            more = await stream.receive_some()
            if not more:
                break
            found += more
    return found


def request(target: str, method: str = "GET", *headers: str, body: bytes = b"") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "host: localhost", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def client(address: str) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(uds=address)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=10)


async def test_a_session_is_made_and_watched_over_a_socket(address: str) -> None:
    async with client(address) as asking:
        made = (await asking.post("/v1/sessions", json={"agent": "echo"})).json()
        inputs = f"/v1/sessions/{made['id']}/inputs"
        receipt = (await asking.post(inputs, json={"text": "hello"})).json()
        state = (await asking.get(f"{inputs}/{receipt['input_id']}?wait=5")).json()

    assert state["result"]["text"] == "hello"


async def test_one_who_hangs_up_is_forgotten(sup: Supervisor, doors: Doors, address: str) -> None:
    session = await sup.create("echo")
    stream = await connect(address)
    await stream.send_all(request(f"/v1/sessions/{session.id}/stream"))
    await read_until(stream, b"session_started")
    assert doors.streams == 1

    await stream.aclose()

    with trio.fail_after(5):
        while doors.streams:
            await trio.sleep(0.01)


async def test_stalled_readers_are_let_go_and_slow_nobody(
    sup: Supervisor, doors: Doors, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "WRITE_SECONDS", 0.5)
    session = await sup.create("scripted")
    stalled = [await connect(address, buffer_bytes=4096) for _ in range(5)]
    for stream in stalled:
        await stream.send_all(request(f"/v1/sessions/{session.id}/stream"))
    healthy = await connect(address)
    await healthy.send_all(request(f"/v1/sessions/{session.id}/stream"))
    with trio.fail_after(10):
        while doors.streams < 6:
            await trio.sleep(0.01)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.prompt, "flood 1500")
        seen = await read_until(healthy, b"event: turn_ended")

    assert b"event: turn_ended" in seen
    with trio.fail_after(10):
        while doors.streams > 1:
            await trio.sleep(0.05)
    for stream in (*stalled, healthy):
        await stream.aclose()


async def test_one_body_that_is_too_large_is_answered_and_not_cut_off(address: str) -> None:
    async with client(address) as asking:
        answer = await asking.post(
            "/v1/sessions",
            content=b" " * (4 * 1024 * 1024),
            headers={"content-type": "application/json"},
        )

    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


async def test_headers_that_are_too_large_are_refused(address: str) -> None:
    async with client(address) as asking:
        answer = await asking.get("/v1/health", headers={"x-large": "x" * 20_000})

    assert answer.status_code == 431


async def test_a_web_socket_is_refused(address: str) -> None:
    stream = await connect(address)
    headers = ("connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13")
    await stream.send_all(
        request("/v1/stream", "GET", *headers, "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==")
    )

    assert (await read_until(stream, b"\r\n")).startswith(b"HTTP/1.1 403")
    await stream.aclose()


@pytest.mark.parametrize(
    "nonsense",
    [b"\0" * 100, b"GET /\xff HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 50],
)
async def test_nonsense_ends_its_own_connection_and_no_other(address: str, nonsense: bytes) -> None:
    stream = await connect(address)
    await stream.send_all(nonsense)
    await stream.send_eof()
    with trio.fail_after(10):
        while await stream.receive_some():
            pass
    await stream.aclose()

    async with client(address) as asking:
        assert (await asking.get("/v1/health")).status_code == 200


async def test_stopping_closes_what_is_idle_and_what_streams(
    sup: Supervisor, doors: Doors, stopping: trio.Event, address: str
) -> None:
    idle, streaming = await connect(address), await connect(address)
    await streaming.send_all(request("/v1/stream"))
    await read_until(streaming, b"retry")

    doors.close()
    stopping.set()

    with trio.fail_after(5):
        assert await idle.receive_some() == b""
        assert (await read_until(streaming, b"0\r\n\r\n")).endswith(b"0\r\n\r\n")
    await idle.aclose()
    await streaming.aclose()


async def test_a_socket_of_another_user_is_refused(
    sup: Supervisor, doors: Doors, nursery: trio.Nursery, stopping: trio.Event, tmp_path: Path
) -> None:
    listening = trio.socket.socket(socket.AF_UNIX)
    await listening.bind(str(tmp_path / "s"))
    listening.listen()
    app = make_app(sup, gate=UnixGate(own_uid=os.getuid() + 1), doors=doors)

    async def run(task_status: trio.TaskStatus[None]) -> None:
        await serve(app, [trio.SocketListener(listening)], stopping=stopping, task_status=task_status)

    await nursery.start(run)
    async with client(str(tmp_path / "s")) as asking:
        answer = await asking.get("/v1/health")
    stopping.set()

    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden_peer")


async def test_a_port_wants_the_token(
    sup: Supervisor, doors: Doors, nursery: trio.Nursery, stopping: trio.Event
) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    app = make_app(sup, gate=TcpGate(port=port, token=TOKEN), doors=doors)

    async def run(task_status: trio.TaskStatus[None]) -> None:
        await serve(app, [listener], stopping=stopping, task_status=task_status)

    await nursery.start(run)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as asking:
        without = await asking.get("/v1/health")
        with_it = await asking.get("/v1/health", headers={"authorization": f"Bearer {TOKEN}"})
    stopping.set()

    assert without.status_code == 401
    assert with_it.status_code == 200


async def test_more_connections_than_there_may_be_are_closed_at_once(
    sup: Supervisor, doors: Doors, nursery: trio.Nursery, stopping: trio.Event
) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    app = make_app(sup, gate=TcpGate(port=port, token=TOKEN), doors=doors)

    async def run(task_status: trio.TaskStatus[None]) -> None:
        await serve(
            app, [listener], stopping=stopping, max_connections=1, task_status=task_status
        )

    await nursery.start(run)
    first = await trio.open_tcp_stream("127.0.0.1", port)
    await first.send_all(request("/v1/health"))
    await read_until(first, b"403")
    second = await trio.open_tcp_stream("127.0.0.1", port)
    with trio.fail_after(5):
        assert await second.receive_some() == b""
    stopping.set()
    await first.aclose()
    await second.aclose()
