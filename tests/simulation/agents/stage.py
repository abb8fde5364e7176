"""Where an attack plays: a real supervisor, whose agents are ACP processes in memory."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import pytest
import trio

import supervisor.runtime
from actors.testing import settle
from supervisor import Ladder, Session, Settings
from supervisor.drivers.acp.agent import AcpAgent, acp, scripted_process
from tests.drivers.in_memory import InMemoryProcesses
from tests.simulation.sessions.cast import Cast
from tests.simulation.sessions.stage import Stage, open_stage

from .referee import ProcessReferee

Script: TypeAlias = str

HANDSHAKE_SECONDS = 60.0
# So that nobody waits for ever for an agent that hangs.
SETTINGS = Settings(
    ladder=Ladder(ask_seconds=2.0, close_seconds=1.0, terminate_seconds=1.0, kill_seconds=1.0),
    on_stall="interrupt",
    quiet_after_seconds=20.0,
    stalled_after_seconds=30.0,
    tool_stalled_after_seconds=30.0,
    permission_timeout_seconds=2.0,
)

# What agents do; each is a line, or some that belong together.
QUIET = ("say word", "think hm", "tool bash 0.5", "use 3", "sleep 1", "update plan", "flood 3")
ROUGH = (*QUIET, "ask bash", "fail no", "linger 1", "answer", "raw junk", "call no/such {}", "")
DEADLY = (
    *QUIET,
    "crash",
    "exit 0",
    "hang",
    "stop-self",
    "ignore-eof\nhang",
    "ignore-eof\nignore-term\nhang",
    "close-stdout\nsleep 9",
    "answer\ncrash",
    "deaf\nsleep 9",
)

KNOWS = ((), ("--load",), ("--resume",), ("--load", "--resume", "--resume-replays", "--close"))
STEERS = ((), ("--steering", "injected"), ("--steering", "promptRequired"))
BEGINS = ("--steering", "startedNewTurn")


def some_agent(*flags: str) -> AcpAgent:
    """One that can do this and that, besides what it is told."""
    chosen = (*random.choice(KNOWS), *random.choice(STEERS), *flags)
    if random.random() < 0.3:
        chosen = (*chosen, "--delay", random.choice(("0.2", "1.5")))
    command = scripted_process(flags=chosen).command
    return acp("agent", command, handshake_seconds=HANDSHAKE_SECONDS)


class NobodyCameUp(Exception):
    """Time went by faster than agents start: this schedule shows nothing."""


class AgentStage(Stage):
    """What an attack has in hand, and the processes."""

    processes: InMemoryProcesses
    store_is_sound = True

    def script(self, steps: Sequence[Script], *, most: int = 3) -> str:
        """An input that nobody else has sent: what the agent does when it gets it."""
        some = random.choices(steps, k=random.randrange(most)) if steps else ()
        return "\n".join((f"think {next(self.numbers)}", *some))

    async def begin(self) -> Session:
        """A session that is up; a start may take too long, and then there may be nothing to do."""
        for _ in range(4):
            answer = await self.try_to(self.sup.create("agent"))
            if isinstance(answer, Session):
                return answer
            known = answer.code in ("agent_start_failed", "spawn_refused")
            self.referee.check(known, f"refused with {answer!r}")
        raise NobodyCameUp

    async def look_when_quiet(self) -> None:
        """And nobody is on record who is dead."""
        await settle()
        # While a turn runs, what it has spent grows as one looks.
        if all(book.turn is None for book in self.referee.books.values()):
            await super().look_when_quiet()
        await settle()
        alive = self.processes.alive
        dead = {one.identity.pid for one in self.processes.all if one not in alive}
        noted = {process.pid for process in await self.store.processes()}
        # What a store forgets as it fails is found out when the supervisor starts again.
        left = dead & noted if self.store_is_sound else set()
        self.referee.check(not left, f"{left} are dead, and on record")
        for process in alive:
            known = process.identity.pid in noted or process.gone.is_set()
            self.referee.check(known, f"{process.identity.pid} is alive, and not on record")

    async def resume(self, session: Session) -> None:
        await self.try_to(session.resume())


async def tick() -> None:
    """Have something due at any time, for a while.

    Time-outs may fire early: with nothing else to fire, hardly any agent would come up in time.
    """
    for _ in range(100):
        await trio.sleep(0.5)


@asynccontextmanager
async def open_agents(
    agent: AcpAgent,
    *,
    settings: Settings | None = None,
    outside: trio.Nursery | None = None,
) -> AsyncIterator[AgentStage]:
    """A supervisor whose agent that is; when it has left, nothing of it is alive."""
    referee = ProcessReferee()
    processes = InMemoryProcesses()
    processes.on_line = referee.hear
    cast = Cast(referee)
    agents: list[Any] = [agent]
    cast.agents = agents
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor.runtime, "ContainedProcesses", lambda: processes)
        with suppress(NobodyCameUp):
            async with open_stage(settings=settings, cast=cast, outside=outside) as opened:
                stage = AgentStage(opened.referee, opened.store, opened.cast, opened.sup)
                stage.processes = processes
                opened.sup._house.workshop.start_soon(tick)
                yield stage
    referee.check(not processes.alive, f"{len(processes.alive)} processes are alive at the end")
    referee.check(not processes.overlaps, f"{processes.overlaps} prompts reached a busy agent")
    referee.raise_broken()
