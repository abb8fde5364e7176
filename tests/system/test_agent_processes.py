"""Agents that are real processes, in a whole supervisor: nothing of them outlives it.

These are real processes, killed for real; what is waited for are facts, within the two seconds that
are promised.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

import supervisor
from supervisor import Session, Supervisor
from supervisor.drivers.identity import ProcessIdentity, identify, is_alive

PROMISED_SECONDS = 2.0
PATIENCE_SECONDS = 30.0

PROGRAM = """
import sys
import trio
import supervisor

async def main():
    agent = supervisor.scripted_process()
    async with supervisor.open(sys.argv[1], agents=[agent]) as sup:
        session = await sup.create("scripted-process")
        print((await session.info()).pid, flush=True)
        await session.send("ignore-term\\nfork 5\\nsetsid\\nsay away\\nsleep 600")
        async with session.watch() as feed:
            async for item in feed:
                if isinstance(item, supervisor.Record) and item.kind == "thought":
                    print(item.body["text"], flush=True)
                if isinstance(item, supervisor.Record) and item.kind == "agent_text":
                    print("ready", flush=True)

trio.run(main)
"""


class Services:
    """A supervisor in a process of its own, with one agent that has started others."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(store)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        said = ""
        for line in self.process.stdout:
            if line == "ready\n":
                break
            said += line
        pids = [int(number) for number in re.findall(r"\d+", said)]
        self.agent = _identity(pids[0])
        self.descendants = [_identity(pid) for pid in pids[1:]]

    @property
    def all(self) -> list[ProcessIdentity]:
        return [self.agent, *self.descendants]

    def guardian(self) -> int:
        """The parent of the agent."""
        stat = Path(f"/proc/{self.agent.pid}/stat").read_text()
        return int(stat.rpartition(")")[2].split()[1])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def _identity(pid: int) -> ProcessIdentity:
    found = identify(pid)
    assert found is not None
    return found


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    services = Services(tmp_path / "state.db")
    try:
        yield services
    finally:
        services.kill()
        assert services.process.stdout is not None
        services.process.stdout.close()
        for identity in services.all:
            if is_alive(identity):
                os.kill(identity.pid, signal.SIGKILL)


def until(fact: Callable[[], bool], seconds: float) -> bool:
    """Whether it is so within that time."""
    deadline = time.monotonic() + seconds
    while not fact():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_nothing_of_an_agent_outlives_a_supervisor_that_is_killed(services: Services) -> None:
    assert len(services.descendants) == 6
    assert all(map(is_alive, services.all))

    services.kill()

    assert until(lambda: not any(map(is_alive, services.all)), PROMISED_SECONDS)


def test_the_next_supervisor_goes_on_with_the_session(services: Services) -> None:
    services.kill()

    async def go_on(sup: Supervisor, session: Session) -> None:
        records = [record for turn in await session.history() for record in turn.records]
        assert [r.body["outcome"] for r in records if r.kind == "turn_ended"] == ["lost"]
        result = await session.prompt("say back again")
        assert (result.outcome, result.text) == ("completed", "back again")

    _reopen(services, go_on)


def test_what_a_dead_guardian_left_is_killed_by_the_next_supervisor(services: Services) -> None:
    os.kill(services.process.pid, signal.SIGSTOP)  # so that it cannot see to it itself
    os.kill(services.guardian(), signal.SIGKILL)
    services.kill()
    assert all(map(is_alive, services.descendants))  # the agent itself leaves when its input ends

    async def look(sup: Supervisor, session: Session) -> None:
        assert not any(map(is_alive, services.all))

    _reopen(services, look)


def test_a_dead_guardian_is_a_crash_of_the_agent_and_nothing_is_left(services: Services) -> None:
    os.kill(services.guardian(), signal.SIGKILL)

    assert until(lambda: not any(map(is_alive, services.all)), PATIENCE_SECONDS)


def test_a_copy_of_the_store_kills_nobody_whose_supervisor_lives(
    services: Services, tmp_path: Path
) -> None:
    for file in tmp_path.glob("state.db*"):
        shutil.copy(file, file.with_name(file.name.replace("state", "copy")))
    services.store = tmp_path / "copy.db"

    async def look(sup: Supervisor, session: Session) -> None:
        assert (await session.prompt("say the copy")).text == "the copy"
        assert all(map(is_alive, services.all))

    _reopen(services, look)
    assert all(map(is_alive, services.all))
    assert services.process.poll() is None


def _reopen(services: Services, then: Callable[[Supervisor, Session], object]) -> None:
    async def main() -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            agent = supervisor.scripted_process()
            async with supervisor.open(services.store, agents=[agent]) as sup:
                (info,) = (await sup.list()).items
                await then(sup, sup.session(info.id))  # type: ignore[misc]  # both are async

    trio.run(main)


def test_a_guardian_that_somebody_has_stopped_ends_them_all_the_same(services: Services) -> None:
    os.kill(services.guardian(), signal.SIGSTOP)

    services.kill()

    assert until(lambda: not any(map(is_alive, services.all)), PROMISED_SECONDS)


async def test_an_agent_that_is_stopped_is_named_as_evidence_of_its_stall() -> None:
    terms = supervisor.Settings(quiet_after_seconds=0.2, stalled_after_seconds=0.4)
    agent = supervisor.scripted_process()
    async with supervisor.open(":memory:", agents=[agent], settings=terms) as sup:
        session = await sup.create("scripted-process")
        await session.send("stop-self")
        with trio.fail_after(PATIENCE_SECONDS):
            async with session.watch() as feed:
                found = {}
                async for item in feed:
                    if isinstance(item, supervisor.Record) and item.kind in ("quiet", "stalled"):
                        found[item.kind] = item.body
                    if "stalled" in found:
                        break
        pid = (await session.info()).pid
        for body in found.values():
            assert body["waits_for"] == "process"
            assert body["detail"] == f"process {pid} is stopped by a signal"
        assert str(await session.why()).count("is stopped by a signal") == 1
        assert (await session.info()).badge == "hung"
        await session.interrupt("turn", reason="it sleeps")
