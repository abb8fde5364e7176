"""The daemon's whole life, in this process."""

from __future__ import annotations

import logging
import os
import socket
import stat
import threading
from functools import partial
from pathlib import Path

import httpx
import pytest
import trio

import supervisor
from supervisor.client import NoDaemon, RemoteSupervisor, RemoteWatcher, connect
from supervisor.daemon import Exit, Orders, serve, serving
from supervisor.daemon.telling.logs import Cover, TextLines

from . import stubborn
from .homes import Home, running
from .processes import wait_for


async def wait_until_draining(sup: RemoteSupervisor) -> None:
    code = ""
    while code != "not_ready":
        try:
            await sup._line.fetch("GET", "v1/ready")
        except supervisor.SupervisorError as error:
            code = error.code


AGENTS = """
[settings]
exit_seconds = 0.05
[settings.ladder]
ask_seconds = 1.0
"""


STUBBORN = """
[agents.stubborn]
function = "tests.daemon.stubborn:agent"
"""


@pytest.fixture
def home(folder: Path) -> Home:
    made = Home(folder)
    made.write(AGENTS)
    return made


async def test_a_daemon_is_asked_and_leaves_cleanly(home: Home) -> None:
    async with running(home) as daemon:
        session = await daemon.remote.create("echo")
        assert (await session.prompt("hello")).text == "hello"

    assert daemon.code is Exit.CLEAN
    assert not home.has_socket
    with pytest.raises(NoDaemon):
        async with connect(home.socket):
            pass


async def test_everything_it_makes_is_its_owner_s_alone(home: Home) -> None:
    async with running(home) as daemon:
        await daemon.remote.create("echo")
        paths = home.everything()

        assert len(paths) >= 6
        assert [path for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


async def test_sessions_are_there_again_after_a_start(home: Home) -> None:
    async with running(home) as daemon:
        session = await daemon.remote.create("echo")
        await session.prompt("hello")

    async with running(home) as daemon:
        again = await daemon.remote.get(session.id)

        assert (await again.prompt("more")).text == "more"
        assert len(await again.transcript()) == 4


async def test_a_second_one_is_refused_with_the_pid(home: Home) -> None:
    async with running(home):
        with pytest.raises(supervisor.StoreLocked, match=f"process {os.getpid()}"):
            await serve(home.load(), environ=home.environ)


async def test_another_socket_on_the_same_state_is_refused_too(home: Home) -> None:
    async with running(home):
        home.write(f'{AGENTS}\n[daemon]\nsocket = "{home.folder}/other/s"')

        with pytest.raises(supervisor.StoreLocked, match=r"state\.db"):
            await serve(home.load(), environ=home.environ)


async def test_a_turn_that_will_not_end_is_interrupted_and_that_is_said(home: Home) -> None:
    async with running(home) as daemon:
        session = await daemon.remote.create("scripted")
        await session.send("sleep 600")
        queued = await session.send("say later")

    assert daemon.code is Exit.FORCED
    async with running(home) as daemon:
        again = daemon.remote.session(session.id)
        assert (await again.result(queued.input_id)).text == "later"
        history = await again.history()
    ended = [one for group in history for one in group.records if one.kind == "turn_ended"]
    assert [one.body["outcome"] for one in ended] == ["interrupted", "completed"]


async def next_of(feed: RemoteWatcher, kind: str) -> supervisor.Record:
    async for item in feed:
        if isinstance(item, supervisor.Record) and item.kind == kind:
            return item
    raise AssertionError("the feed has ended")


async def test_a_turn_may_end_while_it_leaves_and_watchers_see_it(home: Home) -> None:
    home.write("[settings]\nexit_seconds = 20.0")
    async with running(home) as daemon:
        session = await daemon.remote.create("scripted")
        await session.send("ask bash\nsay done")
        async with session.watch() as feed:
            asked = await next_of(feed, "permission_asked")
            daemon.orders.leave()
            await wait_until_draining(daemon.remote)

            await daemon.remote.answer(asked.body["request_id"], "allow_once")

            assert (await next_of(feed, "turn_ended")).body["outcome"] == "completed"
    assert daemon.code is Exit.CLEAN


async def test_work_that_comes_while_it_leaves_is_a_503(home: Home) -> None:
    home.write("[settings]\nexit_seconds = 20.0")
    async with running(home) as daemon:
        session = await daemon.remote.create("scripted")
        await session.send("sleep 600")
        daemon.orders.leave()
        await wait_until_draining(daemon.remote)
        transport = httpx.AsyncHTTPTransport(uds=home.socket)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            refused = await client.post("/v1/sessions", json={"agent": "echo"})
            looked = await client.get(f"/v1/sessions/{session.id}")

        assert (refused.status_code, looked.status_code) == (503, 200)
        await session.interrupt()


async def test_a_second_order_does_not_wait_for_turns(home: Home) -> None:
    home.write("[settings]\nexit_seconds = 600.0")
    async with running(home) as daemon:
        session = await daemon.remote.create("scripted")
        await session.send("sleep 600")
        daemon.orders.leave()
        await wait_until_draining(daemon.remote)

        daemon.orders.leave()

    assert daemon.code is Exit.FORCED


async def test_who_will_not_end_is_left_behind(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(serving, "_HELD_SECONDS", 0.05)
    ended: list[int] = []
    home.write(AGENTS.replace("ask_seconds = 1.0", "ask_seconds = 0.05") + STUBBORN)
    orders = Orders()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            work = partial(
                serve, home.load(), environ=home.environ, orders=orders, end_process=ended.append
            )
            await nursery.start(work)
            async with connect(home.socket) as sup:
                await (await sup.create("stubborn")).send("take your time")
            orders.leave()
            while not ended:  # noqa: ASYNC110 - a process would be gone by now
                await trio.sleep(0.01)
            stubborn.may_end.set()

    assert ended[0] == Exit.HELD
    assert "leaving is held by" in caplog.text


async def test_readers_that_stand_still_do_not_hold_the_end(home: Home) -> None:
    async with running(home) as daemon:
        session = await daemon.remote.create("scripted")
        streams = [await trio.open_unix_socket(home.socket) for _ in range(10)]
        for stream in streams:
            await stream.send_all(
                b"GET /v1/sessions/%b/stream?follow=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
                % session.id.encode()
            )
        await session.prompt("flood 2000")
    for stream in streams:
        await stream.aclose()

    assert daemon.code is Exit.CLEAN


def held() -> tuple[int, int]:
    """Descriptors and threads of ours, but for those that trio keeps."""
    threads = [one for one in threading.enumerate() if not one.name.startswith("Trio")]
    return len(os.listdir("/proc/self/fd")), len(threads)  # noqa: PTH208 - names are enough


def is_not_more(now: tuple[int, int], before: tuple[int, int]) -> bool:
    return all(one <= other for one, other in zip(now, before, strict=True))


async def a_life(home: Home) -> None:
    async with running(home) as daemon:
        session = await daemon.remote.create("echo")
        async with session.watch() as feed, daemon.remote.watch() as everything:
            await session.prompt("hello")
            await next_of(feed, "turn_ended")
            await anext(everything)
        await (await daemon.remote.create("scripted")).send("sleep 60")


def test_nothing_is_held_after_a_life(home: Home) -> None:
    trio.run(a_life, home)
    before = held()

    for _ in range(3):
        trio.run(a_life, home)

    wait_for(lambda: is_not_more(held(), before), 10)  # a thread may still be about to end


async def test_systemd_hears_ready_when_it_answers_and_stopping_when_it_leaves(
    home: Home,
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(home.folder / "notify"))
        systemd.settimeout(5)
        environ = {"NOTIFY_SOCKET": str(home.folder / "notify"), "WATCHDOG_USEC": "300000"}
        async with running(home, environ=environ) as daemon:
            said = [systemd.recv(999)]
            while said[-1] != b"WATCHDOG=1":
                said.append(await trio.to_thread.run_sync(systemd.recv, 999))
        while not said[-1].startswith(b"STOPPING"):
            said.append(systemd.recv(999))

    assert said[0].startswith(b"READY=1\nSTATUS=listening on ")
    assert b"STATUS=0 sessions live, 0 turns run" in said
    assert daemon.code is Exit.CLEAN


async def test_on_a_port_only_the_token_opens(home: Home) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home.write(f"[daemon]\ntcp_port = {port}")
    cover = Cover()
    async with running(home, cover=cover):
        path = home.load().daemon.token
        token = (await trio.Path(path).read_text()).strip()
        async with connect(f"http://127.0.0.1:{port}", token_file=path) as sup:
            assert (await sup.stats()).sessions == 0
        await trio.Path(home.folder / "wrong").write_text("x" * 43)
        with pytest.raises(supervisor.SupervisorError) as refusal:
            async with connect(f"http://127.0.0.1:{port}", token_file=home.folder / "wrong"):
                pass
        assert refusal.value.code == "unauthorized"
        line = logging.LogRecord("x", logging.INFO, "", 0, token, None, None)
        assert token not in TextLines(cover, for_journal=False).format(line)


async def test_a_port_that_is_taken_is_said_bare_and_nothing_is_left(home: Home) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        home.write(f"[daemon]\ntcp_port = {taken.getsockname()[1]}")

        with pytest.raises(supervisor.ConfigError, match="cannot be listened on"):
            await serve(home.load(), environ=home.environ)

    assert not home.has_socket


async def test_a_folder_that_is_open_to_others_is_refused_before_anything_happens(
    home: Home,
) -> None:
    folder = trio.Path(home.socket).parent
    await folder.mkdir()
    await folder.chmod(0o755)

    with pytest.raises(supervisor.ConfigError, match="open to other users"):
        await serve(home.load(), environ=home.environ)

    assert not await trio.Path(home.folder / ".local").exists()
