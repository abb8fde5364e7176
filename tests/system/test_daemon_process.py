"""A real daemon process: start, signals, exit."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

import supervisor
from supervisor.client import connect
from supervisor.daemon import ExitCode, find_daemon
from supervisor.store.sqlite import schema
from tests.store.fixtures import make
from tests.support.daemon_in_process import Home, temporary_home
from tests.support.daemon_process import (
    AGENTS,
    Daemon,
    daemon,
    free_port,
    starting,
)
from tests.support.process_programs import descendants_of, wait_dead, wait_for

TEST_SECONDS = 60
QUICK = "[settings]\nexit_seconds = 0.2\n"


@pytest.fixture
def home() -> Iterator[Home]:
    with temporary_home(QUICK + AGENTS) as made:
        yield made


async def begin(home: Home, agent: str, script: str) -> str:
    """A session that is at work on the script."""
    with trio.fail_after(TEST_SECONDS):
        async with connect(home.socket) as sup:
            session = await sup.create(agent)
            await session.send(script)
            async with session.watch() as feed:
                async for item in feed:
                    if isinstance(item, supervisor.Record) and item.kind == "agent_text":
                        return str(session.id)
    raise AssertionError("the feed has ended")


async def info(home: Home, session_id: str) -> supervisor.Info:
    async with connect(home.socket) as sup:
        return await sup.session(session_id).info()


def refused(home: Home) -> tuple[int, str]:
    """Start another one; how it ended, and what it said."""
    with starting(home) as second:
        return second.wait(), second.log().splitlines()[-1]


def test_a_daemon_refuses_a_second_daemon_and_leaves_nothing(home: Home) -> None:
    with daemon(home) as first:
        session_id = trio.run(begin, home, "robot", "fork\nsetsid\nsay away\nsleep 600")
        processes = descendants_of(first.pid)

        code, said = refused(home)
        assert code == ExitCode.FAILED
        assert f"process {first.pid}" in said
        assert "hint: use that daemon, or stop it first" in said
        found = find_daemon(home.socket)
        assert found is not None
        assert found.pid == first.pid

        assert first.leave() == ExitCode.FORCED
        wait_dead(processes)
    assert not home.has_socket
    assert find_daemon(home.socket) is None
    with daemon(home) as again:
        assert trio.run(info, home, session_id).phase in ("suspended", "idle", "running")
        assert again.leave() in (ExitCode.CLEAN, ExitCode.FORCED)


def test_a_stale_socket_is_replaced(home: Home) -> None:
    with daemon(home) as first:
        first.kill()
    assert home.has_socket

    with daemon(home) as second:
        assert second.leave() == ExitCode.CLEAN


def test_a_second_signal_interrupts_turns(home: Home) -> None:
    home.write("[settings]\nexit_seconds = 600.0\n" + AGENTS)
    with daemon(home) as made:
        trio.run(begin, home, "robot", "say away\nsleep 600")
        processes = descendants_of(made.pid)
        made.signal(signal.SIGTERM)
        made.hear("STOPPING=1")

        made.signal(signal.SIGINT)

        assert made.wait() == ExitCode.FORCED
        wait_dead(processes)


def test_a_third_signal_kills_the_daemon_and_its_agents(home: Home) -> None:
    home.write("[settings]\nexit_seconds = 600.0\n" + AGENTS)
    with daemon(home) as made:
        trio.run(begin, home, "robot", "ignore-term\nsay away\nhang")
        processes = descendants_of(made.pid)
        for _ in range(2):
            made.signal(signal.SIGTERM)
            wait_for(lambda: "SIGTERM: exiting" in made.log(), TEST_SECONDS)
        wait_for(lambda: made.log().count("SIGTERM: exiting") == 2, TEST_SECONDS)

        made.signal(signal.SIGTERM)

        assert made.wait() in (128 + signal.SIGKILL, ExitCode.FORCED)
        wait_dead(processes)


def test_sighup_reloads_the_configuration(home: Home) -> None:
    with daemon(home) as made:
        old = trio.run(begin, home, "scripted", "say hello\nsleep 600")
        home.write(QUICK + AGENTS.replace("robot", "other") + "\n[settings.limits]\nmax_depth = 1")

        made.signal(signal.SIGHUP)
        made.hear("RELOADING=1")
        made.hear("READY=1")

        new = trio.run(begin, home, "other", "say hello\nsleep 600")
        assert trio.run(info, home, old).limits.max_depth == 3
        assert trio.run(info, home, new).limits.max_depth == 1
        home.write("nonsense")
        made.signal(signal.SIGHUP)
        made.hear("READY=1")
        wait_for(lambda: "configuration not reloaded" in made.log(), TEST_SECONDS)
        assert trio.run(info, home, old).phase == "running"
        made.leave()


# The program gets a signal when it imports what takes longest, long before its loop runs.
EARLY = """
import os, signal, sys
sent = [signal.{signal}] * {count}
class Finder:
    def find_spec(self, name, *_):
        while sent and name == "starlette":
            os.kill(os.getpid(), sent.pop())
sys.meta_path.insert(0, Finder())
from {module} import main
sys.exit(main({arguments}))
"""
PROGRAMS = {"supervisor.daemon.__main__": [], "supervisor.cli": ["serve"]}


def early(module: str, one: str, count: int = 1) -> tuple[str, str]:
    arguments = PROGRAMS[module]
    return "-c", EARLY.format(module=module, signal=one, count=count, arguments=arguments)


@pytest.mark.parametrize("module", PROGRAMS)
def test_sighup_during_start_up_is_handled_later(home: Home, module: str) -> None:
    with starting(home, program=early(module, "SIGHUP")) as made:
        made.hear("READY=1")
        wait_for(lambda: "configuration reloaded" in made.log(), TEST_SECONDS)

        assert made.leave() == ExitCode.CLEAN


@pytest.mark.parametrize("module", PROGRAMS)
def test_sigterm_during_start_up_exits_cleanly(home: Home, module: str) -> None:
    with starting(home, program=early(module, "SIGTERM")) as made:
        assert made.wait() == ExitCode.CLEAN
        assert "SIGTERM: exiting" in made.log()
    assert not home.has_socket


def test_three_signals_during_start_up_exit_at_once(home: Home) -> None:
    with starting(home, program=early("supervisor.cli", "SIGINT", 3)) as made:
        assert made.wait() == 128 + signal.SIGKILL
        assert "listening" not in made.log()


def test_an_invalid_configuration_is_reported_and_nothing_starts(home: Home) -> None:
    home.write("[settings]\nqueue_cap = 0")

    with starting(home) as made:
        assert made.wait() == ExitCode.MISCONFIGURED
        assert "queue_cap" in made.log()
    assert not home.has_socket


def test_a_database_of_the_first_version_is_served(home: Home) -> None:
    state = home.folder / ".local" / "state" / "understudy"
    state.mkdir(parents=True, mode=0o700)
    make.load(1, state / "state.db")
    with contextlib.closing(sqlite3.connect(state / "state.db")) as old:
        stored = {row[0] for row in old.execute("SELECT id FROM sessions")}

    async def look() -> set[str]:
        async with connect(home.socket) as sup:
            found: set[str] = {item.id for item in (await sup.list()).items}
            assert await sup.session(make.SESSIONS[0]).history()
            assert (await sup.search("Москва")).items
            assert (await (await sup.create("echo")).prompt("hello")).text == "hello"
            return found

    with daemon(home) as made:
        assert trio.run(look) == stored
        made.leave()
    # It was brought up to date, and what it was before is beside it.
    assert version(state / "state.db") == schema.VERSION > version(state / "state.db.v1") == 1


def version(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return schema.version_of(connection)


def test_a_drain_lets_a_turn_end_and_refuses_new_work(
    home: Home,
) -> None:
    home.write("[settings]\nexit_seconds = 60.0")

    async def drain(made: Daemon) -> None:
        async def wait_for_its_end() -> None:
            assert (await session.result(asked.input_id)).text == "bash: allowed\ndone"

        with trio.fail_after(TEST_SECONDS):
            async with connect(home.socket) as sup, trio.open_nursery() as nursery:
                session = await sup.create("scripted")
                # The permission keeps the turn until the daemon is at its leaving.
                asked = await session.send("ask bash\nsay done")
                nursery.start_soon(wait_for_its_end)
                while not (requests := await sup.permissions()):
                    await trio.lowlevel.checkpoint()
                made.signal(signal.SIGTERM)
                await trio.to_thread.run_sync(made.hear, "STOPPING=1")
                with pytest.raises(supervisor.SupervisorError) as refused:
                    await sup.create("echo")
                assert refused.value.code in ("session_not_active", "draining")
                await sup.answer(requests[0].id, "allow_once")

    with daemon(home) as made:
        trio.run(drain, made)
        assert made.wait() == ExitCode.CLEAN


# Secrets -------------------------------------------------------------------------------------


def what_is_seen_of(pid: int) -> bytes:
    """Arguments and environment, as anybody of the same user can read them."""
    seen = b""
    for name in ("cmdline", "environ"):
        with contextlib.suppress(OSError):
            seen += Path(f"/proc/{pid}/{name}").read_bytes()
    return seen


async def ask_by_port(made: Daemon, port: int) -> None:
    token = made.home.load().daemon.token
    async with connect(f"http://127.0.0.1:{port}", token_file=token) as sup:
        await (await sup.create("robot")).prompt("say hello")


def test_the_token_is_only_in_its_file(home: Home) -> None:
    port = free_port()
    home.write(QUICK + AGENTS + "\n[daemon]\nlog_level = 'debug'")
    with daemon(home, "--tcp", str(port)) as made:
        trio.run(ask_by_port, made, port)
        token = Path(home.load().daemon.token).read_text().strip().encode()
        pids = [made.pid, *(one.pid for one in descendants_of(made.pid))]
        seen = {pid: what_is_seen_of(pid) for pid in pids}
        assert all(b"python" in one for one in seen.values())
        assert [pid for pid, one in seen.items() if token in one] == []
        made.leave()

    holders = [path for path in _files(home.folder) if token in path.read_bytes()]
    assert [path.name for path in holders] == ["token"]


def _files(folder: Path) -> list[Path]:
    return [
        Path(above) / name
        for above, _, names in os.walk(folder)
        for name in names
        if (Path(above) / name).is_file()
    ]
