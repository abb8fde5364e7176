"""The bridge as a process: its client speaks JSON lines, a stand-in answers the requests."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from supervisor.mcp_server import bridge
from supervisor.mcp_server.bridge.loop import MAX_CALLS, MAX_LINE_BYTES
from tests.support.http_stand_in import Received, Reply, http_stand_in, result

PROGRAM: Final = Path(bridge.__file__).with_name("__main__.py")
SECONDS: Final = 20.0


class Client:
    """The client of a bridge."""

    def __init__(self, socket: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={bridge.SOCKET_VARIABLE: str(socket), bridge.TOKEN_VARIABLE: "the-token"},
        )

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def send(self, method: str, message_id: object = None, **params: object) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if message_id is not None:
            message["id"] = message_id
        self.write(json.dumps(message).encode())

    def read(self) -> Any:  # noqa: ANN401 - any JSON
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def close_input(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(SECONDS)


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "tools.sock"


@pytest.fixture
def client(socket: Path) -> Iterator[Client]:
    made = Client(socket)
    with made.process:
        yield made
        made.process.kill()


def pong(received: Received) -> Reply:
    return result(received, "pong") if "id" in received.message else Reply(b"", 202)


def test_a_request_is_answered_in_one_line(socket: Path, client: Client) -> None:
    with http_stand_in(socket, pong) as received:
        client.send("ping", "é")

        assert client.read() == {"jsonrpc": "2.0", "id": "é", "result": "pong"}
    assert received[0].path == "/mcp"
    assert received[0].headers["authorization"] == "Bearer the-token"
    assert received[0].headers["mcp-method"] == "ping"


def test_a_notification_has_no_answer(socket: Path, client: Client) -> None:
    with http_stand_in(socket, pong) as received:
        client.send("notifications/initialized")
        client.send("ping", 1)

        assert client.read()["id"] == 1
    assert {one.message["method"] for one in received} == {"notifications/initialized", "ping"}


def test_the_agreed_version_is_in_the_headers_of_later_requests(
    socket: Path, client: Client
) -> None:
    def answer(received: Received) -> Reply:
        return result(received, {"protocolVersion": "2025-11-25"})

    with http_stand_in(socket, answer) as received:
        client.send("initialize", 1)
        client.read()
        client.send("tools/call", 2, name="spawn")
        client.read()
        client.send(
            "tools/call",
            3,
            name="bad\nname",
            _meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"},
        )
        client.read()

    versions = [one.headers.get("mcp-protocol-version") for one in received]
    assert versions == [None, "2025-11-25", "2026-07-28"]
    names = [one.headers.get("mcp-name") for one in received]
    assert names == [None, "spawn", "=?base64?YmFkCm5hbWU=?="]


def test_a_waiting_call_delays_no_other(socket: Path, client: Client) -> None:
    released = threading.Event()

    def answer(received: Received) -> Reply:
        if received.id == "slow":
            assert released.wait(SECONDS)
        return pong(received)

    with http_stand_in(socket, answer):
        client.send("ping", "slow")
        client.send("ping", "quick")
        first = client.read()["id"]
        released.set()

        assert (first, client.read()["id"]) == ("quick", "slow")


def test_more_calls_than_may_run_at_once_are_all_answered(socket: Path, client: Client) -> None:
    count = 3 * MAX_CALLS
    with http_stand_in(socket, pong):
        for number in range(count):
            client.send("ping", number)

        assert {client.read()["id"] for _ in range(count)} == set(range(count))


def test_a_cancelled_call_closes_its_connection_and_has_no_answer(
    socket: Path, client: Client
) -> None:
    began, released = threading.Event(), threading.Event()

    def answer(received: Received) -> Reply:
        if received.id == "slow":
            began.set()
            assert released.wait(SECONDS)
        return pong(received)

    with http_stand_in(socket, answer) as received:
        client.send("ping", "slow")
        assert began.wait(SECONDS)
        client.send("notifications/cancelled", requestId="slow")
        client.send("ping", "next")
        first = client.read()["id"]
        released.set()
        client.send("ping", "last")

        assert (first, client.read()["id"]) == ("next", "last")
    assert [one.message["method"] for one in received] == ["ping"] * 3


def test_a_line_without_bound_is_refused_and_the_next_one_works(
    socket: Path, client: Client
) -> None:
    with http_stand_in(socket, pong):
        client.write(b"x" * (3 * MAX_LINE_BYTES))
        refusal = client.read()
        client.send("ping", 1)

        assert client.read()["id"] == 1
    assert (refusal["id"], refusal["error"]["code"]) == (None, -32600)
    assert str(MAX_LINE_BYTES) in refusal["error"]["message"]


@pytest.mark.parametrize("line", [b"{", b"[1,", b"\xff", b"{} {}", b"[" * 100_000, b"NaN x"])
def test_a_line_that_is_not_json_is_answered_with_an_error(
    socket: Path, client: Client, line: bytes
) -> None:
    with http_stand_in(socket, pong):
        client.write(line)
        refusal = client.read()
        client.send("ping", 1)

        assert client.read()["id"] == 1
    assert (refusal["id"], refusal["error"]["code"]) == (None, -32700)


def test_a_call_without_a_supervisor_fails_and_the_next_one_connects_again(
    socket: Path, client: Client
) -> None:
    client.send("ping", 1)
    failure = client.read()
    with http_stand_in(socket, pong):
        client.send("ping", 2)

        assert client.read()["result"] == "pong"
    assert failure["id"] == 1
    assert "no supervisor answers" in failure["error"]["message"]


def test_a_supervisor_that_dies_during_a_call_is_reported(socket: Path, client: Client) -> None:
    def answer(received: Received) -> Reply:
        return Reply(None) if received.id == 1 else pong(received)

    with http_stand_in(socket, answer):
        client.send("ping", 1)
        failure = client.read()
        client.send("ping", 2)

        assert client.read()["result"] == "pong"
    assert failure["id"] == 1
    assert "the next call connects again" in failure["error"]["message"]


def test_half_an_answer_is_no_answer(socket: Path, client: Client) -> None:
    class Long(bytes):
        def __len__(self) -> int:
            return super().__len__() + 10

    with http_stand_in(socket, lambda _: Reply(Long(b'{"jsonrpc":"2.0","id":1,"result":1}'))):
        client.send("ping", 1)

        assert "ended" in client.read()["error"]["message"]


def test_a_problem_document_becomes_an_error(socket: Path, client: Client) -> None:
    problem = {"status": 401, "code": "unauthorized", "detail": "no token", "hint": "send it"}
    reply = Reply(json.dumps(problem).encode(), 401, "application/problem+json")
    with http_stand_in(socket, lambda _: reply):
        client.send("ping", 7)

        assert client.read() == {
            "jsonrpc": "2.0",
            "id": 7,
            "error": {"code": -32000, "message": "no token; send it"},
        }


def test_the_bridge_ends_with_its_input_though_a_call_waits(socket: Path, client: Client) -> None:
    began, released = threading.Event(), threading.Event()

    def answer(received: Received) -> Reply:
        began.set()
        assert released.wait(SECONDS)
        return pong(received)

    with http_stand_in(socket, answer):
        client.send("ping", 1)
        assert began.wait(SECONDS)

        assert client.close_input() == 0
        released.set()


def test_a_last_line_without_its_end_is_answered(socket: Path, client: Client) -> None:
    with http_stand_in(socket, pong):
        assert client.process.stdin is not None
        client.process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        assert client.close_input() == 0

        assert client.read()["id"] == 1


def test_without_its_variables_the_bridge_says_so() -> None:
    ended = subprocess.run(
        [sys.executable, "-I", "-S", PROGRAM], capture_output=True, text=True, env={}, check=False
    )

    assert ended.returncode == 2
    assert bridge.SOCKET_VARIABLE in ended.stderr


def test_the_bridge_loads_no_module_that_takes_long() -> None:
    program = (
        "import sys; before = set(sys.modules); sys.path.append(sys.argv[1]); import bridge;"
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, PROGRAM.parents[1]],
        capture_output=True,
        text=True,
        check=True,
    )

    slow = {"json", "re", "enum", "socket", "typing", "pathlib", "threading", "contextlib"}
    assert slow.isdisjoint(loaded.stdout.split())
