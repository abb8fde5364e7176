"""Whether it works: a session in a file of its own, the clock, the configuration."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import trio

from supervisor.cli.terminal.times import duration, stamp
from supervisor.configuration import AgentTable, check, find_program
from supervisor.core.errors import SupervisorError

from .daemon import look_at_damaged
from .finding import Finding, error, ok, warning

_SECONDS: Final = 30.0


async def look_at_sessions() -> Finding:
    """Make a session in a file, talk with it, and throw the file away."""
    from supervisor.runtime import open as open_supervisor  # noqa: PLC0415 - late

    began = trio.current_time()
    try:
        with tempfile.TemporaryDirectory(prefix="understudy-doctor-") as folder:
            with trio.fail_after(_SECONDS):
                async with open_supervisor(Path(folder) / "state.db") as sup:
                    session = await sup.create("echo")
                    result = await session.prompt("Are you well?")
                    found = await sup.search("well")
    except (SupervisorError, OSError, trio.TooSlowError) as problem:
        said = str(problem) or "it took too long"
        return error(
            "sessions",
            "sessions-fail",
            f"a session could not be made: {said}",
            "see what is said above",
        )
    if result.outcome != "completed" or not found.items:
        return error("sessions", "turns-fail", f"a turn was {result.outcome}", "please report it")
    return ok("sessions", f"one was made, answered, and was found again: {_since(began)}")


async def look_into_store(path: Path) -> list[Finding]:
    """Whether every session in a file can be read."""
    from supervisor.still import open_for_reading  # noqa: PLC0415 - late

    try:
        async with open_for_reading(str(path)) as sup:
            stats = await sup.stats()
    except (SupervisorError, OSError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem.args[0]
        return [
            error(
                "store",
                "store-unreadable",
                f"{path} cannot be read: {why}",
                getattr(problem, "hint", "name a file with sessions"),
            )
        ]
    found = list(look_at_damaged(f"{path} is a store", stats.damaged))
    return found or [ok("store", f"{path} has {stats.sessions} sessions, and all can be read")]


def _since(began: float) -> str:
    return duration(trio.current_time() - began)


def look_at_clock(now: float | None = None, *, built_at: float | None = None) -> Iterator[Finding]:
    """Whether the wall clock can be right: not before this program was written."""
    now = time.time() if now is None else now
    written = Path(__file__).stat().st_mtime if built_at is None else built_at
    if now < written:
        yield warning(
            "clock",
            "clock-behind",
            f"it is {stamp(now)} here, which is before this program was installed",
            "set the clock: expiries and the order of sessions go by it",
        )
    else:
        yield ok("clock", f"it is {stamp(now)}")


def look_at_configuration(path: str | None) -> Iterator[Finding]:
    """All that is wrong in it."""
    problems = check(path, cwd=Path.cwd(), environ=os.environ)
    for problem in problems:
        what = f"{problem.path} {problem.problem}" if problem.path else problem.problem
        yield error(
            "configuration", "configuration-wrong", f"{problem.origin}: {what}", problem.hint
        )
    if not problems:
        yield ok("configuration", "nothing is wrong with it")


def look_at_agents(agents: tuple[AgentTable, ...], environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether those that are configured can be started."""
    bad = list(_missing(agents, environ))
    yield from bad
    if not bad:
        names = ", ".join(agent.name for agent in agents)
        yield ok("agents", names or "none are configured; echo and scripted are always there")


def _missing(agents: tuple[AgentTable, ...], environ: Mapping[str, str]) -> Iterator[Finding]:
    for agent in agents:
        if agent.command and find_program(agent.command, environ) is None:
            yield warning(
                "agents",
                "program-missing",
                f"{agent.name}: there is no program {agent.command[0]} on the PATH",
                "install it, or write its whole path",
            )
        for name in agent.missing(environ):
            yield warning(
                "agents",
                "variable-missing",
                f"{agent.name} wants ${name}, which is not set",
                f"set ${name} where the daemon is started",
            )
