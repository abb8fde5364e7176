"""The daemon over HTTP: request rate, time to the first word, cost of watchers.

Every daemon here is the real one: a process of its own with a home of its own, asked over its unix
socket. Except for the first word, which our own client waits for, the client is minimal:
a socket, prepared bytes, and a search for the end of the answer.

- small GET: eight connections that are kept, each asked again as soon as all have answered. The
  peer is Starlette as it comes, on hypercorn's own server for trio, with the same answer;
- first word: from before `send()` to the first delta in an open stream, the median of many turns;
- watchers: what the daemon's memory (RSS) has grown by, once each of them was told of a turn;
- list: 1,000 sessions, 50 of which say ten words a second, and the first page again and again.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket
from typing import Any

import trio

from supervisor import Delta, Record
from supervisor.client import RemoteSession, connect
from supervisor.daemon.descriptors import raise_descriptor_limit
from tests.bench._row import Row, at_least, at_most
from tests.bench.memory import PROJECT
from tests.support.daemon_in_process import Home
from tests.support.daemon_process import Daemon, daemon

PATIENCE_SECONDS = 60.0
LINES = 8
WARM_UP_ROUNDS = 50
ROUNDS = 200
WARM_UP_TURNS = 20
TURNS = 100
FIRST_WORD_SECONDS = 0.015
WATCHERS = 1_000
WARM_UP_WATCHERS = 100
WATCHER_BYTES = 60 * 1024.0
SESSIONS = 1_000
BUSY = 50
WARM_UP_LISTS = 10
LISTS = 300
LIST_SECONDS = 0.050
# For longer than any sample takes: ten words a second.
TALK = "say word\nsleep 0.1\n" * 600
SMALL = "/v1/version"
SMALL_ANSWER = {"name": "understudy", "version": "0.1.0", "api": "v1"}


# Asking -------------------------------------------------------------------------------------


def request(path: str, body: dict[str, Any] | None = None) -> bytes:
    """Return the bytes of a GET, or of a POST if there is a body."""
    if body is None:
        return b"GET %b HTTP/1.1\r\nhost: localhost\r\n\r\n" % path.encode()
    content = json.dumps(body).encode()
    return (
        b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%b" % (path.encode(), len(content), content)
    )


class Line:
    """One connection, asked one thing at a time."""

    def __init__(self, path: Path) -> None:
        self.socket = socket(AF_UNIX, SOCK_STREAM)
        # Blocking: with a time-out, a queue of connections that is full is an error at once.
        self.socket.connect(str(path))
        self.socket.settimeout(PATIENCE_SECONDS)

    def ask(self, whole: bytes) -> bytes:
        self.socket.sendall(whole)
        return self.answer()

    def answer(self) -> bytes:
        """Return the content of the next answer, which must succeed and have a length."""
        head, _, content = self.read_until(b"\r\n\r\n").partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 2"), head + content
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(content) < size:
            content += self.read()
        return content

    def read_until(self, mark: bytes) -> bytes:
        """All that comes, up to the piece that has the mark in it."""
        read = b""
        while mark not in read:
            read += self.read()
        return read

    def read(self) -> bytes:
        read = self.socket.recv(1 << 20)
        assert read, "the server has hung up"
        return read


@contextmanager
def lines(path: Path, count: int) -> Iterator[list[Line]]:
    raise_descriptor_limit(connections=count, agents=0)
    with ExitStack() as opened:
        made = []
        for _ in range(count):
            made.append(Line(path))
            opened.callback(made[-1].socket.close)
        yield made


def ask_all(asked: Sequence[Line], questions: Sequence[bytes]) -> list[bytes]:
    """Answers to all, with as many on their way at once as there are lines."""
    answers = []
    for first in range(0, len(questions), len(asked)):
        some = list(zip(asked, questions[first : first + len(asked)], strict=False))
        for line, question in some:
            line.socket.sendall(question)
        answers += [line.answer() for line, _ in some]
    return answers


# Servers ------------------------------------------------------------------------------------


@contextmanager
def a_daemon() -> Iterator[tuple[Daemon, Path]]:
    """Start a daemon; yield it and its socket."""
    with tempfile.TemporaryDirectory(prefix="us-") as folder, daemon(Home(Path(folder))) as made:
        yield made, Path(made.home.socket)


@contextmanager
def a_bare_server() -> Iterator[Path]:
    """Starlette and hypercorn, and the socket."""
    with tempfile.TemporaryDirectory(prefix="us-") as folder:
        path = Path(folder, "bare.sock")
        command = [sys.executable, "-m", "tests.bench.http", str(path)]
        with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == b"ready\n"
                yield path
            finally:
                process.kill()


async def serve_bare(path: str) -> None:
    from hypercorn.config import Config
    from hypercorn.trio import serve
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def small(request: Request) -> JSONResponse:
        return JSONResponse(SMALL_ANSWER)

    config = Config()
    config.bind = [f"unix:{path}"]
    config.errorlog = None
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, Starlette(routes=[Route(SMALL, small)]), config)
        print("ready", flush=True)


# Requests -----------------------------------------------------------------------------------


def requests_per_second(path: Path) -> float:
    question = request(SMALL)
    with lines(path, LINES) as asked:
        content = ask_all(asked, [question] * LINES * WARM_UP_ROUNDS)[-1]
        assert set(json.loads(content)) == set(SMALL_ANSWER)
        begun = time.perf_counter()
        ask_all(asked, [question] * LINES * ROUNDS)
        return LINES * ROUNDS / (time.perf_counter() - begun)


def our_requests_per_second() -> float:
    with a_daemon() as (_, path):
        return requests_per_second(path)


def bare_requests_per_second() -> float:
    with a_bare_server() as path:
        return requests_per_second(path)


# The first word -----------------------------------------------------------------------------


async def seconds_to_each_first_word(session: RemoteSession, turns: int) -> list[float]:
    took: list[float] = []
    async with session.watch() as feed:
        for _ in range(turns):
            begun = time.perf_counter()
            await session.send("one two three")
            word: float | None = None
            async for item in feed:
                if word is None and isinstance(item, Delta):
                    word = time.perf_counter() - begun
                if isinstance(item, Record) and item.kind == "turn_ended":
                    break
            assert word is not None, "a turn without a word"
            took.append(word)
    return took


def seconds_to_the_first_word() -> float:
    async def main(path: Path) -> float:
        async with connect(path) as sup:
            session = await sup.create("echo")
            took = await seconds_to_each_first_word(session, WARM_UP_TURNS + TURNS)
            return statistics.median(took[WARM_UP_TURNS:])

    with a_daemon() as (_, path):
        return trio.run(main, path)


# Watchers -----------------------------------------------------------------------------------


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def bytes_per_watcher() -> float:
    with a_daemon() as (made, path), lines(path, 1) as (asks,):
        session = json.loads(asks.ask(request("/v1/sessions", {"agent": "echo"})))["id"]
        watch = request(f"/v1/sessions/{session}/stream?after=0")
        speak = request(f"/v1/sessions/{session}/inputs", {"text": "one two three"})

        def open_watchers(watchers: Sequence[Line]) -> None:
            for line in watchers:
                line.socket.sendall(watch)
                line.read_until(b"retry: ")

        def tell(watchers: Sequence[Line]) -> None:
            asks.ask(speak)
            for line in watchers:
                line.read_until(b"event: turn_ended\n")

        with lines(path, WARM_UP_WATCHERS) as first, lines(path, WATCHERS) as more:
            open_watchers(first)
            tell(first)
            before = resident_bytes(made.pid)
            open_watchers(more)
            tell([*first, *more])
            return (resident_bytes(made.pid) - before) / WATCHERS


# Lists --------------------------------------------------------------------------------------


def make_busy(asked: Sequence[Line]) -> None:
    """1,000 sessions, 50 of them at work; the busy ones are among all others."""
    make = request("/v1/sessions", {"agent": "scripted"})
    sessions = [json.loads(made)["id"] for made in ask_all(asked, [make] * SESSIONS)]
    ask_all(
        asked,
        [
            request(f"/v1/sessions/{session}/inputs", {"text": TALK})
            for session in sessions[:: SESSIONS // BUSY]
        ],
    )


def p99_of_the_list() -> float:
    question = request("/v1/sessions")
    with a_daemon() as (_, path), lines(path, LINES) as asked:
        make_busy(asked)

        def seconds() -> float:
            begun = time.perf_counter()
            asked[0].ask(question)
            return time.perf_counter() - begun

        took = [seconds() for _ in range(WARM_UP_LISTS + LISTS)][WARM_UP_LISTS:]
        running = json.loads(asked[0].ask(request("/v1/sessions?phase=running")))
        assert len(running["items"]) == BUSY
        return statistics.quantiles(took, n=100, method="inclusive")[-1]


ROWS = (
    Row(
        name="small GET on a unix socket",
        against="bare Starlette on hypercorn-trio",
        ours=our_requests_per_second,
        peer=bare_requests_per_second,
        unit="/s",
        reach=at_least(0.8),
    ),
    Row(
        name="input over HTTP to the first word of echo, p50",
        against="15 ms",
        ours=seconds_to_the_first_word,
        peer=lambda: FIRST_WORD_SECONDS,
        unit="s",
        reach=at_most(1),
        collector="running",
    ),
    Row(
        name="1,000 SSE watchers, memory (RSS) of the daemon each",
        against="60 KiB",
        ours=bytes_per_watcher,
        peer=lambda: WATCHER_BYTES,
        unit="bytes",
    ),
    Row(
        name="GET /v1/sessions among 1,000 with 50 busy, p99",
        against="50 ms",
        ours=p99_of_the_list,
        peer=lambda: LIST_SECONDS,
        unit="s",
        reach=at_most(1),
        collector="running",
    ),
)


if __name__ == "__main__":
    trio.run(serve_bare, sys.argv[1])
