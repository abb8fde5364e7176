"""A night's run: hours of mixed load in virtual time, with samples of all that could leak.

`python -m tests.soak.night --hours 8` prints one line per hour. Every hour has turns, floods of
output, spawns, interrupts, crashes, permission requests, watchers, deletions and one restart of
the supervisor. When an hour is over and all is quiet, the process holds what it held before.

`anonymous_mb` is the resident memory of the process itself, without the files that it maps. About
half of it is in use by objects. The rest is free, and kept by the allocators of Python and of the
threads at the size of the highest use, so it is level when the highest use of an hour is.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import tempfile
import threading
from pathlib import Path
from typing import Final

import attrs
import trio

import supervisor
from actors.testing import VirtualClock, settle
from supervisor import InputRefused, PythonAgent, Restart, Session, Settings, Supervisor, Turn
from supervisor.drivers.python import AgentDied

HOUR_SECONDS: Final = 3600.0
CYCLE_SECONDS: Final = 20.0
# Sessions that live all night and are cleared each hour; the others are deleted in their cycle.
RESIDENTS: Final = 4
FLOOD_BYTES: Final = 200_000
# Longer than all that goes on after a deletion.
QUIET_SECONDS: Final = 400.0


@attrs.frozen
class Sample:
    """What the process holds while the supervisor is idle."""

    tasks: int
    threads: int
    descriptors: int
    slots: int  # of the registry
    nodes: int  # of the tree
    timers: int
    objects: int  # that the collector knows
    blocks: int  # of memory, in use by objects of any kind
    anonymous_mb: float
    resident_mb: float
    turns: int  # in the hour before

    @classmethod
    def take(cls, sup: Supervisor, turns: int) -> Sample:
        gc.collect()
        parts, timers = sup._parts, sup._services.timers
        return cls(
            tasks=trio.lowlevel.current_statistics().tasks_living,
            threads=threading.active_count(),
            descriptors=len([*Path("/proc/self/fd").iterdir()]),
            slots=len(parts.registry._slots),
            nodes=len(parts.admission.tree._nodes),
            timers=sum(not timer.is_dropped for _, _, timer in timers._heap),
            objects=len(gc.get_objects()),
            blocks=sys.getallocatedblocks(),
            anonymous_mb=resident_megabytes("RssAnon"),
            resident_mb=resident_megabytes("VmRSS"),
            turns=turns,
        )

    @property
    def facts(self) -> tuple[int, ...]:
        """The counts that must be the same after every hour."""
        return (self.tasks, self.slots, self.nodes, self.timers)


def resident_megabytes(name: str) -> float:
    """Return a size of this process in MiB, by its name in `/proc/self/status`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [size] = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(size) / 1024


@attrs.define(eq=False)
class Night:
    """The load of one night on one file."""

    path: Path
    hours: int
    hour_seconds: float = HOUR_SECONDS
    turns: int = 0
    refusals: int = 0
    samples: list[Sample] = attrs.Factory(list)

    async def run(self) -> None:
        """Run all hours, each with its own supervisor on the same file."""
        random.seed("night")
        agent = PythonAgent("worker", self.work)
        settings = Settings(
            restart=Restart(max_restarts=3, within_seconds=60.0, backoff_seconds=0.5),
            suspend_after_seconds=120.0,
            permission_timeout_seconds=30.0,
        )
        for _ in range(self.hours):
            async with supervisor.open(self.path, agents=[agent], settings=settings) as sup:
                await self.one_hour(sup)

    async def one_hour(self, sup: Supervisor) -> None:
        before = self.turns
        residents = [await sup.get_or_create(f"worker:night:{one}") for one in range(RESIDENTS)]
        end = trio.current_time() + self.hour_seconds
        while trio.current_time() < end:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.answer_requests, sup, nursery.cancel_scope)
                async with trio.open_nursery() as load:
                    for session in residents:
                        load.start_soon(self.use, session, "say")
                    for life in (self.tree, self.interrupted, self.crashing, self.flooding):
                        load.start_soon(life, sup)
                nursery.cancel_scope.cancel()
            await trio.sleep(CYCLE_SECONDS * random.random())
        for session in residents:
            await session.clear()
        await trio.sleep(QUIET_SECONDS)
        await settle()
        self.samples.append(Sample.take(sup, self.turns - before))

    # The agent --------------------------------------------------------------------------------

    async def work(self, turn: Turn) -> None:
        self.turns += 1
        for word in turn.text.split():
            match word:
                case "say":
                    await turn.say("some text ")
                case "flood":
                    for _ in range(10):
                        await turn.say("x" * (FLOOD_BYTES // 10))
                case "spawn":
                    child = await turn.spawn("worker", "tool say")
                    await child.wait()
                case "tool":
                    async with turn.tool("search"):
                        await trio.sleep(random.random())
                case "ask":
                    await turn.ask("may I?", tool="bash")
                case "sleep":
                    await trio.sleep(600.0)
                case "crash":
                    raise AgentDied("on purpose")

    # Lives of sessions ------------------------------------------------------------------------

    async def use(self, session: Session, text: str) -> None:
        """Run a turn; a turn that is lost or interrupted is part of the load."""
        await session.prompt(text)

    async def send_unless_busy(self, session: Session) -> None:
        try:
            await session.send("say", when_busy="reject")
        except InputRefused:
            self.refusals += 1

    async def tree(self, sup: Supervisor) -> None:
        root = await sup.create("worker")
        await self.use(root, "say spawn ask spawn")
        await self.delete_all(sup, root)

    async def interrupted(self, sup: Supervisor) -> None:
        session = await sup.create("worker")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.use, session, "spawn say sleep")
            await trio.sleep(1.0 + random.random())
            await self.send_unless_busy(session)
            await session.send("say", when_busy=random.choice(("queue", "interrupt")))
            await session.interrupt(random.choice(("turn", "session", "tree")))
        await self.delete_all(sup, session)

    async def crashing(self, sup: Supervisor) -> None:
        session = await sup.create("worker")
        for _ in range(random.randrange(1, 6)):
            await self.use(session, "say crash")
        await self.delete_all(sup, session)

    async def flooding(self, sup: Supervisor) -> None:
        session = await sup.create("worker")
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(self.watch, session)
            await self.use(session, "flood tool flood")
            nursery.cancel_scope.cancel()
        await self.delete_all(sup, session)

    async def watch(self, session: Session) -> None:
        async with session.watch() as feed:
            async for _ in feed:
                await trio.lowlevel.checkpoint()

    async def answer_requests(self, sup: Supervisor, scope: trio.CancelScope) -> None:
        """Answer most permission requests; the others time out."""
        while not scope.cancel_called:
            for request in await sup.permissions():
                if random.random() < 0.8:
                    await sup.answer(request.id, random.choice(("allow_once", "reject_once")))
            await trio.sleep(0.5)

    async def delete_all(self, sup: Supervisor, root: Session) -> None:
        """Delete a session and its children, sometimes while they run."""
        if random.random() < 0.5:
            await root.stop()
        for info in (await sup.list(root=root.id)).items:
            if info.id != root.id:
                await sup.delete(info.id)
        await sup.delete(root.id)


def table(samples: list[Sample]) -> str:
    """Return the samples as a Markdown table."""
    names = [field.name for field in attrs.fields(Sample)]
    lines = [f"| hour | {' | '.join(names)} |", "|--:" * (len(names) + 1) + "|"]
    for hour, sample in enumerate(samples, start=1):
        values = [f"{value:,.0f}" for value in attrs.astuple(sample)]
        lines.append(f"| {hour} | {' | '.join(values)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=HOUR_SECONDS, help="of an hour")
    parser.add_argument("--real", action="store_true", help="real time instead of virtual time")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        night = Night(Path(folder) / "state.db", given.hours, given.seconds)
        trio.run(night.run, clock=None if given.real else VirtualClock())
    sys.stdout.write(f"{table(night.samples)}\n{night.turns:,} turns\n")


if __name__ == "__main__":
    main()
