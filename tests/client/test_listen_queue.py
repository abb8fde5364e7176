"""A daemon whose listen queue is full."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import httpcore
import httpx
import pytest
import trio
import trio.testing

from supervisor.client import DaemonBusy, address
from supervisor.client.address import Address
from supervisor.client.connection import Connection, connect_to
from supervisor.client.stream import open_stream
from tests.support.served_supervisor import Connect


@pytest.fixture
def listener(folder: Path) -> Iterator[socket.socket]:
    """Yield a listener with room for one connection, which accepts none."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(folder / "s"))
        made.listen(0)
        made.settimeout(0)
        yield made


@pytest.fixture
def crowd(listener: socket.socket) -> Iterator[list[socket.socket]]:
    """As many as the line has room for."""
    with contextlib.ExitStack() as sockets:
        crowd: list[socket.socket] = []
        while True:
            one = sockets.enter_context(socket.socket(socket.AF_UNIX))
            one.settimeout(0)
            try:
                one.connect(listener.getsockname())
            except BlockingIOError:
                break
            crowd.append(one)
        yield crowd


async def test_a_full_listen_queue_raises_daemon_busy(
    listener: socket.socket,
    crowd: list[socket.socket],
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(address, "CONNECT_RETRY_SECONDS", 0.05)

    with trio.fail_after(20), pytest.raises(DaemonBusy, match="no more connections") as refused:
        async with connect(listener.getsockname()):
            pass

    assert "nothing has happened" in refused.value.hint
    with trio.fail_after(20), pytest.raises(address.ListenQueueFull):
        await open_stream(Address(listener.getsockname(), None), "v1/stream", {}, {})


async def test_a_client_connects_when_the_listen_queue_has_room(
    listener: socket.socket, crowd: list[socket.socket], nursery: trio.Nursery
) -> None:
    stream: list[Connection] = []

    async def dial() -> None:
        stream.append(await connect_to(Address(listener.getsockname(), None)))

    nursery.start_soon(dial)
    await trio.testing.wait_all_tasks_blocked()
    assert stream == []

    for _ in crowd:
        listener.accept()[0].close()
    with trio.fail_after(20):
        while not stream:  # noqa: ASYNC110 - the line itself says nothing
            await trio.sleep(0.005)
    stream[0].close()


async def test_httpx_still_keeps_its_pool_in_a_private_attribute() -> None:
    async with httpx.AsyncHTTPTransport(verify=False, trust_env=False) as transport:
        assert isinstance(transport._pool, httpcore.AsyncConnectionPool)
