"""Processes: whether an agent can be contained here, and who was left behind."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Final

import trio

from supervisor.cli.terminal.times import duration
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.process.contained import ContainedProcesses
from supervisor.drivers.process.leftovers.sweep import Seen, look_around, orphaned
from supervisor.drivers.process.port import Launch, LaunchFailed

from .finding import Finding, error, ok, warning

_SECONDS: Final = 20.0


async def look_at_guardian() -> Finding:
    """Start something under a guardian, and see that nothing of it is left."""
    launch = Launch((sys.executable, "-c", "pass"), {"PATH": os.environ.get("PATH", "")})
    began = trio.current_time()
    try:
        with trio.fail_after(_SECONDS):
            async with ContainedProcesses().open(launch, before_it_runs=_let_it) as process:
                how = await process.wait()
                left = await process.wait_gone(_SECONDS)
    except (LaunchFailed, OSError, trio.TooSlowError) as problem:
        return error(
            "guardian",
            "guardian-fails",
            f"a contained process could not be started: {str(problem) or 'it took too long'}",
            "agents that are processes will not start: see to the limits of this user (ulimit -u)",
        )
    if not how.is_clean or left:
        return error(
            "guardian",
            "guardian-leaks",
            f"a contained process ended with {how.code}, and left {len(left)} behind",
            "agents that are processes may outlive their sessions here",
        )
    return ok("guardian", f"contains processes, and took {duration(trio.current_time() - began)}")


async def _let_it(_: ProcessIdentity) -> None:
    await trio.lowlevel.checkpoint()


def look_at_leftovers(seen: Sequence[Seen] | None = None) -> Iterator[Finding]:
    """Whether processes of agents live on whose guardians are dead."""
    around = look_around() if seen is None else seen
    markers = orphaned(around)
    left = [one.identity.pid for one in around if one.marker is not None and one.marker in markers]
    if not around:
        yield warning(
            "leftovers",
            "no-proc",
            "there is no /proc here, so nobody can be found",
            "look for processes of agents yourself after a kill -9",
        )
    elif left:
        pids = " ".join(map(str, sorted(left)))
        yield warning(
            "leftovers",
            "leftovers",
            f"{len(left)} processes of agents have lost their guardian: {pids}",
            f"opening their store ends them; or `kill -9 {pids}`",
        )
    else:
        yield ok("leftovers", "no process of an agent was left behind")
