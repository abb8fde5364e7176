"""Trees: how fast children are admitted, how long a tree takes to stop, what watching costs.

- admission: 1,000 tasks spawn below one root that may have 500 children; exactly 500 are admitted
  and 500 refused, or the row has no figure; against sessions that are made without a parent;
- stopping: time per session of a tree of 5,000 against that of a tree of 500, once with ten
  children below each session and once with all of them below one root;
- watching: how late the loop is with 10,000 idle sessions that would be called silent after
  a second, against a loop that has none.
"""

import statistics
import time
from typing import Any

import trio

import supervisor
from tests.bench._row import Row, at_most

SPAWNERS = 1_000
CAP = 500
FEW, MANY = 500, 5_000
BRANCHES = 10
IDLE = 10_000
LAG_SECONDS = 3.0
WIDE = supervisor.Limits(
    max_depth=10, max_children=10_000, max_descendants=10_000, max_spawns=10_000
)


@supervisor.agent("nothing")
async def nothing(turn: supervisor.Turn) -> None:
    """Do nothing."""


def opened(**settings: Any) -> Any:  # noqa: ANN401 - an async context manager
    roomy = {"max_sessions": 100_000, "max_running_turns": 100_000, **settings}
    return supervisor.open(":memory:", agents=[nothing], settings=supervisor.Settings(**roomy))


# Admission --------------------------------------------------------------------------------


def admissions_per_second() -> float:
    async def main() -> float:
        admitted: list[supervisor.Session] = []
        refused: list[str] = []
        async with opened() as sup:
            capped = supervisor.Limits(max_children=CAP, max_descendants=CAP, max_spawns=SPAWNERS)
            root = await sup.create("nothing", limits=capped)

            async def spawner() -> None:
                try:
                    admitted.append(await root.spawn("nothing", "go"))
                except supervisor.SpawnRefused as refusal:
                    refused.append(refusal.limit)

            begun = time.perf_counter()
            async with trio.open_nursery() as nursery:
                for _ in range(SPAWNERS):
                    nursery.start_soon(spawner)
            took = time.perf_counter() - begun
            info = await root.info()
            assert len(info.children) == len(admitted) == CAP
            assert refused == ["max_children"] * (SPAWNERS - CAP)
        return CAP / took

    return trio.run(main)


def creations_per_second() -> float:
    async def main() -> float:
        async with opened() as sup:

            async def creator() -> None:
                session = await sup.create("nothing")
                await session.send("go")

            begun = time.perf_counter()
            async with trio.open_nursery() as nursery:
                for _ in range(CAP):
                    nursery.start_soon(creator)
            return CAP / (time.perf_counter() - begun)

    return trio.run(main)


# Stopping ---------------------------------------------------------------------------------


def stop_seconds_each(count: int, *, branches: int) -> float:
    async def main() -> float:
        async with opened() as sup:
            root = await sup.create("nothing", limits=WIDE)
            made = [root]
            while len(made) < count:
                parent = made[(len(made) - 1) // branches]
                made.append(await parent.spawn("nothing", "go"))
            for session in made[1:]:
                await session.wait()
            begun = time.perf_counter()
            await root.stop()
            took = time.perf_counter() - begun
            assert (await sup.stats()).live == 0
            return took / count

    return trio.run(main)


# Watching ---------------------------------------------------------------------------------


def loop_lag(idle: int) -> float:
    async def main() -> float:
        async with opened(quiet_after_seconds=1.0, stalled_after_seconds=2.0) as sup:
            for _ in range(idle):
                await sup.create("nothing")
            await trio.sleep(0.5)
            lags: list[float] = []
            end = trio.current_time() + LAG_SECONDS
            while (due := trio.current_time() + 0.005) < end:
                await trio.sleep_until(due)
                lags.append(trio.current_time() - due)
            return statistics.quantiles(lags, n=100, method="inclusive")[-1]

    return trio.run(main)


ROWS = (
    Row(
        name="admissions, 1,000 spawners on one root with a cap of 500",
        against="sessions made and sent a text, without a parent",
        ours=admissions_per_second,
        peer=creations_per_second,
        unit="/s",
        collector="running",
    ),
    Row(
        name="stop a tree of 5,000 with ten below each, each",
        against="of 500",
        ours=lambda: stop_seconds_each(MANY, branches=BRANCHES),
        peer=lambda: stop_seconds_each(FEW, branches=BRANCHES),
        unit="s",
        reach=at_most(1.5),
        collector="running",
    ),
    Row(
        name="stop a tree of 5,000 all below one root, each",
        against="of 500",
        ours=lambda: stop_seconds_each(MANY, branches=MANY),
        peer=lambda: stop_seconds_each(FEW, branches=FEW),
        unit="s",
        reach=at_most(1.5),
        collector="running",
    ),
    Row(
        name="loop lag with 10,000 idle sessions watched, p99",
        against="with none",
        ours=lambda: loop_lag(IDLE),
        peer=lambda: loop_lag(0),
        unit="s",
        reach=at_most(1.2),
    ),
)
