"""The guardians above a process: of everything that an agent starts, and of nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import attrs
import pytest

from supervisor.drivers.identity import ProcessStat, identify
from supervisor.drivers.process import containment
from supervisor.drivers.process.contained import ContainedProcesses
from supervisor.drivers.process.containment import (
    foreign_guardians_above,
    guardian_of,
    guardians_above,
)
from tests.support.process_programs import (
    ALL_KINDS,
    FORK_ALL_KINDS,
    known,
    python,
    running,
    wait_for,
)
from tests.support.process_programs import guardian_of as parent_pid

US = known(os.getpid())


async def test_every_process_of_a_containment_has_its_guardian_above(
    processes: ContainedProcesses,
) -> None:
    async with running(processes, python(FORK_ALL_KINDS)) as lines:
        pids = await lines.pids(ALL_KINDS)
        guardian = guardian_of(lines.process.identity)

        assert guardian is not None
        assert guardian.pid == parent_pid(lines.process.identity)
        assert {foreign_guardians_above(pid) for pid in pids} == {frozenset({guardian})}


async def test_two_agents_have_two_guardians(processes: ContainedProcesses) -> None:
    sleeping = python("say(os.getpid()); sleep()")
    async with running(processes, sleeping) as one, running(processes, sleeping) as two:
        await one.next()
        await two.next()
        first, second = one.process.identity, two.process.identity

        assert foreign_guardians_above(first) == frozenset([guardian_of(first)])
        assert foreign_guardians_above(second) == frozenset([guardian_of(second)])
        assert guardian_of(first) != guardian_of(second)


def test_a_process_beside_the_supervisor_has_none() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        found = known(process.pid)

        assert foreign_guardians_above(found) == frozenset()
        assert guardian_of(found) is None
        process.kill()


def test_a_process_that_has_ended_has_no_place() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        found = known(process.pid)
        process.kill()
        wait_for(lambda: identify(found.pid) is None)

        assert guardians_above(found) is None
    assert guardians_above(found) is None
    assert guardian_of(found) is None


def test_another_process_with_the_same_pid_has_no_place() -> None:
    earlier = attrs.evolve(US, start_time=US.start_time - 1)

    assert guardians_above(earlier) is None
    assert guardian_of(earlier) is None


def test_a_reused_pid_among_the_ancestors_starts_the_walk_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The parent ends, and a younger process has its pid when that is read."""
    reads: list[int] = []
    parent = ProcessStat(b"S", 0, 0, 5, is_dead=False)
    younger = attrs.evolve(parent, start_time=US.start_time + 1)

    def read(pid: int) -> ProcessStat:
        reads.append(pid)
        if pid == US.pid:
            return ProcessStat(b"S", 4, 0, US.start_time, is_dead=False)
        return younger if len(reads) < 4 else parent

    monkeypatch.setattr(containment, "read_stat", read)

    assert guardians_above(US) == frozenset()
    assert reads == [US.pid, 4, US.pid, 4]


async def test_the_guardians_of_the_supervisor_itself_do_not_count(
    processes: ContainedProcesses,
) -> None:
    """A supervisor that an agent runs has the agent's guardian above, as all around it has."""
    program = """
import json
sys.path[:0] = json.loads(os.environ["IMPORT_PATH"])
from supervisor.drivers.identity import identify
from supervisor.drivers.process.containment import foreign_guardians_above, guardians_above
us = identify(os.getpid())
say(len(guardians_above(us)), len(foreign_guardians_above(us)))
"""
    launch = python(program, {"IMPORT_PATH": json.dumps(sys.path)})

    async with running(processes, launch) as lines:
        above, foreign = map(int, (await lines.next()).split())

    assert (above >= 1, foreign) == (True, 0)
