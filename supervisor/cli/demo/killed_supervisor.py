"""Kill a supervisor in the middle of its work with -9, and read its file.

Rule 1: the process and the signal are real. The acknowledged inputs are known from the output of
        the process, not from the file.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import orjson
import trio

from supervisor.core.errors import SupervisorError
from supervisor.drivers.identity import ProcessIdentity, identify, is_alive
from supervisor.handles.supervisor import Supervisor

from .scenes import package_folder

INPUTS_BEFORE_KILL: Final = 40
_GONE_WITHIN_SECONDS: Final = 5.0
_LOOK_AGAIN_SECONDS: Final = 0.005


@attrs.frozen
class KilledSupervisor:
    """The output of the killed supervisor, and the end of its agent."""

    pid: int
    agent_pid: int | None
    agent_gone_seconds: float | None  # None if the agent still runs
    worker: str
    waiting: tuple[str, ...]
    acknowledged: frozenset[str]


@attrs.frozen
class KillReport:
    """The result of the demo's last scene: acknowledged inputs, and how many the file contains."""

    acknowledged: int
    found: int
    missing: tuple[str, ...]
    turn_outcome: str | None
    replies: tuple[str, ...]


@asynccontextmanager
async def start_kill_target(path: Path) -> AsyncIterator[trio.Process]:
    """Yield a process that is ready to run a supervisor on the file; kill it after the block."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", f"{__package__}.kill_target", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": package_folder()},
    )
    try:
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):  # it was killed, so the wait is short
            await process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    await trio.aclose_forcefully(stream)


async def kill_supervisor(
    process: trio.Process, *, on_count: Callable[[int], None]
) -> KilledSupervisor:
    """Start the supervisor, and kill it when it has acknowledged enough inputs."""
    assert process.stdin is not None
    acknowledged: set[str] = set()
    first: dict[str, Any] = {}
    agent: ProcessIdentity | None = None
    killed_at = 0.0
    await process.stdin.send_all(b"\n")
    async for said in _lines(process):
        if not first:
            first = said
            agent = identify(said["agent_pid"]) if said["agent_pid"] else None
        acknowledged.update(said["acknowledged"])
        on_count(len(acknowledged))
        if len(acknowledged) >= INPUTS_BEFORE_KILL and not killed_at:
            process.kill()  # and read on: lines written before the kill count
            killed_at = trio.current_time()
    if not killed_at:
        raise SupervisorError(
            "the supervisor ended before it could be killed",
            hint="run `understudy doctor`",
        )
    return KilledSupervisor(
        pid=process.pid,
        agent_pid=first["agent_pid"],
        agent_gone_seconds=await _seconds_until_gone(agent, killed_at),
        worker=first["worker"],
        waiting=tuple(first["waiting"]),
        acknowledged=frozenset(acknowledged),
    )


async def _lines(process: trio.Process) -> AsyncIterator[dict[str, Any]]:
    """Yield the output of the process line by line; an incomplete last line is dropped."""
    assert process.stdout is not None
    rest = b""
    while piece := await process.stdout.receive_some():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield orjson.loads(line)


async def _seconds_until_gone(agent: ProcessIdentity | None, killed_at: float) -> float | None:
    """Return the seconds from the kill to the end of the agent; None if it does not end."""
    while agent is not None and is_alive(agent):
        if trio.current_time() > killed_at + _GONE_WITHIN_SECONDS:
            return None
        await trio.sleep(_LOOK_AGAIN_SECONDS)
    return trio.current_time() - killed_at


async def check_acknowledged(sup: Supervisor, killed: KilledSupervisor) -> KillReport:
    """Look up every acknowledged input, and let the worker continue with its queue."""
    accepted: set[str] = set()
    cursor: str | None = None
    while True:
        page = await sup.list(limit=100, cursor=cursor)
        for info in page.items:
            accepted |= await _accepted(sup, info.id)
        cursor = page.next
        if cursor is None:
            break
    worker = sup.session(killed.worker)
    replies = [(await worker.result(input_id)).text for input_id in killed.waiting]
    ends = [
        record.body["outcome"]
        for turn in await worker.history()
        for record in turn.records
        if record.kind == "turn_ended"
    ]
    missing = killed.acknowledged - accepted
    return KillReport(
        acknowledged=len(killed.acknowledged),
        found=len(killed.acknowledged & accepted),
        missing=tuple(sorted(missing)),
        turn_outcome=ends[0] if ends else None,
        replies=tuple(replies),
    )


async def _accepted(sup: Supervisor, session_id: str) -> set[str]:
    return {
        record.body["input_id"]
        for turn in await sup.session(session_id).history()
        for record in turn.records
        if record.kind == "input_accepted"
    }
