"""The connection that a bridge keeps for its next call."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from supervisor.mcp_server.bridge import Bridge, ToolsAddress
from tests.support.http_stand_in import Received, Reply, http_stand_in, result

SECONDS = 20.0


class Client:
    """The client of a bridge that runs in a thread."""

    def __init__(self, client_in: int, client_out: int) -> None:
        self._in, self._out = client_in, os.fdopen(client_out, "rb")

    def send(self, message_id: int) -> None:
        message = {"jsonrpc": "2.0", "id": message_id, "method": "ping"}
        os.write(self._in, json.dumps(message).encode() + b"\n")

    def ask(self, message_id: int) -> Any:  # noqa: ANN401 - any JSON
        self.send(message_id)
        return self.read()

    def read(self) -> Any:  # noqa: ANN401 - any JSON
        return json.loads(self._out.readline())

    def close(self) -> None:
        os.close(self._in)
        self._out.close()


@contextmanager
def bridge(socket: Path, *, keep_seconds: float = SECONDS) -> Iterator[Client]:
    (read_in, write_in), (read_out, write_out) = os.pipe(), os.pipe()
    address = ToolsAddress(str(socket), "the-token")
    made = Bridge(address, client_in=read_in, client_out=write_out, keep_seconds=keep_seconds)
    thread = threading.Thread(target=made.run)
    thread.start()
    client = Client(write_in, read_out)
    try:
        yield client
    finally:
        client.close()
        thread.join(SECONDS)
        os.close(read_in)
        os.close(write_out)
    assert not thread.is_alive()


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "tools.sock"


def pong(received: Received) -> Reply:
    return result(received, "pong")


def test_calls_one_after_the_other_use_one_connection(socket: Path) -> None:
    with http_stand_in(socket, pong, version="HTTP/1.1") as received, bridge(socket) as client:
        answers = [client.ask(number)["id"] for number in range(5)]

    assert answers == list(range(5))
    assert {one.connection for one in received} == {1}


def test_of_several_connections_one_is_kept(socket: Path) -> None:
    together, closed = threading.Barrier(3), threading.Semaphore(0)

    def answer(received: Received) -> Reply:
        if received.id < 3:
            together.wait(SECONDS)
        return pong(received)

    with (
        http_stand_in(socket, answer, version="HTTP/1.1", on_close=closed.release) as received,
        bridge(socket) as client,
    ):
        for number in range(3):
            client.send(number)
        assert {client.read()["id"] for _ in range(3)} == {0, 1, 2}
        assert [closed.acquire(timeout=SECONDS) for _ in range(2)] == [True, True]
        assert not closed.acquire(blocking=False)
        client.ask(3)

    assert received[-1].connection in {1, 2, 3}


def test_a_call_after_the_end_of_the_server_connects_again(socket: Path) -> None:
    with bridge(socket) as client:
        with http_stand_in(socket, pong, version="HTTP/1.1"):
            client.ask(1)
        between = client.ask(2)
        with http_stand_in(socket, pong, version="HTTP/1.1"):
            again = client.ask(3)

    assert "no supervisor answers" in between["error"]["message"]
    assert again["result"] == "pong"


def test_an_idle_connection_is_closed_after_its_time(socket: Path) -> None:
    closed = threading.Event()
    with (
        http_stand_in(socket, pong, version="HTTP/1.1", on_close=closed.set),
        bridge(socket, keep_seconds=0.0) as client,
    ):
        client.ask(1)

        assert closed.wait(SECONDS)


def test_a_server_that_closes_is_not_asked_again_on_that_connection(socket: Path) -> None:
    def answer(received: Received) -> Reply:
        return Reply((pong(received).body or b""), headers={"connection": "close"})

    with http_stand_in(socket, answer, version="HTTP/1.1") as received, bridge(socket) as client:
        client.ask(1)
        client.ask(2)

    assert [one.connection for one in received] == [1, 2]


def test_the_connection_of_a_lost_call_is_not_kept(socket: Path) -> None:
    def answer(received: Received) -> Reply:
        return Reply(None) if received.id == 2 else pong(received)

    with http_stand_in(socket, answer, version="HTTP/1.1") as received, bridge(socket) as client:
        client.ask(1)
        lost = client.ask(2)
        again = client.ask(3)

    assert "the call may have been carried out" in lost["error"]["message"]
    assert again["result"] == "pong"
    assert [one.connection for one in received] == [1, 1, 2]


def test_an_answer_in_pieces_is_refused_in_words(socket: Path) -> None:
    def answer(received: Received) -> Reply:
        return Reply((pong(received).body or b""), headers={"transfer-encoding": "chunked"})

    with http_stand_in(socket, answer, version="HTTP/1.1"), bridge(socket) as client:
        refused = client.ask(1)

    assert "in pieces" in refused["error"]["message"]
