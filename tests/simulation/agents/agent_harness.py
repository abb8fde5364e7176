"""Harness for attacks on agent processes: a real supervisor with in-memory ACP processes."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import Any, TypeAlias

import pytest
import trio

import supervisor.runtime
from actors.testing import settle
from supervisor import Ladder, Session, Settings
from supervisor.drivers.acp.agent import AcpAgent, acp, scripted_process
from tests.simulation.harness import Harness, open_harness
from tests.simulation.scripted_agents import ScriptedAgents
from tests.support.in_memory_processes import InMemoryProcesses

from .agent_oracle import ProcessOracle

Script: TypeAlias = str

HANDSHAKE_SECONDS = 60.0
# Bounds every wait for an agent that hangs.
SETTINGS = Settings(
    ladder=Ladder(ask_seconds=2.0, close_seconds=1.0, terminate_seconds=1.0, kill_seconds=1.0),
    on_stall="interrupt",
    quiet_after_seconds=20.0,
    stalled_after_seconds=30.0,
    tool_stalled_after_seconds=30.0,
    permission_timeout_seconds=2.0,
)

# Actions of agents; each is one line or several lines that belong together.
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

LOAD_FLAGS = ((), ("--load",), ("--resume",), ("--load", "--resume", "--resume-replays", "--close"))
STEERING_FLAGS = ((), ("--steering", "injected"), ("--steering", "promptRequired"))
NEW_TURN_FLAGS = ("--steering", "startedNewTurn")


def random_agent(*flags: str) -> AcpAgent:
    """Return an agent with random capabilities and the given flags."""
    chosen = (*random.choice(LOAD_FLAGS), *random.choice(STEERING_FLAGS), *flags)
    if random.random() < 0.3:
        chosen = (*chosen, "--delay", random.choice(("0.2", "1.5")))
    command = scripted_process(flags=chosen).command
    return acp("agent", command, handshake_seconds=HANDSHAKE_SECONDS)


class NoAgentStarted(Exception):
    """No agent started in time; this schedule checks nothing."""


class AgentHarness(Harness):
    """The harness of sessions, with the agent processes."""

    processes: InMemoryProcesses
    store_is_sound = True

    def script(self, steps: Sequence[Script], *, most: int = 3) -> str:
        """Return a unique input with the actions of the agent."""
        some = random.choices(steps, k=random.randrange(most)) if steps else ()
        return "\n".join((f"think {next(self.numbers)}", *some))

    async def begin(self) -> Session:
        """Return a started session; raise `NoAgentStarted` after four failed starts."""
        for _ in range(4):
            answer = await self.attempt(self.sup.create("agent"))
            if isinstance(answer, Session):
                return answer
            known = answer.code in ("agent_start_failed", "spawn_refused")
            self.oracle.check(known, f"refused with {answer!r}")
        raise NoAgentStarted

    async def check_when_quiet(self) -> None:
        """Check also that exactly the running processes are on record."""
        await settle()
        # The usage of a running turn grows during the check.
        if all(history.turn is None for history in self.oracle.histories.values()):
            await super().check_when_quiet()
        await settle()
        alive = self.processes.alive
        dead = {one.identity.pid for one in self.processes.all if one not in alive}
        noted = {process.pid for process in await self.store.processes()}
        # A record lost by a store fault is repaired at the next start.
        left = dead & noted if self.store_is_sound else set()
        self.oracle.check(not left, f"{left} have ended and still on record")
        for process in alive:
            known = process.identity.pid in noted or process.gone.is_set()
            self.oracle.check(known, f"{process.identity.pid} runs and is not on record")

    async def resume(self, session: Session) -> None:
        await self.attempt(session.resume())


async def tick() -> None:
    """Keep a timer pending for a while.

    Timeouts may fire early: without other timers, few agents would start in time.
    """
    for _ in range(100):
        await trio.sleep(0.5)


@contextmanager
def observed_log(name: str, handler: logging.Handler) -> Iterator[None]:
    """Add the handler to a logger within the block."""
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class CrashObserver(logging.Handler):
    """Records crashes of actors as violations, unless the store is made to fail."""

    def __init__(self, oracle: ProcessOracle) -> None:
        super().__init__(logging.ERROR)
        self._oracle = oracle
        self.harness: AgentHarness | None = None

    def emit(self, record: logging.LogRecord) -> None:
        is_sound = self.harness is None or self.harness.store_is_sound
        self._oracle.check(not is_sound, record.getMessage())


@asynccontextmanager
async def open_agent_harness(
    agent: AcpAgent,
    *,
    settings: Settings | None = None,
    outside: trio.Nursery | None = None,
) -> AsyncIterator[AgentHarness]:
    """Open a supervisor with that agent; check on exit that no process is left."""
    oracle = ProcessOracle()
    processes = InMemoryProcesses()
    processes.on_line = oracle.hear
    scripted = ScriptedAgents(oracle)
    agents: list[Any] = [agent]
    scripted.agents = agents
    crashes = CrashObserver(oracle)
    with pytest.MonkeyPatch.context() as patch, observed_log("actors", crashes):
        patch.setattr(supervisor.runtime, "open_processes", lambda: nullcontext(processes))
        with suppress(NoAgentStarted):
            async with open_harness(
                settings=settings, scripted=scripted, outside=outside
            ) as opened:
                harness = AgentHarness(opened.oracle, opened.store, opened.scripted, opened.sup)
                harness.processes = processes
                crashes.harness = harness
                opened.sup._services.tasks.start_soon(tick)
                yield harness
    oracle.check(not processes.alive, f"{len(processes.alive)} processes run after the exit")
    oracle.check(not processes.overlaps, f"{processes.overlaps} prompts reached a busy agent")
    oracle.raise_violations()
