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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

import supervisor
from supervisor import Session, Supervisor
from supervisor.drivers.identity import ProcessIdentity, is_alive
from tests.support.process_programs import (
    PATIENCE_SECONDS,
    alive,
    guardian_of,
    known,
    stop,
    wait_dead,
    wait_for,
)

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


class SupervisorProcess:
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
        self.agent = known(pids[0])
        self.descendants = [known(pid) for pid in pids[1:]]

    @property
    def all(self) -> list[ProcessIdentity]:
        return [self.agent, *self.descendants]

    @property
    def guardian(self) -> ProcessIdentity:
        """The parent of the agent."""
        return known(guardian_of(self.agent))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def supervised_in(store: Path) -> Iterator[SupervisorProcess]:
    supervised = SupervisorProcess(store)
    try:
        yield supervised
    finally:
        supervised.kill()
        assert supervised.process.stdout is not None
        supervised.process.stdout.close()
        for identity in supervised.all:
            if is_alive(identity):
                os.kill(identity.pid, signal.SIGKILL)


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[SupervisorProcess]:
    with supervised_in(tmp_path / "state.db") as started:
        yield started


def test_nothing_of_an_agent_outlives_a_supervisor_that_is_killed(
    supervised: SupervisorProcess,
) -> None:
    assert len(supervised.descendants) == 6
    assert all(map(is_alive, supervised.all))

    supervised.kill()

    wait_dead(supervised.all)


def test_the_next_supervisor_continues_the_session(supervised: SupervisorProcess) -> None:
    supervised.kill()

    async def go_on(sup: Supervisor, session: Session) -> None:
        records = [record for turn in await session.history() for record in turn.records]
        assert [r.body["outcome"] for r in records if r.kind == "turn_ended"] == ["lost"]
        result = await session.prompt("say back again")
        assert (result.outcome, result.text) == ("completed", "back again")

    _reopen(supervised, go_on)


def kill_guardian_and_supervisor(supervised: SupervisorProcess) -> None:
    stop(known(supervised.process.pid))  # or it would kill the descendants of the agent itself
    os.kill(supervised.guardian.pid, signal.SIGKILL)
    supervised.kill()


def test_the_next_supervisor_kills_the_orphans_of_a_dead_guardian(tmp_path: Path) -> None:
    """Any supervisor does, also one of a test that runs at the same time: then set up again."""
    for attempt in range(10):
        with supervised_in(tmp_path / f"state{attempt}.db") as supervised:
            kill_guardian_and_supervisor(supervised)
            # The agent itself exits at the end of its input.
            if not all(map(is_alive, supervised.descendants)):
                continue

            async def look(
                sup: Supervisor, session: Session, orphans: SupervisorProcess = supervised
            ) -> None:
                assert alive(orphans.all) == []

            _reopen(supervised, look)
            return
    raise AssertionError("the descendants die without a supervisor that kills them")


def test_no_process_is_left_after_the_death_of_a_guardian(
    supervised: SupervisorProcess,
) -> None:
    os.kill(supervised.guardian.pid, signal.SIGKILL)

    wait_for(lambda: not alive(supervised.all))


def test_a_copied_store_kills_no_agent_of_a_live_supervisor(
    supervised: SupervisorProcess, tmp_path: Path
) -> None:
    for file in tmp_path.glob("state.db*"):
        shutil.copy(file, file.with_name(file.name.replace("state", "copy")))
    supervised.store = tmp_path / "copy.db"

    async def look(sup: Supervisor, session: Session) -> None:
        assert (await session.prompt("say the copy")).text == "the copy"
        assert all(map(is_alive, supervised.all))

    _reopen(supervised, look)
    assert all(map(is_alive, supervised.all))
    assert supervised.process.poll() is None


def _reopen(supervised: SupervisorProcess, then: Callable[[Supervisor, Session], object]) -> None:
    async def main() -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            agent = supervisor.scripted_process()
            async with supervisor.open(supervised.store, agents=[agent]) as sup:
                (info,) = (await sup.list()).items
                await then(sup, sup.session(info.id))  # type: ignore[misc]  # both are async

    trio.run(main)


def test_a_stopped_guardian_kills_its_agents_when_the_supervisor_dies(
    supervised: SupervisorProcess,
) -> None:
    stop(supervised.guardian)  # the kernel continues it only if it is stopped by then

    supervised.kill()

    wait_dead(supervised.all)


async def test_a_stopped_agent_process_is_evidence_of_its_stall() -> None:
    terms = supervisor.Settings(quiet_after_seconds=0.2, stalled_after_seconds=0.4)
    agent = supervisor.scripted_process()
    async with supervisor.open(":memory:", agents=[agent], settings=terms) as sup:
        session = await sup.create("scripted-process")
        pid = (await session.info()).pid
        assert pid is not None
        # Before the turn, so that the process is stopped whenever the session looks at it.
        stop(known(pid))
        await session.send("say hello")
        with trio.fail_after(PATIENCE_SECONDS):
            async with session.watch() as feed:
                found = {}
                async for item in feed:
                    if isinstance(item, supervisor.Record) and item.kind in ("quiet", "stalled"):
                        found[item.kind] = item.body
                    if "stalled" in found:
                        break
        for body in found.values():
            assert body["waits_for"] == "process"
            assert body["detail"] == f"process {pid} is stopped by a signal"
        assert str(await session.why()).count("is stopped by a signal") == 1
        assert (await session.info()).badge == "hung"
        await session.interrupt("turn", reason="it sleeps")
