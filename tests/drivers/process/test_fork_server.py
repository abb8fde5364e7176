"""The fork server: guardians that it forks, its death, and systems on which it cannot fork."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio

from supervisor.drivers.identity import ProcessIdentity, is_alive
from supervisor.drivers.process.contained import ContainedProcesses, open_processes
from supervisor.drivers.process.fork_server import (
    _PROGRAM,
    ChildProcess,
    ForkServer,
    supervisor_pid,
)
from supervisor.drivers.process.processes import LaunchFailed, ProcessExit
from tests.support.process_programs import (
    PATIENCE_SECONDS,
    children,
    exists,
    guardian_of,
    known,
    output_of,
    running,
    shell,
    stat_fields,
    stop,
)


def fork_servers() -> list[ProcessIdentity]:
    """Return our fork servers: children with that program and without children of their own."""
    programs = [known(pid) for pid in children() if supervisor_pid(pid) == os.getpid()]
    guardians = {int(stat_fields(one.pid)[1]) for one in agents_of(programs)}
    return [one for one in programs if one.pid not in guardians]


def agents_of(guardians: list[ProcessIdentity]) -> list[ProcessIdentity]:
    found = []
    for guardian in guardians:
        listed = Path(f"/proc/{guardian.pid}/task/{guardian.pid}/children").read_text()
        found += [known(int(pid)) for pid in listed.split()]
    return found


def pipes_of(pid: int) -> set[str]:
    links = [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    return {link for link in links if link.startswith("pipe:")}


async def wait_until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 - the end of a process has no event here
            await trio.sleep(0.005)


async def test_one_fork_server_forks_all_guardians_which_are_our_children(
    processes: ContainedProcesses,
) -> None:
    async with AsyncExitStack() as stack:
        agents = [
            await stack.enter_async_context(running(processes, shell("cat"))) for _ in range(5)
        ]
        guardians = {guardian_of(one.process.identity) for one in agents}
        (server,) = fork_servers()

        assert guardians | {server.pid} <= set(children())
        assert len(guardians) == len(agents)


async def test_guardians_share_no_pipe(processes: ContainedProcesses) -> None:
    async with (
        running(processes, shell("cat")) as one,
        running(processes, shell("cat")) as other,
    ):
        pids = [guardian_of(one.process.identity), guardian_of(other.process.identity)]

        assert pipes_of(pids[0]) & pipes_of(pids[1]) == set()


async def test_a_guardian_has_a_process_group_of_its_own(processes: ContainedProcesses) -> None:
    async with running(processes, shell("cat")) as lines:
        guardian = guardian_of(lines.process.identity)

        assert os.getpgid(guardian) == guardian
        assert os.getsid(guardian) == os.getsid(0)


async def test_a_killed_fork_server_ends_no_agent_and_is_replaced(
    processes: ContainedProcesses,
) -> None:
    async with running(processes, shell("cat")) as lines:
        (server,) = fork_servers()
        os.kill(server.pid, signal.SIGKILL)
        await wait_until(lambda: not exists(server.pid))
        await lines.process.send(b"still there\n")

        assert await lines.next() == "still there"
        assert await output_of(processes, shell("echo next")) == "next\n"
        assert len(fork_servers()) == 1
        lines.process.terminate()
        assert await lines.process.wait() == ProcessExit(None, signal=signal.SIGTERM)


async def test_a_fork_server_killed_just_before_a_request_is_replaced(
    processes: ContainedProcesses,
) -> None:
    assert await output_of(processes, shell("echo first")) == "first\n"
    os.kill(fork_servers()[0].pid, signal.SIGKILL)

    assert await output_of(processes, shell("echo next")) == "next\n"


async def test_a_stopped_fork_server_is_continued_by_a_request(
    processes: ContainedProcesses,
) -> None:
    assert await output_of(processes, shell("echo first")) == "first\n"
    (server,) = fork_servers()
    stop(server)

    assert await output_of(processes, shell("echo next")) == "next\n"
    assert is_alive(server)


async def test_a_cancelled_block_keeps_its_fork_server_until_it_ends() -> None:
    before = set(children())
    with trio.CancelScope() as scope:
        async with open_processes() as processes:
            await output_of(processes, shell("echo it"))
            (server,) = fork_servers()
            scope.cancel()
            with trio.CancelScope(shield=True):
                assert await output_of(processes, shell("echo last")) == "last\n"
                assert fork_servers() == [server]

    assert set(children()) <= before


async def test_a_fork_server_ends_with_its_block() -> None:
    before = set(children())
    async with open_processes() as processes:
        assert await output_of(processes, shell("echo it")) == "it\n"

    assert set(children()) <= before


@pytest.mark.parametrize("clone", ["lambda: -1", "lambda: sys.exit()"])
async def test_a_guardian_runs_in_its_own_interpreter_when_none_can_be_forked(
    processes: ContainedProcesses, monkeypatch: pytest.MonkeyPatch, clone: str
) -> None:
    unable = f"guardian.fork_server.clone_sibling = {clone}; guardian.main()"
    program = _PROGRAM.replace("guardian.main()", unable)
    monkeypatch.setattr("supervisor.drivers.process.fork_server._PROGRAM", program)

    async with running(processes, shell("cat")) as lines:
        guardian = known(guardian_of(lines.process.identity))
        await lines.process.send(b"contained\n")

        assert await lines.next() == "contained"
        lines.process.kill()
        assert await lines.process.wait_gone(PATIENCE_SECONDS) == ()
    assert not exists(guardian.pid)


async def test_a_fork_server_without_answer_is_killed_with_what_it_forked(
    fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(children())
    late = "import time; real = guardian.launch.report; guardian.launch.report = "
    late += "lambda line: (time.sleep(0.3), real(line)); guardian.main()"
    program = _PROGRAM.replace("guardian.main()", late)
    monkeypatch.setattr("supervisor.drivers.process.fork_server._PROGRAM", program)
    processes = ContainedProcesses(fork_server, start_seconds=0.1)

    with pytest.raises(LaunchFailed, match="not ready within"):
        await output_of(processes, shell("echo it"))

    await wait_until(lambda: set(children()) <= before)


def test_a_child_that_another_part_of_the_program_waited_for_has_ended() -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(pid, 0)
    child = ChildProcess(pid)

    child.send_signal(signal.SIGKILL)

    assert child.has_ended()
