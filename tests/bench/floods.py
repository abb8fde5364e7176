"""A session beside agents that flood: what it notices, and what they cost.

- send: from `send` to its receipt, at the 99th percentile, beside 16 agent processes that write as
  fast as they can, against the same without them. The session answers at once and waits for each
  result, which is not counted, so its queue is empty;
- memory: the highest resident memory of the supervisor meanwhile, above that before the flood,
  against the 200 MB that are allowed. The agents write more than that together, and all of it is in
  the file.
"""

import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

import supervisor
from supervisor.drivers.acp.agent import scripted_process
from tests.bench._row import Row, at_most
from tests.bench.durable import MS, unless_on_a_disk
from tests.bench.sessions import p99

FLOODERS = 16
SENDS = 300
# More than an agent can write until it is stopped.
FLOOD = "flood 500000"
PAUSE_SECONDS = 0.005
WARM_UP_SECONDS = 1.0
ALLOWED_MB = 200.0
MEGABYTE = 1_000_000
STATM = Path("/proc/self/statm")


@supervisor.agent("answerer")
async def answerer(turn: supervisor.Turn) -> str:
    return "done"


@asynccontextmanager
async def a_session_beside(flooders: int) -> AsyncIterator[tuple[supervisor.Session, int]]:
    """Yield the session, and the resident memory before the flood in bytes."""
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
            yield session, before


def resident_bytes() -> int:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def send_many(session: supervisor.Session) -> tuple[list[float], int]:
    """Return the seconds of each `send`, and the highest resident memory in bytes."""
    took, most = [], 0
    for _ in range(SENDS):
        begun = time.perf_counter()
        receipt = await session.send("go")
        took.append(time.perf_counter() - begun)
        most = max(most, resident_bytes())
        await session.result(receipt.input_id)
        await trio.sleep(PAUSE_SECONDS)
    return took, most


def send_ms(flooders: int) -> float:
    async def main() -> float:
        async with a_session_beside(flooders) as (session, _):
            took, _ = await send_many(session)
        return MS * p99(took)

    return trio.run(main)


def grown_megabytes() -> float:
    async def main() -> float:
        async with a_session_beside(FLOODERS) as (session, before):
            _, most = await send_many(session)
        return max(1.0, (most - before) / MEGABYTE)

    return trio.run(main)


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
        ours=grown_megabytes,
        peer=lambda: ALLOWED_MB,
        unit="MB",
        reach=at_most(1),
        obstacle=unless_on_a_disk,
        collector="running",
    ),
)
