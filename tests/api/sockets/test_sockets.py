"""The app behind real sockets, as the daemon serves it: readers who stall, and who hang up."""

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
from supervisor.api import sse as streaming
from supervisor.api.app import make_app
from supervisor.api.drain import DrainState
from supervisor.http_server.connections import Connections, open_connections
from supervisor.http_server.gate import TcpGate, UnixGate
from supervisor.http_server.peer import PEER_UID

TOKEN = "t" * 43


@pytest.fixture
async def sup() -> AsyncIterator[Supervisor]:
    async with supervisor.open(":memory:") as opened:
        yield opened


@pytest.fixture
def drain_state() -> DrainState:
    made = DrainState()
    made.open()
    return made


@pytest.fixture
async def connections() -> AsyncIterator[Connections]:
    async with open_connections(max_connections=100, peer_state_key=PEER_UID) as opened:
        yield opened


@pytest.fixture
async def address(
    sup: Supervisor, drain_state: DrainState, connections: Connections, tmp_path: Path
) -> str:
    """A unix socket at which the app is served."""
    return await listen(connections, sup, drain_state, tmp_path, own_uid=os.geteuid())


async def listen(
    connections: Connections,
    sup: Supervisor,
    drain_state: DrainState,
    folder: Path,
    *,
    own_uid: int,
) -> str:
    name = str(folder / "socket")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(name)
    listener.listen()
    await connections.listen(
        listener, make_app(sup, gate=UnixGate(own_uid=own_uid), drain_state=drain_state)
    )
    return name


async def stream_of(address: str, target: str) -> trio.SocketStream:
    made = trio.socket.socket(socket.AF_UNIX)
    await made.connect(address)
    stream = trio.SocketStream(made)
    await stream.send_all(f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    return stream


async def read_until(stream: trio.SocketStream, mark: bytes) -> bytes:
    found = b""
    with trio.fail_after(20):
        while mark not in found:
            more = await stream.receive_some()
            if not more:
                break
            found += more
    return found


async def wait_for_streams(drain_state: DrainState, count: int) -> None:
    with trio.fail_after(20):
        while drain_state.open_streams != count:  # noqa: ASYNC110 - a socket has no event for its other end
            await trio.sleep(0.01)


def client(address: str) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(uds=address)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=20)


async def test_a_session_is_made_and_its_answer_waited_for(address: str) -> None:
    async with client(address) as asking:
        made = (await asking.post("/v1/sessions", json={"agent": "echo"})).json()
        inputs = f"/v1/sessions/{made['id']}/inputs"
        receipt = (await asking.post(inputs, json={"text": "hello"})).json()
        state = (await asking.get(f"{inputs}/{receipt['input_id']}?wait=20")).json()

    assert state["result"]["text"] == "hello"


async def test_a_disconnected_reader_is_dropped(
    sup: Supervisor, drain_state: DrainState, address: str
) -> None:
    session = await sup.create("echo")
    stream = await stream_of(address, f"/v1/sessions/{session.id}/stream")
    await read_until(stream, b"session_started")
    assert drain_state.open_streams == 1

    await stream.aclose()

    await wait_for_streams(drain_state, 0)


async def test_stalled_readers_are_dropped_and_delay_no_session(
    sup: Supervisor, drain_state: DrainState, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "WRITE_SECONDS", 0.3)
    session = await sup.create("scripted")
    target = f"/v1/sessions/{session.id}/stream"
    stalled = [await stream_of(address, target) for _ in range(5)]
    healthy = await stream_of(address, target)
    await wait_for_streams(drain_state, 6)

    await session.send("flood 2000")
    seen = await read_until(healthy, b"event: turn_ended")

    assert b"event: turn_ended" in seen
    await wait_for_streams(drain_state, 1)
    for stream in (*stalled, healthy):
        await stream.aclose()


async def test_a_body_that_is_too_large_is_answered_and_not_cut_off(address: str) -> None:
    async with client(address) as asking:
        answer = await asking.post(
            "/v1/sessions",
            content=b" " * (4 * 1024 * 1024),
            headers={"content-type": "application/json"},
        )

    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


async def test_a_refused_body_is_answered_and_not_cut_off(address: str) -> None:
    async with client(address) as asking:
        answer = await asking.post(
            "/v1/sessions", content=b" " * (2 * 1024 * 1024), headers={"origin": "null"}
        )

    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden_origin")


async def test_a_socket_of_another_user_is_refused(
    sup: Supervisor, drain_state: DrainState, connections: Connections, tmp_path: Path
) -> None:
    address = await listen(connections, sup, drain_state, tmp_path, own_uid=os.geteuid() + 1)

    async with client(address) as asking:
        answer = await asking.get("/v1/health")

    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden_peer")


async def test_a_port_requires_the_token(
    sup: Supervisor, drain_state: DrainState, connections: Connections
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    await connections.listen(
        listener, make_app(sup, gate=TcpGate(port=port, token=TOKEN), drain_state=drain_state)
    )

    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as asking:
        without = await asking.get("/v1/health")
        with_it = await asking.get("/v1/health", headers={"authorization": f"Bearer {TOKEN}"})

    assert (without.status_code, with_it.status_code) == (401, 200)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_body_that_no_operation_takes_does_not_block_the_connection(
    sup: Supervisor, connections: Connections, address: str, method: str
) -> None:
    session = await sup.create("echo")
    transport = httpx.AsyncHTTPTransport(uds=address)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        path = f"/v1/sessions/{session.id}"
        with trio.fail_after(20):
            for _ in range(10):
                answer = await client.request(method, path, content=b"z" * 1_100_000)
                assert answer.status_code in (200, 204, 404)  # deleted by the first
            assert (await client.get("/v1/version")).status_code == 200
        assert connections.accepted == 1
