"""The end of an agent process: closing it by the ladder, and waiting for its exit."""

from __future__ import annotations

import logging

import trio

from supervisor.core.limits import Ladder
from supervisor.core.state import Failure
from supervisor.drivers.identity import ProcessIdentity, is_alive
from supervisor.drivers.port import DriverContext
from supervisor.drivers.process.processes import AgentProcess, ProcessExit

from .acp_session import AcpSession
from .handshake import Handshake

logger = logging.getLogger("supervisor")


async def close_agent(
    process: AgentProcess, handshake: Handshake, session: AcpSession | None, ladder: Ladder
) -> None:
    """Close the agent by the ladder: ask, close its input, SIGTERM, SIGKILL."""
    with trio.move_on_after(ladder.ask_seconds):
        if session is not None:
            await session.end_turn()
        await handshake.close()
    process.close_input()
    if await _exits_within(process, ladder.close_seconds):
        return
    process.terminate()
    if not await _exits_within(process, ladder.terminate_seconds):
        process.kill()


async def _exits_within(process: AgentProcess, seconds: float) -> bool:
    with trio.move_on_after(seconds):
        await process.wait()
        return True
    return False


async def wait_exit(process: AgentProcess, *, seconds: float) -> ProcessExit | None:
    """Return how the process exited; kill it and return None if it does not exit in time."""
    with trio.move_on_after(seconds):
        return await process.wait()
    process.kill()
    with trio.move_on_after(seconds):
        await process.wait()
    return None


def forget_exited(
    agent_name: str, context: DriverContext, identity: ProcessIdentity
) -> Failure | None:
    """Remove the process from the store if it has exited; return a failure if it still runs."""
    if not is_alive(identity):
        context.forget_process(identity)
        return None
    problem = f"unkillable: process {identity.pid} was sent SIGKILL and is still alive"
    logger.error("%s of %s is %s", agent_name, context.session_id, problem)
    return Failure("process_exit", problem)
