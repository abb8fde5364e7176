"""Cancelling contained processes at any point leaves nothing behind."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.process.contained import ContainedProcesses, open_processes
from supervisor.json_rpc.rpc_outbox import InputClosed
from tests.support.process_programs import (
    FORK_ALL_KINDS,
    PATIENCE_SECONDS,
    accept_process,
    bearing,
    children,
    python,
    read_all,
    running,
    shell,
)


@pytest.mark.parametrize("milliseconds", [0, 1, 5, 10, 20, 30, 40, 60, 100])
async def test_a_launch_cancelled_at_any_time_leaves_no_process(milliseconds: int) -> None:
    name = secrets.token_hex(8)
    before = set(children())
    with trio.move_on_after(milliseconds / 1000) as scope:
        launch = python(FORK_ALL_KINDS, {"NAME": name})
        async with (
            open_processes() as processes,
            processes.open(launch, before_exec=accept_process) as process,
        ):
            await read_all(process)

    assert scope.cancelled_caught
    assert bearing(name) == []
    assert set(children()) <= before  # a child of an earlier test may be reaped meanwhile


async def test_a_launch_cancelled_during_the_recording_never_runs(
    processes: ContainedProcesses, tmp_path: Path
) -> None:
    with trio.CancelScope() as scope:

        async def note(_: ProcessIdentity) -> None:
            scope.cancel()
            await trio.sleep_forever()

        async with processes.open(shell(f"touch {tmp_path}/action"), before_exec=note):
            raise AssertionError("it runs")

    assert scope.cancelled_caught
    assert not (tmp_path / "action").exists()


@pytest.mark.parametrize("wait", ["receive", "send", "wait", "wait_gone"])
async def test_a_cancelled_block_leaves_no_process(
    processes: ContainedProcesses, wait: str
) -> None:
    name = secrets.token_hex(8)
    with trio.CancelScope() as scope:
        async with (
            running(processes, shell("exec sleep 1000", NAME=name)) as lines,
            trio.open_nursery() as nursery,
        ):
            match wait:
                case "receive":
                    nursery.start_soon(lines.process.receive)
                case "send":
                    nursery.start_soon(lines.process.send, b"x" * 1_000_000)
                case "wait":
                    nursery.start_soon(lines.process.wait)
                case "wait_gone":
                    nursery.start_soon(lines.process.wait_gone, PATIENCE_SECONDS)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()

    assert scope.cancelled_caught
    assert bearing(name) == []


async def test_input_bytes_count_what_was_written(processes: ContainedProcesses) -> None:
    async with running(processes, shell("exec sleep 1000")) as lines:
        await lines.process.send(b"hello")
        assert lines.process.input_bytes == 5

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lines.process.send, b"x" * 1_000_000)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        written = lines.process.input_bytes
        with pytest.raises(InputClosed):
            await lines.process.send(b"more")

    assert 5 < written < 1_000_005
    assert lines.process.input_bytes == written


# Back to base -----------------------------------------------------------------------------


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def foreign_threads() -> list[threading.Thread]:
    """All but those that trio keeps a while for the next who needs one."""
    return [one for one in threading.enumerate() if not one.name.startswith("Trio thread")]


async def live(processes: ContainedProcesses, number: int) -> None:
    """Run one process of one of several kinds to its end."""
    script = ["exit 0", "cat", "kill -9 $$", "setsid sleep 1000 & exec cat"][number % 4]
    async with processes.open(shell(script), before_exec=accept_process) as process:
        if number % 3 == 0:
            process.kill()
            await process.wait()
        elif number % 3 == 1:
            process.close_input()
            await read_all(process)


async def check_lives(processes: ContainedProcesses, count: int) -> None:
    await live(processes, 0)  # the first of all opens what stays open, for instance trio's own
    before = descriptors(), set(foreign_threads()), set(children())
    tasks = trio.lowlevel.current_statistics().tasks_living
    for number in range(count):
        await live(processes, number)

    # Fewer are no leak: a thread or a child of an earlier test may have ended meanwhile.
    assert descriptors() <= before[0]
    assert set(foreign_threads()) <= before[1]
    assert set(children()) <= before[2]
    assert trio.lowlevel.current_statistics().tasks_living == tasks


async def test_descriptors_tasks_and_threads_do_not_leak(
    processes: ContainedProcesses,
) -> None:
    await check_lives(processes, 12)


@pytest.mark.soak
async def test_descriptors_tasks_and_threads_do_not_leak_over_500_processes(
    processes: ContainedProcesses, record_property: Callable[[str, object], None]
) -> None:
    record_property("covered", "500 agent processes")
    await check_lives(processes, 500)


async def test_many_processes_run_at_once_and_none_is_left() -> None:
    name = secrets.token_hex(8)
    before = descriptors()

    async def one(processes: ContainedProcesses, number: int) -> None:
        launch = shell(f"echo {number}; exec sleep 1000", NAME=name)
        async with running(processes, launch) as lines:
            assert await lines.next() == str(number)

    async with open_processes() as processes, trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(one, processes, number)

    assert bearing(name) == []
    assert descriptors() <= before
