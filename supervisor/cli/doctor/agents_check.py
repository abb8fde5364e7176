"""Checks of agents: containment, orphaned processes, a test session, the configuration."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import trio

from supervisor.cli.text_format import format_duration
from supervisor.configuration import AgentTable, check, find_program
from supervisor.core.errors import SupervisorError
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.process.contained import open_processes
from supervisor.drivers.process.orphans import ObservedProcess, list_processes, orphaned_markers
from supervisor.drivers.process.processes import Launch, LaunchFailed

from .findings import Finding, error, ok, warning

_GUARDIAN_SECONDS: Final = 20.0


async def check_guardian() -> Finding:
    """Run a process under a guardian and check that nothing is left of it."""
    launch = Launch((sys.executable, "-c", "pass"), {"PATH": os.environ.get("PATH", "")})
    began = trio.current_time()
    try:
        with trio.fail_after(_GUARDIAN_SECONDS):
            async with (
                open_processes() as processes,
                processes.open(launch, before_exec=_allow) as process,
            ):
                how = await process.wait()
                left = await process.wait_gone(_GUARDIAN_SECONDS)
    except (LaunchFailed, OSError, trio.TooSlowError) as problem:
        return error(
            "guardian",
            "guardian-fails",
            f"a contained process could not be started: {str(problem) or 'timeout'}",
            "agent processes will not start: check the limits of this user (ulimit -u)",
        )
    if not how.is_clean or left:
        return error(
            "guardian",
            "guardian-leaks",
            f"a contained process ended with {how.code} and left {len(left)} processes",
            "agent processes may outlive their sessions on this system",
        )
    return ok("guardian", f"containment works ({format_duration(trio.current_time() - began)})")


async def _allow(_: ProcessIdentity) -> None:
    await trio.lowlevel.checkpoint()


def check_orphans(seen: Sequence[ObservedProcess] | None = None) -> Iterator[Finding]:
    """Check for agent processes whose guardian has died."""
    around = list_processes() if seen is None else seen
    markers = orphaned_markers(around)
    left = [one.identity.pid for one in around if one.marker is not None and one.marker in markers]
    if not around:
        yield warning(
            "leftovers",
            "no-proc",
            "without /proc, orphaned processes cannot be found",
            "after a kill -9, look for agent processes yourself",
        )
    elif left:
        pids = " ".join(map(str, sorted(left)))
        yield warning(
            "leftovers",
            "leftovers",
            f"{len(left)} agent processes have lost their guardian: {pids}",
            f"opening their store ends them, or `kill -9 {pids}`",
        )
    else:
        yield ok("leftovers", "no orphaned agent processes")


_SESSION_SECONDS: Final = 30.0


async def check_sessions() -> Finding:
    """Create a session in a temporary store, run a turn, and delete the store."""
    from supervisor.runtime import open as open_supervisor  # noqa: PLC0415 - slow to import

    began = trio.current_time()
    try:
        with tempfile.TemporaryDirectory(prefix="understudy-doctor-") as folder:
            with trio.fail_after(_SESSION_SECONDS):
                async with open_supervisor(Path(folder) / "state.db") as sup:
                    session = await sup.create("echo")
                    result = await session.prompt("Are you well?")
                    found = await sup.search("well")
    except (SupervisorError, OSError, trio.TooSlowError) as problem:
        said = str(problem) or "timeout"
        return error(
            "sessions",
            "sessions-fail",
            f"a session could not be created: {said}",
            "see the findings above",
        )
    if result.outcome != "completed" or not found.items:
        return error("sessions", "turns-fail", f"a turn was {result.outcome}", "please report it")
    return ok("sessions", f"a test session ran a turn and was stored ({_elapsed(began)})")


def _elapsed(began: float) -> str:
    return format_duration(trio.current_time() - began)


def check_configuration_files(path: str | None) -> Iterator[Finding]:
    """Report every problem of the configuration."""
    problems = check(path, cwd=Path.cwd(), environ=os.environ)
    for problem in problems:
        yield error("configuration", "configuration-wrong", problem.sentence, problem.hint)
    if not problems:
        yield ok("configuration", "no problems")


def check_agents(agents: tuple[AgentTable, ...], environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check that the configured agents can be started."""
    bad = list(_missing(agents, environ))
    yield from bad
    if not bad:
        names = ", ".join(agent.name for agent in agents)
        yield ok("agents", names or "none configured; echo and scripted are built in")


def _missing(agents: tuple[AgentTable, ...], environ: Mapping[str, str]) -> Iterator[Finding]:
    for agent in agents:
        if agent.command and find_program(agent.command, environ) is None:
            yield warning(
                "agents",
                "program-missing",
                f"{agent.name}: the program {agent.command[0]} is not on the PATH",
                "install it, or write its full path",
            )
        for name in agent.missing_variables(environ):
            yield warning(
                "agents",
                "variable-missing",
                f"{agent.name} needs ${name}, which is not set",
                f"set ${name} in the environment of the daemon",
            )
