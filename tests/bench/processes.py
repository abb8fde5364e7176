"""Agents that are processes: how fast they stream, what a start costs, when a frozen one goes."""

from __future__ import annotations

import resource
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import trio

import supervisor
from supervisor import Ladder, Record, Session, Settings
from supervisor.drivers.process.contained import open_processes
from supervisor.drivers.process.processes import Launch
from tests.bench._row import Row, at_least, at_most
from tests.support.process_programs import accept_process, bearing, guardian_of

CHUNKS = 100_000
CHUNKS_TO_REACH = 15_000.0
PROCESSES = 100
LADDER = Ladder(ask_seconds=0.5, close_seconds=0.5, terminate_seconds=0.5, kill_seconds=0.5)
MARGIN_SECONDS = 0.5
GONE_SECONDS = 2.0  # invariant: no agent process outlives its supervisor for longer
DESCENDANTS = 25
# A supervisor in a process of its own, with one agent that ignores SIGTERM and has forked.
VICTIM = """
import sys, trio, supervisor

command = [sys.executable, "-m", "supervisor.drivers.scripted"]
agent = supervisor.acp("forking", command=command, env={"BENCH_NAME": sys.argv[1]})

async def main():
    async with supervisor.open(agents=[agent]) as sup:
        session = await sup.create("forking")
        await session.send("ignore-term\\n" + "fork\\n" * 20 + "setsid\\n" * 5 + "sleep 600")
        await trio.sleep_forever()

trio.run(main)
"""

AGENT = supervisor.scripted_process()
CAT = Launch(("/bin/cat",), {})


async def _wait_for(session: Session, kind: str, *, has_begun: trio.Event) -> None:
    async with session.watch() as feed:
        has_begun.set()
        async for item in feed:
            if isinstance(item, Record) and item.kind == kind:
                return


def chunks_per_second() -> float:
    """Text from a real process through driver, feed and store on a disk, with one watcher."""

    async def main(path: Path) -> float:
        async with supervisor.open(path, agents=[AGENT]) as sup:
            session = await sup.create(AGENT.name)
            async with trio.open_nursery() as nursery:
                watches = trio.Event()
                nursery.start_soon(lambda: _wait_for(session, "turn_ended", has_begun=watches))
                await watches.wait()
                begun = time.perf_counter()
                result = await session.prompt(f"flood {CHUNKS}")
                took = time.perf_counter() - begun
            assert result.outcome == "completed", result.error
            return CHUNKS / took

    with tempfile.TemporaryDirectory() as folder:
        return trio.run(main, Path(folder, "state.db"))


def own_cpu_seconds_per_start() -> float:
    """Measure our cost of a hundred agents, each started, prompted once and stopped."""

    async def main() -> float:
        settings = Settings(max_agent_processes=PROCESSES)

        async def life() -> None:
            session = await sup.create(AGENT.name)
            await session.prompt("say hello")
            await session.stop()

        async with supervisor.open(agents=[AGENT], settings=settings) as sup:
            await life()
            begun = time.process_time()
            async with trio.open_nursery() as nursery:
                for _ in range(PROCESSES):
                    nursery.start_soon(life)
            return (time.process_time() - begun) / PROCESSES

    return trio.run(main)


def containment_milliseconds_per_process() -> float:
    """Measure what containing a program takes beyond running it: our processes and this one.

    The fork server, which all share, is included.
    """

    async def main() -> None:
        async with open_processes() as processes:
            for _ in range(PROCESSES):
                async with processes.open(CAT, before_exec=accept_process) as process:
                    process.close_input()
                    await process.wait()

    trio.run(main)  # what the first use alone takes
    begun = processor_seconds()
    trio.run(main)
    contained = processor_seconds() - begun
    begun = processor_seconds(resource.RUSAGE_CHILDREN)
    for _ in range(PROCESSES):
        subprocess.run(CAT.command, check=True, stdin=subprocess.DEVNULL)
    bare = processor_seconds(resource.RUSAGE_CHILDREN) - begun
    return (contained - bare) / PROCESSES * 1000


def processor_seconds(*whose: int) -> float:
    """Return the processor time of this process and of the children that it has waited for."""
    used = map(resource.getrusage, whose or (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def guardian_bytes(count: int) -> float:
    """Measure the memory of a guardian among ``count``, where a shared page counts in parts."""

    async def main() -> float:
        async with open_processes() as processes, AsyncExitStack() as stack:
            contained = [
                await stack.enter_async_context(processes.open(CAT, before_exec=accept_process))
                for _ in range(count)
            ]
            return statistics.median(
                proportional_bytes(guardian_of(process.identity)) for process in contained
            )

    return trio.run(main)


def proportional_bytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def seconds_until_a_frozen_agent_is_gone() -> float:
    """From the interrupt to the end of its turn, which is when nothing of it is left."""

    async def main() -> float:
        async with supervisor.open(agents=[AGENT], settings=Settings(ladder=LADDER)) as sup:
            session = await sup.create(AGENT.name)
            await session.send("ignore-term\nfork\nstop-self\nsleep 600")
            await trio.sleep(0.3)
            report = await session.interrupt()
            assert report.stopped == 1
            return report.seconds

    return trio.run(main)


def seconds_until_all_processes_are_gone() -> float:
    """From kill -9 of a supervisor to the end of the last process of its agent."""
    name = secrets.token_hex(8)
    victim = subprocess.Popen([sys.executable, "-c", VICTIM, name])
    try:
        while len(bearing(name)) <= DESCENDANTS:  # the agent and its descendants
            assert victim.poll() is None
            time.sleep(0.05)
    finally:
        begun = time.perf_counter()
        victim.kill()
        victim.wait()
    while bearing(name):
        time.sleep(0.005)
    return time.perf_counter() - begun


def unless_on_linux() -> str | None:
    return None if sys.platform == "linux" else "there are no guardians elsewhere"


ROWS = (
    Row(
        name="text of a process through driver, feed and store",
        against="15,000 chunks/s",
        ours=chunks_per_second,
        peer=lambda: CHUNKS_TO_REACH,
        unit="chunks/s",
        reach=at_least(1.0),
        collector="running",
    ),
    Row(
        name="a frozen agent is gone",
        against="the ladder's bounds and 0.5 s",
        ours=seconds_until_a_frozen_agent_is_gone,
        peer=lambda: LADDER.total_seconds + MARGIN_SECONDS,
        unit="s",
        reach=at_most(1.0),
        collector="running",
    ),
    Row(
        name="25 processes are gone after kill -9 of the supervisor",
        against="2 s",
        ours=seconds_until_all_processes_are_gone,
        peer=lambda: GONE_SECONDS,
        unit="s",
        reach=at_most(1.0),
        collector="running",
    ),
    Row(
        name="100 agent processes started and stopped, our own CPU each",
        against="20 ms",
        ours=own_cpu_seconds_per_start,
        peer=lambda: 0.020,
        unit="s",
        collector="running",
    ),
    Row(
        name="a process contained, beyond running it",
        against="4 ms of the processor",
        ours=containment_milliseconds_per_process,
        peer=lambda: 4.0,
        unit="ms",
        reach=at_most(1.0),
        collector="running",
        obstacle=unless_on_linux,
    ),
    *(
        Row(
            name=f"memory of a guardian, one of {count}",
            against="3 MB, shared pages in parts",
            ours=partial(guardian_bytes, count),
            peer=lambda: 3_000_000.0,
            unit="bytes",
            reach=at_most(1.0),
            collector="running",
            obstacle=unless_on_linux,
        )
        for count in (1, 10, 50)
    ),
)
