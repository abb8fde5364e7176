"""Broken, silent, missing and newer daemons."""

from __future__ import annotations

import base64
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
from starlette.types import Receive, Scope, Send

import supervisor
from supervisor.client import AnswerLost, NoDaemon, RemoteSupervisor, connect_once, stream
from supervisor.client import feed as remote_feed
from supervisor.daemon.listeners import tcp_listener
from supervisor.daemon.token import ensure_token
from supervisor.http_server.connections import open_connections
from supervisor.http_server.unix_listener import unix_listener
from tests.support.served_supervisor import Connect

VERSION = {"name": "understudy", "version": "9.9", "api": "v1", "brand_new": [1]}
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
ANSWERED = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n[1]"
Answer = Callable[[Scope], Any]


def event(seq: int) -> bytes:
    record = {"session_id": "s_one", "seq": seq, "at": 1.0, "turn_id": None, "kind": "agent_text"}
    data = orjson.dumps({**record, "body": {}, "brand_new": True})
    return b"id: %d\nevent: agent_text\ndata: %b\n\n" % (seq, data)


@asynccontextmanager
async def daemon_that(
    answers: Answer, folder: Path, connect: Connect
) -> AsyncIterator[RemoteSupervisor]:
    """Serve this response, after the version."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        plain = VERSION if scope["path"] == "/v1/version" else await answers(scope)
        status, content = plain if isinstance(plain, tuple) else (200, plain)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": orjson.dumps(content)})

    with trio.fail_after(20), unix_listener(folder / "s") as listener:
        async with open_connections(max_connections=10, peer_state_key="peer_uid") as connections:
            await connections.listen(listener, app)
            async with connect(folder / "s") as sup:
                yield sup


async def test_a_missing_socket_raises_no_daemon(folder: Path, connect: Connect) -> None:
    with pytest.raises(NoDaemon) as caught:
        async with connect(folder / "nothing"):
            pass

    assert caught.value.code == "no_daemon"
    assert "understudy serve" in caught.value.hint
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.count("Traceback") == 1


@pytest.mark.parametrize("connect", [supervisor.connect, connect_once])
def test_connect_without_an_event_loop_is_refused(connect: Connect) -> None:
    with pytest.raises(supervisor.ConfigError, match="needs trio or asyncio") as refusal:
        connect("/nowhere/s").__aenter__().send(None)

    assert "asyncio.run" in refusal.value.hint


async def test_the_default_address_is_the_configured_socket(folder: Path, connect: Connect) -> None:
    environ = {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}

    with pytest.raises(NoDaemon, match=f"{folder}/understudy/understudy.sock"):
        async with connect(environ=environ):
            pass


@pytest.mark.parametrize(
    "address", ["https://127.0.0.1:1", "http://example.org:80", "http://[::1]:1"]
)
async def test_an_address_of_another_host_is_refused(address: str, connect: Connect) -> None:
    with pytest.raises(supervisor.ConfigError, match="not an address of a daemon"):
        async with connect(address):
            pass


async def test_unknown_fields_of_a_newer_daemon_are_ignored(folder: Path, connect: Connect) -> None:
    async def answers(_: Scope) -> Any:  # noqa: ANN401 - JSON
        return {"dry_run": True, "deleted": {}, "bytes": 0, "failed": {}, "brand_new": {}}

    async with daemon_that(answers, folder, connect) as sup:
        assert (await sup.cleanup(dry_run=True)).dry_run


async def test_an_undecodable_answer_raises_answer_lost(folder: Path, connect: Connect) -> None:
    async def answers(_: Scope) -> Any:  # noqa: ANN401 - JSON
        return {"dry_run": "perhaps"}

    async with daemon_that(answers, folder, connect) as sup:
        with pytest.raises(AnswerLost, match="cannot decode"):
            await sup.cleanup(dry_run=True)


async def test_an_unknown_error_keeps_its_text(folder: Path, connect: Connect) -> None:
    async def answers(_: Scope) -> Any:  # noqa: ANN401 - JSON
        return 418, {"code": "teapot", "detail": "short and stout", "hint": "tip me over"}

    async with daemon_that(answers, folder, connect) as sup:
        with pytest.raises(supervisor.SupervisorError) as caught:
            await sup.stats()

    assert (caught.value.code, caught.value.hint) == ("teapot", "tip me over")


async def test_a_query_longer_than_a_url_is_refused(folder: Path, connect: Connect) -> None:
    cursor = base64.b64encode(b" " * 60_000 + b"1").decode()
    async with daemon_that(lambda _: [], folder, connect) as sup:
        with pytest.raises(supervisor.ConfigError, match="bytes of 32768 allowed in a query"):
            await sup.list(cursor=cursor)


async def test_a_timeout_raises_answer_lost(folder: Path, connect: Connect) -> None:
    async def answers(_: Scope) -> None:
        await trio.sleep_forever()

    async with daemon_that(answers, folder, connect) as sup:
        with pytest.raises(AnswerLost, match="may have taken effect"):
            await sup._transport.request_bytes("POST", "v1/x", timeout_seconds=0.05)
        with pytest.raises(AnswerLost) as caught:
            await sup._transport.request_bytes("GET", "v1/x", timeout_seconds=0.05)

    assert "nothing was changed: see `understudy status`" in caught.value.hint


async def test_a_request_after_the_block_is_refused(folder: Path, connect: Connect) -> None:
    async def answers(_: Scope) -> Any:  # noqa: ANN401 - JSON
        return None

    async with daemon_that(answers, folder, connect) as sup:
        pass

    with pytest.raises(NoDaemon, match="has been closed"):
        await sup.stats()


# Connections that break --------------------------------------------------------------------


async def test_a_get_is_repeated_after_a_broken_connection(folder: Path, connect: Connect) -> None:
    flaky = Flaky(b"", ANSWERED)
    async with flaky.connected(folder, connect) as sup:
        assert await sup._transport.request_bytes("GET", "v1/x", {"text": "a b&c"}) == b"[1]"

    assert len(flaky.asked) == 2
    assert flaky.asked[1].startswith((b"GET /v1/x?text=a+b%26c ", b"GET /v1/x?text=a%20b%26c "))


async def test_a_post_is_not_repeated(folder: Path, connect: Connect) -> None:
    flaky = Flaky(ANSWERED[:-1], ANSWERED)
    async with flaky.connected(folder, connect) as sup:
        with pytest.raises(AnswerLost, match="broke before the answer"):
            await sup._transport.request_bytes("POST", "v1/x", {"text": "hello"})

    assert len(flaky.asked) == 1
    assert b"content-type: application/json\r\n" in flaky.asked[0].lower()


async def test_an_early_refusal_of_a_body_is_received(folder: Path) -> None:
    # httpx hears it too, but leaves a generator of its own open, of which trio warns.
    body = b'{"code":"too_large","detail":"it is","hint":"less"}'
    flaky = Flaky(b"HTTP/1.1 413 No\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
    async with flaky.connected(folder, connect_once) as sup:
        with pytest.raises(supervisor.SupervisorError, match="it is"):
            await sup._transport.request_bytes("POST", "v1/x", {"text": "x" * 4_000_000})


async def test_an_answer_that_is_not_http_raises_answer_lost(
    folder: Path, connect: Connect
) -> None:
    flaky = Flaky(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")
    async with flaky.connected(folder, connect) as sup:
        with pytest.raises(AnswerLost):
            await sup._transport.request_bytes("POST", "v1/x")


# Streams that break ------------------------------------------------------------------------


class Flaky:
    """A server whose streams break as they are told to; knows what it was asked for."""

    def __init__(self, *streams: bytes, silent: int = 0) -> None:
        self._streams = list(streams)
        self._silent = silent  # number of connections that stay open without an answer
        self.asked: list[bytes] = []

    async def attend(self, connection: trio.SocketStream) -> None:
        async with connection:
            asked = bytes(await connection.receive_some(65536))
            if b"/v1/version" in asked:
                body = orjson.dumps(VERSION)
                head = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
                await connection.send_all(head % len(body) + body)
                return
            self.asked.append(asked)
            await connection.send_all(self._streams.pop(0))
            if len(self.asked) <= self._silent:
                await trio.sleep_forever()

    @asynccontextmanager
    async def connected(self, folder: Path, connect: Connect) -> AsyncIterator[RemoteSupervisor]:
        with trio.fail_after(20), unix_listener(folder / "s") as listener:
            listener.settimeout(0.0)
            ours = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.serve_listeners, self.attend, [ours])
                async with connect(folder / "s") as sup:
                    yield sup
                nursery.cancel_scope.cancel()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def test_a_broken_stream_continues_after_the_last_number(
    folder: Path, connect: Connect
) -> None:
    half = chunk(event(2))[:40]
    flaky = Flaky(HEAD + chunk(event(1)) + half, HEAD + chunk(event(2) + event(3)))
    async with flaky.connected(folder, connect) as sup, sup.session("s_one").watch() as feed:
        items = [await anext(feed) for _ in range(3)]

    assert [item.seq for item in items if isinstance(item, supervisor.Record)] == [1, 2, 3]
    assert b"last-event-id" not in flaky.asked[0].lower()
    assert b"last-event-id: 1\r\n" in flaky.asked[1].lower()


async def test_a_stream_continues_after_a_gap(folder: Path, connect: Connect) -> None:
    gap = b'event: gap\ndata: {"first":2,"last":9}\n\n'
    flaky = Flaky(HEAD + chunk(event(1) + gap), HEAD + chunk(event(10)))
    async with flaky.connected(folder, connect) as sup, sup.session("s_one").watch() as feed:
        items = [await anext(feed) for _ in range(3)]

    assert items[1] == supervisor.Gap(2, 9)
    assert b"last-event-id: 9\r\n" in flaky.asked[1].lower()


async def test_a_feed_waits_for_a_restarting_daemon(folder: Path, connect: Connect) -> None:
    leaving = b'event: problem\ndata: {"code":"draining","detail":"x","hint":"y"}\n\n'
    body = b'{"code":"not_ready","detail":"x","hint":""}'
    refused = b"HTTP/1.1 503 No\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    flaky = Flaky(HEAD + chunk(event(1) + leaving), refused, HEAD + chunk(event(2)))
    async with flaky.connected(folder, connect) as sup, sup.session("s_one").watch() as feed:
        items = [await anext(feed) for _ in range(2)]

    assert [item.seq for item in items if isinstance(item, supervisor.Record)] == [1, 2]


async def test_a_feed_raises_when_the_daemon_stays_away(
    folder: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_feed, "MAX_ABSENCE_SECONDS", 0.1)
    flaky = Flaky(HEAD + chunk(event(1)))
    async with flaky.connected(folder, connect) as sup, sup.session("s_one").watch() as feed:
        await anext(feed)
        (folder / "s").unlink()

        with pytest.raises(NoDaemon):
            await anext(feed)


async def test_a_silent_stream_is_reconnected(
    folder: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MAX_SILENCE_SECONDS", 0.05)
    flaky = Flaky(HEAD, HEAD + chunk(event(1)), silent=1)
    async with flaky.connected(folder, connect) as sup, sup.session("s_one").watch() as feed:
        await anext(feed)

    assert len(flaky.asked) == 2


async def test_an_error_in_a_stream_is_raised(folder: Path, connect: Connect) -> None:
    wrong = b'event: problem\ndata: {"code":"store_degraded","detail":"full","hint":"free it"}\n\n'
    flaky = Flaky(HEAD + chunk(event(1) + wrong))
    async with flaky.connected(folder, connect) as sup, sup.session("s_one").watch() as feed:
        await anext(feed)

        with pytest.raises(supervisor.StoreDegraded, match="full"):
            await anext(feed)


async def test_requests_to_a_port_carry_the_token(folder: Path, connect: Connect) -> None:
    seen: list[dict[bytes, bytes]] = []
    token = ensure_token(folder / "token")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(dict(scope["headers"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": orjson.dumps(VERSION)})

    with trio.fail_after(20), tcp_listener(0) as listener:
        port = listener.getsockname()[1]
        async with open_connections(max_connections=10, peer_state_key="peer_uid") as connections:
            await connections.listen(listener, app)
            async with connect(f"http://localhost:{port}", token_file=folder / "token"):
                pass

    assert seen[0][b"authorization"] == f"Bearer {token}".encode()
    assert seen[0][b"host"] == b"127.0.0.1:%d" % port


async def test_without_a_token_no_request_is_sent(folder: Path, connect: Connect) -> None:
    with pytest.raises(supervisor.ConfigError, match="no token at"):
        async with connect("http://127.0.0.1:1", token_file=folder / "none"):
            pass


@pytest.mark.parametrize("content", ["", "short", "has spaces in it " * 4])
async def test_a_file_without_a_token_is_refused(
    folder: Path, connect: Connect, content: str
) -> None:
    (folder / "token").write_text(content)
    (folder / "token").chmod(0o600)

    with pytest.raises(supervisor.ConfigError, match="does not contain a token") as refusal:
        async with connect("http://127.0.0.1:1", token_file=folder / "token"):
            pass
    assert "the path of the daemon's token file" in refusal.value.hint


async def test_a_token_that_other_users_can_read_is_not_sent(
    folder: Path, connect: Connect
) -> None:
    ensure_token(folder / "token")
    (folder / "token").chmod(0o644)

    with pytest.raises(supervisor.ConfigError, match="accessible to other users"):
        async with connect("http://127.0.0.1:1", token_file=folder / "token"):
            pass


async def test_a_request_that_an_older_daemon_does_not_know_names_its_version(
    folder: Path, connect: Connect
) -> None:
    async def unknown(_: Scope) -> Any:  # noqa: ANN401 - JSON
        return 404, {"code": "no_such_route", "detail": "unknown path", "hint": "see the list"}

    async with daemon_that(unknown, folder, connect) as sup:
        with pytest.raises(AnswerLost, match=r"version 9\.9") as caught:
            await sup.resolve("first")

    assert "understudy down" in caught.value.hint
