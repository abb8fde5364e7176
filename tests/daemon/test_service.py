"""A whole run of the daemon, in this process."""

from __future__ import annotations

import logging
import os
import socket
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
import trio

import supervisor
from supervisor.client import NoDaemon, RemoteSupervisor, RemoteWatcher, connect
from supervisor.daemon import DaemonSignals, ExitCode, ensure_token, serve, service
from supervisor.daemon.exit_watchdog import ExitWatchdog
from supervisor.daemon.logging_ import SecretFilter, TextFormatter
from supervisor.http_server import unix_listener
from tests.support import stubborn_agent
from tests.support.daemon_in_process import Home, running
from tests.support.daemon_process import free_port
from tests.support.process_programs import wait_for


async def wait_until_draining(sup: RemoteSupervisor) -> None:
    code = ""
    while code != "not_ready":
        try:
            await sup._transport.request_bytes("GET", "v1/ready")
        except supervisor.SupervisorError as error:
            code = error.code


AGENTS = """
[settings]
exit_seconds = 0.05
[settings.ladder]
ask_seconds = 1.0
"""


SHORT_LADDER = """
ask_seconds = 0.05
close_seconds = 0.05
terminate_seconds = 0.05
kill_seconds = 0.05
"""
STUBBORN = """
[agents.stubborn]
function = "tests.support.stubborn_agent:agent"
"""


@pytest.fixture
def home(folder: Path) -> Home:
    made = Home(folder)
    made.write(AGENTS)
    return made


async def test_a_daemon_answers_and_exits_cleanly(home: Home) -> None:
    async with running(home) as daemon:
        session = await daemon.remote.create("echo")
        assert (await session.prompt("hello")).text == "hello"

    assert daemon.code is ExitCode.CLEAN
    assert not home.has_socket
    with pytest.raises(NoDaemon):
        async with connect(home.socket):
            pass


async def test_all_files_of_a_daemon_are_private(home: Home) -> None:
    async with running(home) as daemon:
        await daemon.remote.create("echo")
        paths = home.everything()

        assert len(paths) >= 6
        assert [path for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


async def test_sessions_exist_after_a_restart(home: Home) -> None:
    async with running(home) as daemon:
        session = await daemon.remote.create("echo")
        await session.prompt("hello")

    async with running(home) as daemon:
        again = await daemon.remote.get(session.id)

        assert (await again.prompt("more")).text == "more"
        assert len(await again.transcript()) == 4


async def test_a_second_daemon_is_refused_with_the_pid(home: Home) -> None:
    async with running(home):
        with pytest.raises(supervisor.StoreLocked, match=f"process {os.getpid()}"):
            await serve(home.load(), environ=home.environ)


async def test_a_second_daemon_on_the_same_store_is_refused(home: Home) -> None:
    async with running(home):
        home.write(f'{AGENTS}\n[daemon]\nsocket = "{home.folder}/other/s"')

        with pytest.raises(supervisor.StoreLocked, match=r"state\.db"):
            await serve(home.load(), environ=home.environ)


async def test_an_endless_turn_is_interrupted_and_the_exit_is_forced(home: Home) -> None:
    async with running(home) as daemon:
        session = await daemon.remote.create("scripted")
        await session.send("sleep 600")
        queued = await session.send("say later")

    assert daemon.code is ExitCode.FORCED
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


async def test_a_turn_ends_while_draining_and_watchers_see_it(home: Home) -> None:
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
    assert daemon.code is ExitCode.CLEAN


async def test_new_work_while_draining_gets_a_503(home: Home) -> None:
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


async def test_a_second_exit_request_does_not_wait_for_turns(home: Home) -> None:
    home.write("[settings]\nexit_seconds = 600.0")
    async with running(home) as daemon:
        session = await daemon.remote.create("scripted")
        await session.send("sleep 600")
        daemon.orders.leave()
        await wait_until_draining(daemon.remote)

        daemon.orders.leave()

    assert daemon.code is ExitCode.FORCED


async def test_a_second_exit_request_without_a_running_turn_interrupts_nothing(home: Home) -> None:
    async with running(home) as daemon:
        session = await daemon.remote.create("echo")
        await session.prompt("hello")
        daemon.orders.leave()

        daemon.orders.leave()

    assert daemon.code is ExitCode.CLEAN


async def test_the_process_exits_without_a_stuck_agent(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "_EXIT_GRACE_SECONDS", 0.05)
    ended: list[int] = []
    home.write(AGENTS.replace("ask_seconds = 1.0", SHORT_LADDER) + STUBBORN)
    orders = DaemonSignals()
    with trio.fail_after(30), ExitWatchdog(ended.append) as watchdog:
        async with trio.open_nursery() as nursery:
            work = partial(
                serve,
                home.load(),
                environ=home.environ,
                signals=orders,
                exit_watchdog=watchdog,
            )
            await nursery.start(work)
            async with connect(home.socket) as sup:
                await (await sup.create("stubborn")).send("take your time")
            orders.leave()
            while not ended:  # noqa: ASYNC110 - a process would be gone by now
                await trio.sleep(0.01)
            stubborn_agent.may_end.set()

    assert ended[0] == ExitCode.STUCK
    assert "shutdown waits for a task" in caplog.text


async def test_the_process_exits_although_the_store_cannot_be_opened(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A thread that waits for a disk which does not answer cannot be cancelled."""
    opening, answers = trio.Event(), trio.Event()

    @asynccontextmanager
    async def open_supervisor(*_: object, **_more: object) -> AsyncIterator[None]:
        opening.set()
        with trio.move_on_after(2.0, shield=True):
            await answers.wait()
        yield

    monkeypatch.setattr(service, "open_with_tools", open_supervisor)
    monkeypatch.setattr(service, "_WITHOUT_STORE_SECONDS", 0.05)
    ended: list[int] = []
    orders = DaemonSignals()
    with trio.fail_after(5), ExitWatchdog(ended.append) as watchdog:
        async with trio.open_nursery() as nursery:
            work = partial(serve, home.load(), environ=home.environ, signals=orders)
            nursery.start_soon(partial(work, exit_watchdog=watchdog))
            await opening.wait()
            orders.leave()
            while not ended:  # noqa: ASYNC110 - a process would be gone by now
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
            answers.set()

    assert ended == [ExitCode.STUCK]
    assert "the store has not been opened" in caplog.text


async def test_stalled_readers_do_not_delay_the_exit(home: Home) -> None:
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

    assert daemon.code is ExitCode.CLEAN


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


def test_a_daemon_releases_everything_at_exit(home: Home) -> None:
    trio.run(a_life, home)
    before = held()

    for _ in range(3):
        trio.run(a_life, home)

    wait_for(lambda: is_not_more(held(), before))  # a thread may still be about to end


async def test_systemd_is_notified_of_ready_and_stopping(
    home: Home,
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(home.folder / "notify"))
        systemd.settimeout(30)
        environ = {"NOTIFY_SOCKET": str(home.folder / "notify"), "WATCHDOG_USEC": "300000"}
        async with running(home, environ=environ) as daemon:
            said = [systemd.recv(999)]
            while said[-1] != b"WATCHDOG=1":
                said.append(await trio.to_thread.run_sync(systemd.recv, 999))
        while not said[-1].startswith(b"STOPPING"):
            said.append(systemd.recv(999))

    assert said[0].startswith(b"READY=1\nSTATUS=listening on ")
    assert b"STATUS=0 sessions live, 0 turns run" in said
    assert daemon.code is ExitCode.CLEAN


async def test_the_status_line_counts_one_as_one() -> None:
    async with supervisor.open() as sup:
        session = await sup.create("scripted")
        async with session.watch() as feed:
            await session.send("sleep 60")
            async for item in feed:
                if isinstance(item, supervisor.Record) and item.kind == "turn_started":
                    break
        assert sup.introspect().status_line() == "1 session live, 1 turn runs"


async def test_requests_on_the_port_need_the_token(home: Home) -> None:
    port = free_port()
    home.write(f"[daemon]\ntcp_port = {port}")
    secret_filter = SecretFilter()
    async with running(home, secret_filter=secret_filter):
        path = home.load().daemon.token
        token = (await trio.Path(path).read_text()).strip()
        async with connect(f"http://127.0.0.1:{port}", token_file=path) as sup:
            assert (await sup.stats()).sessions == 0
        ensure_token(home.folder / "wrong")  # of another daemon
        with pytest.raises(supervisor.SupervisorError) as refusal:
            async with connect(f"http://127.0.0.1:{port}", token_file=home.folder / "wrong"):
                pass
        assert refusal.value.code == "unauthorized"
        line = logging.LogRecord("x", logging.INFO, "", 0, token, None, None)
        formatter = TextFormatter(secret_filter, show_content=True, for_journal=False)
        assert token not in formatter.format(line)


async def test_a_port_in_use_raises_bare_and_leaves_nothing(home: Home) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        home.write(f"[daemon]\ntcp_port = {taken.getsockname()[1]}")

        with pytest.raises(supervisor.ConfigError, match="cannot listen on port"):
            await serve(home.load(), environ=home.environ)

    assert not home.has_socket


async def test_a_folder_open_to_other_users_is_refused_before_any_change(
    home: Home,
) -> None:
    folder = trio.Path(home.socket).parent
    await folder.mkdir()
    await folder.chmod(0o755)

    with pytest.raises(supervisor.ConfigError, match="accessible to other users"):
        await serve(home.load(), environ=home.environ)

    assert not await trio.Path(home.folder / ".local").exists()


async def test_a_deleted_socket_is_made_again_with_its_mode(
    home: Home, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_listener, "_CHECK_SECONDS", 0.01)
    async with running(home):
        path = trio.Path(home.socket)
        await path.unlink()
        while not home.has_socket:  # noqa: ASYNC110 - a file has no event
            await trio.sleep(0.01)

        assert stat.S_IMODE((await path.stat()).st_mode) == 0o600
        async with connect(home.socket) as again:
            assert (await again.stats()).sessions == 0

    assert not home.has_socket
    assert "was deleted, and is made again" in caplog.text


async def test_a_file_in_place_of_the_socket_is_reported_once_and_kept(
    home: Home, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_listener, "_CHECK_SECONDS", 0.01)
    async with running(home):
        path = trio.Path(home.socket)
        beside = path.with_name("mine")
        await beside.write_text("mine")
        await beside.replace(path)
        while "is not a socket" not in caplog.text:  # noqa: ASYNC110 - the log has no event
            await trio.sleep(0.01)
        await trio.sleep(0.05)

        assert caplog.text.count("is not a socket") == 1
        assert await path.read_text() == "mine"
        await path.unlink()
        while not home.has_socket:  # noqa: ASYNC110 - a file has no event
            await trio.sleep(0.01)
