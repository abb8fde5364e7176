"""The tool `stop`: end a session below for good."""

from __future__ import annotations

from typing import Final, Literal

import attrs
import trio

from supervisor.core.state import STOPPED
from supervisor.mcp_server.session_tool import (
    Answered,
    SessionTool,
    ToolContext,
    described,
)

# A turn may run for hours before `after_turn` stops the session.
_MAX_SECONDS: Final = 45.0


@attrs.frozen(kw_only=True)
class StopArguments:
    """The arguments of `stop`."""

    session: str = described("id, name or role of a session below yours")
    when: Literal["now", "after_turn"] = described("after_turn lets a running turn end", "now")


@attrs.frozen(kw_only=True)
class StopAnswer:
    """The session after the order to stop."""

    session: str = described("the session that was named")
    name: str | None = described("its name", None)
    badge: str = described("its state in one word")
    is_stopped: bool = described("false: it stops when its turn has ended")
    stop_reason: str | None = described("why it stopped", None)
    turns: int = described("turns that it started")
    queued: int = described("inputs that never ran")


async def _run(context: ToolContext, given: StopArguments) -> Answered:
    target = await context.find_below(given.session)
    with trio.move_on_after(_MAX_SECONDS):  # the order stands
        await context.subtree.session(target).stop(given.when)
    found = await context.subtree.snapshot(target)
    info = found.info
    answer = StopAnswer(
        session=target,
        name=info.name,
        badge=info.badge,
        is_stopped=found.state.phase is STOPPED,
        stop_reason=info.stop_reason,
        turns=info.turns,
        queued=info.queued,
    )
    return answer, f"{target} is {'stopped' if answer.is_stopped else 'going to stop'}"


TOOL: Final = SessionTool(
    name="stop",
    title="Stop a session",
    description=(
        "Stop a session below yours and its own children, and free their places. Do it with a"
        " child that you need no more: one that has finished its task still counts as live."
    ),
    arguments=StopArguments,
    answer=StopAnswer,
    run=_run,
    is_destructive=True,
    is_idempotent=True,
)
