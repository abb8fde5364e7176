"""Memory of an idle actor against a bare trio task that sleeps for ever.

Each sample is a process of its own which starts 10,000 of one kind and divides. Twice, because
either measure can mislead: `tracemalloc` counts what Python asked for, to the byte; RSS counts the
pages the system really gave, freed ones that were not returned included. Our actors have a name
each and their refs are kept, as a program would; the bare task has neither name nor box nor anyone
who could reach it.
"""

import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio
import trio.testing

import actors
from tests.bench._row import Row, Sample, at_most

COUNT = 10_000
# Fill trio's own tables and Python's free lists before the first look.
WARM_UP = 100
STATM = Path("/proc/self/statm")
PROJECT = Path(__file__).parents[2]

Starter = Callable[[int], Awaitable[object]]


class Idle(actors.Actor):
    async def receive(self, message: object) -> None:
        pass


async def bytes_per_actor(look: Callable[[], int]) -> float:
    async with actors.open_actors() as system:
        return await bytes_each(lambda number: system.start(Idle, name=f"idle-{number}"), look)


async def bytes_per_task(look: Callable[[], int]) -> float:
    async with trio.open_nursery() as nursery:

        async def start(_number: int) -> None:
            nursery.start_soon(trio.sleep_forever)

        each = await bytes_each(start, look)
        nursery.cancel_scope.cancel()
    return each


async def bytes_each(start: Starter, look: Callable[[], int]) -> float:
    kept = [await start(number) for number in range(WARM_UP)]
    await trio.testing.wait_all_tasks_blocked()
    gc.collect()
    before = look()
    kept += [await start(number) for number in range(WARM_UP, WARM_UP + COUNT)]
    await trio.testing.wait_all_tasks_blocked()
    gc.collect()
    return (look() - before) / COUNT


def traced_bytes() -> int:
    return tracemalloc.get_traced_memory()[0]


def resident_bytes() -> int:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def unless_proc() -> str | None:
    return None if STATM.exists() else "no /proc here to read RSS from"


def in_a_process(kind: str, measure: str) -> Sample:
    command = [sys.executable, "-m", "tests.bench.memory", kind, measure]

    def sample() -> float:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=PROJECT)
        return float(done.stdout)

    return sample


def main(kind: str, measure: str) -> None:
    count_bytes = {"actor": bytes_per_actor, "task": bytes_per_task}[kind]
    if measure == "tracemalloc":
        tracemalloc.start()
    look = {"tracemalloc": traced_bytes, "rss": resident_bytes}[measure]
    sys.stdout.write(f"{trio.run(count_bytes, look)}\n")


ROWS = (
    Row(
        name="idle actor, tracemalloc",
        against="bare trio task",
        ours=in_a_process("actor", "tracemalloc"),
        peer=in_a_process("task", "tracemalloc"),
        unit="bytes",
        reach=at_most(3),
    ),
    Row(
        name="idle actor, RSS",
        against="bare trio task",
        ours=in_a_process("actor", "rss"),
        peer=in_a_process("task", "rss"),
        unit="bytes",
        reach=at_most(3),
        obstacle=unless_proc,
    ),
)

if __name__ == "__main__":
    main(*sys.argv[1:])
