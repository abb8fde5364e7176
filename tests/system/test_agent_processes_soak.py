"""Runs of agent processes that end in every way leave no descriptor, task, thread or process.

Real processes in real time; the tests wait for facts.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio

import supervisor
from supervisor import Ladder, Restart, Session, Settings, Supervisor
from tests.support.process_programs import PATIENCE_SECONDS, children, guardian_of, known

AT_ONCE: Final = 4
# A thread that has nothing to do is kept for ten.
IDLE_THREAD_SECONDS: Final = 15.0
AGENT: Final = supervisor.scripted_process()
TERMS: Final = Settings(
    ladder=Ladder(ask_seconds=0.3, close_seconds=0.3, terminate_seconds=0.3, kill_seconds=2.0),
    restart=Restart(policy="never"),
)


async def stops(session: Session) -> None:
    assert (await session.prompt("say hello")).text == "hello"


async def stops_in_a_turn(session: Session) -> None:
    await session.send("fork 3\nsetsid\nsleep 600")
    await _wait_running(session)


async def is_interrupted(session: Session) -> None:
    await session.send("sleep 600")
    await _wait_running(session)
    assert (await session.interrupt("turn")).stopped == 1


async def freezes(session: Session) -> None:
    await session.send("ignore-term\nfork 2\nstop-self")
    await _wait_running(session)
    assert (await session.interrupt("turn")).stopped == 1


async def crashes(session: Session) -> None:
    assert (await session.prompt("setsid\ncrash")).outcome == "lost"
    await session.wait_stopped()


async def is_killed(session: Session) -> None:
    pid = (await session.info()).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await session.wait_stopped()


async def loses_its_guardian(session: Session) -> None:
    pid = (await session.info()).pid
    assert pid is not None
    os.kill(guardian_of(known(pid)), signal.SIGKILL)
    await session.wait_stopped()


async def has_a_command_run(session: Session) -> None:
    assert "hello" in (await session.prompt("terminal echo hello")).text


ENDS: Final = (
    stops,
    stops_in_a_turn,
    is_interrupted,
    freezes,
    crashes,
    is_killed,
    loses_its_guardian,
    has_a_command_run,
)
Life = Callable[[Session], Awaitable[None]]


@attrs.frozen
class Held:
    """What this process holds."""

    descriptors: Counter[str]
    tasks: int
    threads: int
    children: tuple[int, ...]

    @classmethod
    def now(cls) -> Held:
        return cls(
            descriptors=_descriptors(),
            tasks=trio.lowlevel.current_statistics().tasks_living,
            threads=threading.active_count(),
            children=tuple(children()),
        )


async def no_more_than(base: Held) -> None:
    """Wait until this process holds no more than at first; a task may be about to end."""
    left = Held.now()
    with trio.move_on_after(PATIENCE_SECONDS):
        while not (
            left.descriptors <= base.descriptors
            and left.tasks <= base.tasks
            and {*left.children} <= {*base.children}
        ):
            await trio.sleep(0.01)
            left = Held.now()
        return
    raise AssertionError(f"{left} is more than {base}")


async def live(sup: Supervisor, life: Life, workspace: Path) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        rights = supervisor.Permissions(mode="approve_all")
        session = await sup.create("scripted-process", workspace=str(workspace), permissions=rights)
        await life(session)
        await session.stop()
        await sup.delete(session.id)


async def live_many(sup: Supervisor, lives: int, workspace: Path) -> None:
    """Run this many agents of all kinds, some concurrently."""
    coming = iter([ENDS[number % len(ENDS)] for number in range(lives)])

    async def live_on() -> None:
        for life in coming:
            await live(sup, life, workspace)

    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE):
            nursery.start_soon(live_on)


async def test_agent_runs_leave_no_process_task_or_descriptor(tmp_path: Path) -> None:
    async with supervisor.open(":memory:", agents=[AGENT], settings=TERMS) as sup:
        await live(sup, stops, tmp_path)  # what is made once is there
        base = Held.now()
        await live_many(sup, 2 * len(ENDS), tmp_path)

        await no_more_than(base)


@pytest.mark.soak
async def test_500_agent_runs_leave_no_process_task_descriptor_or_thread(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("covered", "500 agent processes")
    async with supervisor.open(":memory:", agents=[AGENT], settings=TERMS) as sup:
        await live(sup, stops, tmp_path)
        await trio.sleep(IDLE_THREAD_SECONDS)
        base = Held.now()
        await live_many(sup, 500, tmp_path)
        await trio.sleep(IDLE_THREAD_SECONDS)

        assert Held.now() == base


async def _wait_running(session: Session) -> None:
    """Until its agent has begun with the turn: its process is at it then."""
    while (await session.info()).turn_id is None:  # noqa: ASYNC110 - there is nothing to wait on
        await trio.sleep(0.01)
    await trio.sleep(0.05)


def _descriptors() -> Counter[str]:
    """By what they are of; which file that is does not matter."""
    found: Counter[str] = Counter()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found[str(entry.readlink()).partition(":")[0]] += 1
        except OSError:
            continue  # the one by which we look
    return found
