"""Killing contained processes with all their descendants."""

from __future__ import annotations

import os
import secrets
import signal

import pytest
import trio

from supervisor.drivers.identity import is_alive
from supervisor.drivers.process.contained import ContainedProcesses, SentSignal
from supervisor.drivers.process.processes import ProcessExit
from tests.support.process_programs import (
    ALL_KINDS,
    FORK_200,
    FORK_ALL_KINDS,
    PATIENCE_SECONDS,
    RUN_AWAY,
    alive,
    bearing,
    exists,
    guardian_of,
    known,
    python,
    running,
    shell,
)

STOP_SELF = (
    "ignore_term() if {deaf} else None; say('up'); os.kill(os.getpid(), signal.SIGSTOP); sleep()"
)
# The signal is blocked and awaited, not handled: a handler is not run if the signal arrives
# between the last bytecode and the system call of `signal.pause`.
SAY_AND_STAY = (
    "signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.{signal}}}); say('up'); "
    "signal.sigwait({{signal.{signal}}}); say('received'); sleep()"
)


# Asking -----------------------------------------------------------------------------------


async def test_terminating_reaches_the_whole_group(processes: ContainedProcesses) -> None:
    async with running(processes, python("say(os.getpid(), child()); sleep()")) as lines:
        everyone = await lines.pids(2)
        lines.process.terminate()

        assert await lines.process.wait() == ProcessExit(None, signal=signal.SIGTERM)
        assert await lines.process.wait_gone(PATIENCE_SECONDS) == ()
        assert alive(everyone) == []


async def test_interrupt_sends_sigint_to_the_group(processes: ContainedProcesses) -> None:
    async with running(processes, python(SAY_AND_STAY.format(signal="SIGINT"))) as lines:
        await lines.next()
        lines.process.interrupt()

        assert await lines.next() == "received"


async def test_a_stopped_process_receives_sigterm(
    processes: ContainedProcesses,
) -> None:
    async with running(processes, python(STOP_SELF.format(deaf=False))) as lines:
        await lines.next()
        lines.process.terminate()

        assert await lines.process.wait() == ProcessExit(None, signal=signal.SIGTERM)


async def test_a_process_that_ignores_sigterm_lives_until_it_is_killed(
    processes: ContainedProcesses,
) -> None:
    async with running(processes, python(SAY_AND_STAY.format(signal="SIGTERM"))) as lines:
        await lines.next()
        lines.process.terminate()
        assert await lines.next() == "received"
        lines.process.kill()

        assert await lines.process.wait() == ProcessExit(None, signal=signal.SIGKILL)


# Killing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "count"),
    [
        pytest.param("ignore_term(); say(os.getpid()); sleep()", 1, id="ignores TERM"),
        pytest.param("say(os.getpid()); os.kill(0, signal.SIGSTOP)", 1, id="stops itself"),
        pytest.param(FORK_200, 201, id="forks 200"),
        pytest.param(FORK_ALL_KINDS, ALL_KINDS, id="forks all kinds"),
        pytest.param(
            "say(os.getpid(), child(lambda: os.kill(os.getpid(), 19))); sleep()",
            2,
            id="stops another",
        ),
    ],
)
@pytest.mark.parametrize("how", ["killing", "leaving", "its end"])
async def test_no_process_is_left_of_a_misbehaving_agent(
    processes: ContainedProcesses, program: str, count: int, how: str
) -> None:
    async with running(processes, python(program)) as lines:
        everyone = await lines.pids(count)
        if how == "killing":
            lines.process.kill()
        if how == "its end":
            os.kill(lines.process.identity.pid, signal.SIGKILL)
        if how != "leaving":
            assert await lines.process.wait_gone(PATIENCE_SECONDS) == ()
            assert alive(everyone) == []

    assert alive(everyone) == []


async def test_a_chain_of_forking_processes_is_killed(processes: ContainedProcesses) -> None:
    name = secrets.token_hex(8)
    async with running(processes, python(RUN_AWAY, {"NAME": name})) as lines:
        await lines.next()
        lines.process.kill()

        assert await lines.process.wait_gone(PATIENCE_SECONDS) == ()

    assert bearing(name) == []


async def test_children_of_an_agent_are_killed_when_it_exits(processes: ContainedProcesses) -> None:
    launch = python("say(child(os.setsid)); sys.stdin.read(1); os._exit(3)")
    async with running(processes, launch) as lines:
        (left,) = await lines.pids(1)
        lines.process.close_input()

        assert await lines.process.wait() == ProcessExit(3)
        assert await lines.process.wait_gone(PATIENCE_SECONDS) == ()
        assert not is_alive(left)
        assert await lines.process.receive() == b""  # no process holds its output any more


async def test_a_dead_descendant_does_not_stay_a_zombie(
    processes: ContainedProcesses,
) -> None:
    launch = python("child(lambda: (escape(), say(os.getpid()), os._exit(0))); sleep()")
    async with running(processes, launch) as lines:
        pid = int(await lines.next())

        while exists(pid):  # noqa: ASYNC110 - no event to wait for
            await trio.sleep(0.001)


async def test_kill_may_be_repeated(
    processes: ContainedProcesses,
) -> None:
    async with running(processes, shell("cat")) as lines:
        for _ in range(3):
            lines.process.kill()
        assert await lines.process.wait_gone(PATIENCE_SECONDS) == ()
        lines.process.kill()
        lines.process.terminate()
        lines.process.interrupt()

        assert await lines.process.wait() == ProcessExit(None, signal=signal.SIGKILL)


async def test_a_stopped_guardian_still_kills(
    processes: ContainedProcesses,
) -> None:
    async with running(processes, shell("cat")) as lines:
        os.kill(guardian_of(lines.process.identity), signal.SIGSTOP)
        lines.process.kill()

        assert await lines.process.wait_gone(PATIENCE_SECONDS) == ()


# No other process ------------------------------------------------------------------------------


async def test_only_descendants_of_the_guardian_are_signalled(
    processes: ContainedProcesses, signals: list[SentSignal]
) -> None:
    one, other = python(FORK_ALL_KINDS), python(FORK_ALL_KINDS)
    async with running(processes, one) as first, running(processes, other) as second:
        theirs, others = await first.pids(ALL_KINDS), await second.pids(ALL_KINDS)
        first.process.terminate()
        first.process.kill()
        assert await first.process.wait_gone(PATIENCE_SECONDS) == ()

        assert alive(others) == [one.pid for one in others]
        assert {abs(sent.pid) for sent in signals} <= {one.pid for one in theirs}
        assert {sent.pid for sent in signals if sent.pid < 0} == {-first.process.identity.pid}
        assert {sent.agent for sent in signals} == {first.process.identity}


async def test_a_group_is_signalled_only_while_the_agent_is_not_reaped(
    processes: ContainedProcesses, signals: list[SentSignal]
) -> None:
    async with running(processes, shell("exit 0")) as lines:
        await lines.process.wait_gone(PATIENCE_SECONDS)
        before = len(signals)
        lines.process.terminate()
        lines.process.kill()

    assert len(signals) == before
    assert {sent.pid for sent in signals} == {-lines.process.identity.pid}


# Who cannot be killed ---------------------------------------------------------------------


async def test_surviving_processes_are_logged(
    processes: ContainedProcesses,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(*_: object, **__: object) -> object:
        await trio.lowlevel.checkpoint()
        return (known(os.getpid()),)

    monkeypatch.setattr("supervisor.drivers.process.contained.kill_containment", fail)
    async with running(processes, shell("read x")) as lines:
        os.kill(guardian_of(lines.process.identity), signal.SIGKILL)

        assert await lines.process.wait_gone(PATIENCE_SECONDS) == (os.getpid(),)
        lines.process.close_input()  # so it ends by itself

    assert f"process {os.getpid()} could not be killed" in caplog.text
