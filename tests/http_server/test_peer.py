"""The peer of a unix socket: who connects, from which containment."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from supervisor.drivers.identity import identify
from supervisor.drivers.process.contained import open_processes
from supervisor.drivers.process.containment import guardian_of
from supervisor.http_server import peer
from supervisor.http_server.peer import peer_guardians, peer_pid, peer_uid
from supervisor.http_server.unix_listener import unix_listener
from tests.support.process_programs import Lines, python, running, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it needs credentials of peers")

CONNECT = """
import socket
connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ["SOCKET"])
"""


@asynccontextmanager
async def connected(path: Path, program: str) -> AsyncIterator[tuple[socket.socket, Lines]]:
    """Run a contained program that connects; yield our end of its connection."""
    with unix_listener(path) as listener:
        listener.setblocking(False)  # noqa: FBT003 - its only argument
        launch = python(CONNECT + program, {"SOCKET": str(path)})
        async with open_processes() as processes, running(processes, launch) as lines:
            await trio.lowlevel.wait_readable(listener)
            connection, _ = listener.accept()
            with connection:
                yield connection, lines


async def test_a_contained_peer_has_its_guardian_above(tmp_path: Path) -> None:
    async with connected(tmp_path / "s", "sleep()") as (connection, lines):
        assert peer_pid(connection) == lines.process.identity.pid
        assert peer_guardians(connection) == frozenset([guardian_of(lines.process.identity)])


async def test_a_peer_that_has_escaped_from_its_parent_is_contained_still(tmp_path: Path) -> None:
    program = "pid = os.fork()\nif pid == 0:\n    escape()"
    late = f"{program}\n    exec({CONNECT!r})\nsleep()"
    with unix_listener(tmp_path / "s") as listener:
        listener.setblocking(False)  # noqa: FBT003 - its only argument
        launch = python(late, {"SOCKET": str(tmp_path / "s")})
        async with open_processes() as processes, running(processes, launch) as lines:
            await trio.lowlevel.wait_readable(listener)
            connection, _ = listener.accept()
            with connection:
                assert peer_guardians(connection) == frozenset(
                    [guardian_of(lines.process.identity)]
                )


async def test_a_peer_that_has_ended_has_no_place_though_a_child_has_the_connection(
    tmp_path: Path,
) -> None:
    program = "say(child()) if os.fork() == 0 else None"
    async with connected(tmp_path / "s", f"{program}\nsleep()") as (connection, lines):
        (child,) = await lines.pids(1)
        pid = peer_pid(connection)
        assert pid is not None
        lines.process.kill()
        wait_for(lambda: identify(pid) is None and identify(child.pid) is None)

        assert peer_guardians(connection) is None


def test_a_peer_of_ours_is_in_no_containment() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert peer_guardians(ours) == frozenset()
        assert (peer_pid(ours), peer_uid(ours)) == (os.getpid(), os.geteuid())


def test_a_handle_that_says_the_peer_has_ended_is_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pid may be that of another process by now."""
    monkeypatch.setattr(peer, "_has_ended", lambda _: True)
    reader, writer = os.pipe()
    monkeypatch.setattr(peer, "_peer_handle", lambda _: reader)
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert peer_guardians(ours) is None
    os.close(writer)
    with pytest.raises(OSError, match="Bad file"):
        os.close(reader)  # it was closed


def test_without_handles_the_start_time_has_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "_peer_handle", lambda _: None)
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert peer_guardians(ours) == frozenset()
