"""A session beside agents that flood: what it notices, and what they cost.

- send: from `send` to its receipt, at the 99th percentile, beside 16 agent processes that write as
  fast as they can, against the same without them. The session answers at once and waits for each
  result, which is not counted, so its queue is empty;
- memory: the highest resident memory of the supervisor in some seconds of such a flood, above that
  before it, against the 200 MB that are allowed;
- memory afterwards: the same when the agents have stopped and the C library has returned free
  memory: the part that Python has not freed, against 20 MB.

A sample of memory is a process of its own: freed memory of an earlier one would hide its growth.
"""

import ctypes
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import trio

import supervisor
from supervisor.drivers.acp.agent import scripted_process
from tests.bench._row import Row, Sample, at_most
from tests.bench.durable import MS, unless_on_a_disk
from tests.bench.sessions import p99

FLOODERS = 16
SENDS = 300
# More than an agent can write until it is stopped.
FLOOD = "flood 500000"
PAUSE_SECONDS = 0.005
WARM_UP_SECONDS = 1.0
FLOOD_SECONDS = 5.0
# Each sample starts 16 processes.
MEMORY_PAIRS = 3
ALLOWED_MB = 200.0
ALLOWED_AFTERWARDS_MB = 20.0
MEGABYTE = 1_000_000
STATM = Path("/proc/self/statm")
PROJECT = Path(__file__).parents[2]

Moment = Literal["flood", "afterwards"]


@supervisor.agent("answerer")
async def answerer(turn: supervisor.Turn) -> str:
    return "done"


@asynccontextmanager
async def a_session_beside(
    flooders: int,
) -> AsyncIterator[tuple[supervisor.Session, list[supervisor.Session], int]]:
    """Yield the session, those that flood, and the resident bytes before the flood."""
    with tempfile.TemporaryDirectory() as folder:
        async with supervisor.open(
            Path(folder) / "state.db",
            agents=[answerer, scripted_process("flooder")],
            settings=supervisor.Settings(exit_seconds=0.0),
        ) as sup:
            session = await sup.create("answerer")
            await session.prompt("warm up")
            floods = [await sup.create("flooder") for _ in range(flooders)]
            for flood in floods:
                await flood.prompt("say ready")
            before = resident_bytes()
            for flood in floods:
                await flood.send(FLOOD)
            await trio.sleep(WARM_UP_SECONDS)
            yield session, floods, before


def resident_bytes() -> int:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def send_many(session: supervisor.Session) -> list[float]:
    """Return the seconds of each `send`."""
    took = []
    for _ in range(SENDS):
        begun = time.perf_counter()
        receipt = await session.send("go")
        took.append(time.perf_counter() - begun)
        await session.result(receipt.input_id)
        await trio.sleep(PAUSE_SECONDS)
    return took


async def highest_resident_bytes() -> int:
    """Return the highest resident memory in the next seconds."""
    most, end = 0, trio.current_time() + FLOOD_SECONDS
    while trio.current_time() < end:
        most = max(most, resident_bytes())
        await trio.sleep(PAUSE_SECONDS)
    return most


def send_ms(flooders: int) -> float:
    async def main() -> float:
        async with a_session_beside(flooders) as (session, _, _):
            took = await send_many(session)
        return MS * p99(took)

    return trio.run(main)


async def resident_bytes_afterwards(floods: list[supervisor.Session]) -> int:
    """Return the resident memory after the agents have stopped, without free memory."""
    async with trio.open_nursery() as nursery:
        for flood in floods:
            nursery.start_soon(flood.stop)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return resident_bytes()


async def grown_megabytes(moment: Moment) -> float:
    async with a_session_beside(FLOODERS) as (_, floods, before):
        seen = await highest_resident_bytes()
        if moment == "afterwards":
            seen = await resident_bytes_afterwards(floods)
    return max(1.0, (seen - before) / MEGABYTE)


def in_a_process(moment: Moment) -> Sample:
    command = [sys.executable, "-m", "tests.bench.floods", moment]

    def sample() -> float:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=PROJECT)
        return float(done.stdout)

    return sample


def unless_measurable() -> str | None:
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        return "this C library cannot return free memory"
    return unless_on_a_disk()


ROWS = (
    Row(
        name=f"send beside {FLOODERS} agents that flood, p99",
        against="the same without them",
        ours=lambda: send_ms(FLOODERS),
        peer=lambda: send_ms(0),
        unit="ms",
        reach=at_most(5),
        obstacle=unless_on_a_disk,
        collector="running",
    ),
    Row(
        name=f"memory beside {FLOODERS} agents that flood, above idle",
        against="the 200 MB allowed",
        ours=in_a_process("flood"),
        peer=lambda: ALLOWED_MB,
        unit="MB",
        reach=at_most(1),
        obstacle=unless_on_a_disk,
        collector="running",
        max_pairs=MEMORY_PAIRS,
    ),
    Row(
        name=f"memory after {FLOODERS} agents flooded, above idle",
        against="the 20 MB allowed",
        ours=in_a_process("afterwards"),
        peer=lambda: ALLOWED_AFTERWARDS_MB,
        unit="MB",
        reach=at_most(1),
        obstacle=unless_measurable,
        collector="running",
        max_pairs=MEMORY_PAIRS,
    ),
)

if __name__ == "__main__":
    wanted: Moment = "afterwards" if sys.argv[1] == "afterwards" else "flood"
    sys.stdout.write(f"{trio.run(grown_megabytes, wanted)}\n")
