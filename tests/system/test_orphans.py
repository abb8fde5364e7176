"""Processes that a dead supervisor has left behind, and others that only look like them."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import trio

import supervisor
from supervisor.core.ids import SessionId
from supervisor.drivers.identity import ProcessIdentity, identify
from supervisor.store.port import ProcessEntry
from supervisor.store.sqlite.store import open_sqlite

SLEEPER = [sys.executable, "-c", "import signal; signal.pause()"]


@contextmanager
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEPER) as process:
        # It is our child: without this wait it stays a zombie after its death.
        threading.Thread(target=process.wait).start()
        try:
            yield process
        finally:
            process.kill()


async def note(path: Path, *identities: ProcessIdentity) -> None:
    """What the dead supervisor has noted before it died."""
    async with open_sqlite(path) as store:
        for one in identities:
            session = SessionId("s_gone")
            await store.record_process(ProcessEntry(session, one.pid, one.start_time, one.boot_id))


async def noted_after_a_start(path: Path) -> list[ProcessEntry]:
    async with supervisor.open(path) as sup:
        return await sup._services.store.processes()


def identity_of(process: subprocess.Popen[bytes]) -> ProcessIdentity:
    identity = identify(process.pid)
    assert identity is not None
    return identity


def test_a_recorded_orphan_is_killed_and_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with sleeper() as process:
        trio.run(note, path, identity_of(process))

        assert trio.run(noted_after_a_start, path) == []
        assert process.wait(timeout=10) < 0


def test_a_process_with_a_reused_pid_is_not_killed_at_start(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with sleeper() as process:
        identity = identity_of(process)
        older = attrs.evolve(identity, start_time=identity.start_time - 1)
        before_the_boot = attrs.evolve(identity, boot_id="another")
        trio.run(note, path, older, before_the_boot)

        assert trio.run(noted_after_a_start, path) == []
        assert process.poll() is None
