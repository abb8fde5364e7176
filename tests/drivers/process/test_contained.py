"""Contained processes: environment, launch failures, exit, input and output."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import trio

from supervisor.drivers.identity import ProcessIdentity, is_alive
from supervisor.drivers.process.contained import ContainedProcesses
from supervisor.drivers.process.fork_server import ForkServer
from supervisor.drivers.process.pipes import CHUNK_BYTES
from supervisor.drivers.process.processes import (
    Launch,
    LaunchFailed,
    ProcessExit,
)
from supervisor.drivers.workspaces import find_root
from supervisor.json_rpc.rpc_outbox import InputClosed, InputStuck
from tests.support.process_programs import (
    PATIENCE_SECONDS,
    accept_process,
    output_of,
    python,
    read_all,
    running,
    shell,
)

# What it is given -------------------------------------------------------------------------


async def test_a_process_has_only_its_environment_and_the_marker(
    processes: ContainedProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_SECRET", "ours")
    launch = Launch(("/usr/bin/env",), {"GREETING": "hello=there\nagain", "EMPTY": ""})

    said = await output_of(processes, launch)

    mark = said[said.index("UNDERSTUDY_CONTAINMENT=") :]
    assert said == f"GREETING=hello=there\nagain\nEMPTY=\n{mark}"
    assert mark.count("\n") == 1


async def test_a_process_has_only_its_three_streams_open(
    processes: ContainedProcesses,
) -> None:
    ours = os.dup(0)
    os.set_inheritable(ours, True)  # noqa: FBT003 - its only argument
    try:
        said = await output_of(processes, python("say(*sorted(os.listdir('/proc/self/fd')))"))
    finally:
        os.close(ours)

    # The last one is the folder that it reads.
    assert said.split() == ["0", "1", "2", "3"]


async def test_a_process_leads_a_session_and_a_group_of_its_own(
    processes: ContainedProcesses,
) -> None:
    said = await output_of(processes, python("say(os.getpid(), os.getpgrp(), os.getsid(0))"))

    assert len(set(said.split())) == 1


async def test_a_process_starts_without_ignored_or_blocked_signals(
    processes: ContainedProcesses,
) -> None:
    said = await output_of(processes, shell("cat /proc/self/status"))

    masks = {line.split()[1] for line in said.splitlines() if line.startswith(("SigBlk", "SigIgn"))}
    assert masks == {"0" * 16}


async def test_a_process_runs_in_the_given_directory(
    processes: ContainedProcesses, tmp_path: Path
) -> None:
    launch = Launch(("pwd",), {"PATH": "/usr/bin:/bin"}, cwd=str(tmp_path))

    assert await output_of(processes, launch) == f"{tmp_path}\n"


async def test_a_process_runs_in_our_directory_by_default(
    processes: ContainedProcesses,
) -> None:
    assert await output_of(processes, shell("pwd -P")) == f"{Path.cwd().resolve()}\n"


async def test_arguments_are_passed_unchanged(processes: ContainedProcesses) -> None:
    words = ("-n", "", " a  b ", "ä\n€", "$HOME", "\udcff")
    launch = Launch(("/usr/bin/printf", "%s|", *words), {})

    async with running(processes, launch) as lines:
        said = await read_all(lines.process)

    assert said == b"|".join(map(os.fsencode, words)) + b"|"


async def test_a_program_is_searched_in_the_agents_path(
    processes: ContainedProcesses, tmp_path: Path
) -> None:
    (tmp_path / "agent").write_text("#!/bin/sh\necho found\n")
    (tmp_path / "agent").chmod(0o755)
    (tmp_path / "hidden").mkdir()
    path = f"/nowhere:{tmp_path / 'hidden'}:{tmp_path}"

    assert await output_of(processes, Launch(("agent",), {"PATH": path})) == "found\n"


# Before it runs ---------------------------------------------------------------------------


async def test_a_process_is_recorded_before_it_runs(
    processes: ContainedProcesses, tmp_path: Path
) -> None:
    seen: list[tuple[ProcessIdentity, bool, bool]] = []

    async def note(identity: ProcessIdentity) -> None:
        await trio.sleep(0.02)  # it would have done it by now
        seen.append((identity, is_alive(identity), (tmp_path / "action").exists()))

    launch = shell(f"touch {tmp_path}/action; echo $$")
    async with running(processes, launch, note) as lines:
        said = await lines.next()

    assert seen == [(lines.process.identity, True, False)]
    assert int(said) == lines.process.identity.pid


async def test_a_process_that_cannot_be_recorded_never_runs(
    processes: ContainedProcesses, tmp_path: Path
) -> None:
    seen: list[ProcessIdentity] = []

    async def refuse(identity: ProcessIdentity) -> None:
        seen.append(identity)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        async with running(processes, shell(f"touch {tmp_path}/action"), refuse):
            raise AssertionError("it runs")

    assert not is_alive(seen[0])
    assert not (tmp_path / "action").exists()


async def test_an_exception_of_the_block_is_raised_unchanged(processes: ContainedProcesses) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with processes.open(shell("cat"), before_exec=accept_process):
            raise KeyError("mine")


def replace_by_link(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to("/")


async def test_a_process_runs_in_the_folder_that_was_checked(
    processes: ContainedProcesses, tmp_path: Path
) -> None:
    root = find_root(str(tmp_path))
    launch = Launch(("/bin/pwd",), {}, cwd=str(tmp_path)).in_folder(root)

    assert await output_of(processes, launch) == f"{tmp_path}\n"
    replace_by_link(tmp_path)
    with pytest.raises(LaunchFailed, match="it has been replaced"):
        await output_of(processes, launch)


# What cannot be launched ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("launch", "why"),
    [
        (Launch(("no-such-program",), {"PATH": "/usr/bin"}), "'no-such-program' was not found"),
        (Launch(("/no/such/program",), {}), "'/no/such/program' was not found"),
        (Launch(("/bin/sh",), {}, cwd="/no/such/folder"), "cannot work in '/no/such/folder'"),
        (
            Launch(("/bin/sh",), {}, cwd="/", folder=(1, 1)),
            "cannot work in '/': it has",
        ),
        (Launch(("/bin/sh", "x" * 200_000), {}), "by standard input"),
        (Launch((), {}), "the command is empty"),
        (Launch(("",), {}), "the command is empty"),
        (Launch(("a\0b",), {}), "contains a character"),
        (Launch(("/bin/sh",), {"NAME": "\ud800"}), "contains a character"),
        (Launch(("/bin/sh",), {"A=B": ""}), "cannot be named 'A=B'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_failed_launch_has_the_reason(
    processes: ContainedProcesses, launch: Launch, why: str
) -> None:
    with pytest.raises(LaunchFailed, match=why):
        async with running(processes, launch):
            raise AssertionError("it runs")


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("#!/bin/sh\n", 0o644, "cannot be executed"),
        ("echo hi\n", 0o755, "#!/bin/sh"),
        ("#!/no/such/shell\n", 0o755, "exists, but its interpreter does not"),
    ],
)
async def test_a_file_that_is_not_a_program_fails_with_the_reason(
    processes: ContainedProcesses, tmp_path: Path, text: str, mode: int, why: str
) -> None:
    file = tmp_path / "agent"
    file.write_text(text)
    file.chmod(mode)

    with pytest.raises(LaunchFailed, match=why):
        async with running(processes, Launch((str(file),), {})):
            raise AssertionError("it runs")


async def test_a_launch_fails_when_the_guardian_cannot_start(
    processes: ContainedProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/python")

    with pytest.raises(LaunchFailed, match="a guardian could not be started"):
        async with running(processes, shell("cat")):
            raise AssertionError("it runs")


async def test_a_launch_fails_on_other_systems_than_linux(
    processes: ContainedProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.drivers.process.guardian_client._IS_LINUX", False)

    with pytest.raises(LaunchFailed, match="need Linux"):
        async with running(processes, shell("cat")):
            raise AssertionError("it runs")


# How it ends ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "how"),
    [
        ("exit 0", ProcessExit(0)),
        ("exit 7", ProcessExit(7)),
        ("kill -TERM $$", ProcessExit(None, signal=signal.SIGTERM)),
    ],
)
async def test_the_exit_of_a_process_is_reported(
    processes: ContainedProcesses, script: str, how: ProcessExit
) -> None:
    async with running(processes, shell(script)) as lines:
        assert await lines.process.wait() == how
        assert await lines.process.wait_gone(PATIENCE_SECONDS) == ()
        assert how.is_clean == (how == ProcessExit(0))


async def test_the_output_of_a_process_that_exits_at_once_is_read(
    processes: ContainedProcesses,
) -> None:
    async with running(processes, shell("echo last words; echo why >&2; kill -9 $$")) as lines:
        assert (await lines.process.wait()).signal == signal.SIGKILL
        assert lines.process.stderr_tail() == "why\n"
        assert await read_all(lines.process) == b"last words\n"


async def test_wait_gone_returns_survivors_after_the_timeout(
    processes: ContainedProcesses,
) -> None:
    async with running(processes, shell("cat")) as lines:
        assert await lines.process.wait_gone(0.0) == (lines.process.identity.pid,)


# What comes out ---------------------------------------------------------------------------


async def test_a_flood_without_newlines_arrives_in_bounded_chunks(
    processes: ContainedProcesses,
) -> None:
    total = largest = 0
    async with running(processes, shell("head -c 100000000 /dev/zero")) as lines:
        while piece := await lines.process.receive():
            total += len(piece)
            largest = max(largest, len(piece))

    assert total == 100_000_000
    assert largest <= CHUNK_BYTES


async def test_an_unread_flood_waits_in_the_pipe(processes: ContainedProcesses) -> None:
    launch = shell("head -c 1000000 /dev/zero; echo done >&2")
    async with running(processes, launch) as lines:
        await lines.process.receive()
        assert lines.process.stderr_tail() == ""
        await read_all(lines.process)
        await lines.process.wait()

        assert lines.process.stderr_tail() == "done\n"


async def test_a_process_that_closes_its_output_stays_alive(
    processes: ContainedProcesses,
) -> None:
    async with running(processes, shell("echo bye; exec sleep 1000 >&-")) as lines:
        assert await read_all(lines.process) == b"bye\n"
        assert await lines.process.receive() == b""
        assert is_alive(lines.process.identity)


async def test_standard_error_is_always_read_and_only_its_end_is_kept(
    processes: ContainedProcesses,
) -> None:
    launch = shell("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo the end >&2; echo done")
    async with running(processes, launch) as lines:
        assert await lines.next() == "done"
        tail = lines.process.stderr_tail()

    assert tail.endswith("xxxthe end\n")
    assert len(tail) == 16384


async def test_standard_error_is_stripped_of_terminal_controls(
    processes: ContainedProcesses,
) -> None:
    text = r"\033[31mred\033[0m\033]0;title\007 \a\b\0ok\r\n\302\233\377\342\200\256"
    async with running(processes, shell(f"printf '{text}' >&2")) as lines:
        await lines.process.wait()

        assert lines.process.stderr_tail() == "red ok\n\ufffd"


# What goes in -----------------------------------------------------------------------------


async def test_sent_data_is_read_in_order_until_the_input_is_closed(
    processes: ContainedProcesses,
) -> None:
    async with running(processes, shell("cat")) as lines:
        for word in (b"one ", b"", b"two ", b"three"):
            await lines.process.send(word)
        lines.process.close_input()
        lines.process.close_input()

        assert await read_all(lines.process) == b"one two three"
        with pytest.raises(InputClosed):
            await lines.process.send(b"four")


async def test_large_data_is_sent_at_the_pace_of_the_reader(processes: ContainedProcesses) -> None:
    async with running(processes, shell("wc -c")) as lines:
        await lines.process.send(b"x" * 5_000_000)
        lines.process.close_input()

        assert (await lines.next()).strip() == "5000000"


async def test_concurrent_sends_do_not_interleave(processes: ContainedProcesses) -> None:
    async with running(processes, shell("cat")) as lines, trio.open_nursery() as nursery:
        for letter in (b"a", b"b", b"c"):
            nursery.start_soon(lines.process.send, letter * 200_000 + b"\n")
        await trio.testing.wait_all_tasks_blocked()
        said = [await lines.next() for _ in range(3)]

    assert {text[0] * 200_000 for text in said} == set(said)


async def test_a_send_to_a_process_that_does_not_read_times_out(fork_server: ForkServer) -> None:
    processes = ContainedProcesses(fork_server, input_seconds=0.05)
    async with running(processes, shell("echo up; exec sleep 1000")) as lines:
        await lines.next()
        with pytest.raises(InputStuck):
            await lines.process.send(b"x" * 1_000_000)

        with pytest.raises(InputClosed):  # closed, because the next line would follow half a line
            await lines.process.send(b"more")


async def test_a_send_to_a_closed_input_raises_input_closed(
    processes: ContainedProcesses,
) -> None:
    async with running(processes, shell("exec <&-; echo closed; exec sleep 1000")) as lines:
        await lines.next()

        with pytest.raises(InputClosed):
            await lines.process.send(b"hello")


async def test_a_send_cancelled_half_way_closes_the_input(
    processes: ContainedProcesses,
) -> None:
    async with running(processes, shell("exec sleep 1000")) as lines:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lines.process.send, b"x" * 1_000_000)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

        with pytest.raises(InputClosed):
            await lines.process.send(b"more")


async def test_a_send_cancelled_before_it_started_changes_nothing(
    processes: ContainedProcesses,
) -> None:
    async with running(processes, shell("cat")) as lines:
        with trio.CancelScope() as scope:
            scope.cancel()
            await lines.process.send(b"never")
        await lines.process.send(b"after\n")

        assert await lines.next() == "after"


async def test_closing_the_input_wakes_a_waiting_send(processes: ContainedProcesses) -> None:
    async with (
        running(processes, shell("exec sleep 1000")) as lines,
        trio.open_nursery() as nursery,
    ):

        async def send() -> None:
            with pytest.raises(InputClosed):
                await lines.process.send(b"x" * 1_000_000)

        nursery.start_soon(send)
        await trio.testing.wait_all_tasks_blocked()
        lines.process.close_input()
