"""How an agent is let go: asked, then not spoken to any more, then told, then killed.

Rule 1: each step is bounded by the session's ladder, and the last one cannot be refused. That it
        has worked is seen to where the process was opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from supervisor.core.limits import Ladder
from supervisor.drivers.process.port import Process

if TYPE_CHECKING:
    from supervisor.drivers.acp.turns.talk import Talk

    from .handshake import Handshake


async def let_go(process: Process, handshake: Handshake, talk: Talk | None, ladder: Ladder) -> None:
    """Have the agent end by itself, as far as it will."""
    with trio.move_on_after(ladder.ask_seconds):
        if talk is not None:
            await talk.end_turn()
        await handshake.close()
    process.close_input()
    if await _exits_within(process, ladder.close_seconds):
        return
    process.terminate()
    if not await _exits_within(process, ladder.terminate_seconds):
        process.kill()


async def _exits_within(process: Process, seconds: float) -> bool:
    with trio.move_on_after(seconds):
        await process.wait()
        return True
    return False
