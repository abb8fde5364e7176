"""The tool `why`: what a session waits for, and the sessions that wait for each other."""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.core.ids import SessionId
from supervisor.handles.shapes import Waits
from supervisor.handles.subtree import Subtree
from supervisor.mcp_server.session_tool import (
    Answered,
    SessionTool,
    ToolContext,
    described,
)

# What a wait for a session that the caller may not know is called.
_OUTSIDE: Final = "another session"
# Waits whose detail is the id of a session.
_FOR_SESSIONS: Final = frozenset({"child", "child_slot"})


@attrs.frozen(kw_only=True)
class WhyArguments:
    """The arguments of `why`."""

    session: str | None = described("id, name or role; default: your own session", None)


@attrs.frozen(kw_only=True)
class WaitLink:
    """A session of the chain, and what it waits for."""

    session: str
    agent: str
    badge: str = described("its state in one word")
    waits_for: str = described("model, tool, person, child, turn_slot, process, input ...")
    detail: str | None = described("the tool, the question or the session", None)
    seconds: float = described("for how long")


@attrs.frozen(kw_only=True)
class WhyAnswer:
    """The chain of waits; its last link has to end first."""

    session: str = described("where the chain begins")
    waits_for: str = described("at the end of the chain; cycle if they wait for each other")
    chain: tuple[WaitLink, ...] = described("each session with what it waits for")
    cycle: tuple[str, ...] = described("the sessions that wait for each other", ())


async def _run(context: ToolContext, given: WhyArguments) -> Answered:
    target = await context.find_or_own(given.session)
    why = await context.subtree.session(target).why()
    chain: list[Waits] = []
    for waits in why.chain:
        if not await context.subtree.contains(waits.session_id):
            break
        chain.append(waits)
    is_whole = len(chain) == len(why.chain)
    links = [await _link(context.subtree, waits) for waits in chain]
    answer = WhyAnswer(
        session=target,
        waits_for=why.waits_for if is_whole else links[-1].waits_for,
        chain=tuple(links),
        cycle=why.cycle if is_whole else (),
    )
    return answer, "\n".join(_line(link) for link in links)


async def _link(subtree: Subtree, waits: Waits) -> WaitLink:
    detail = waits.detail
    if waits.waits_for in _FOR_SESSIONS and detail is not None:
        is_inside = await subtree.contains(SessionId(detail))
        detail = detail if is_inside else _OUTSIDE
    return WaitLink(
        session=waits.session_id,
        agent=waits.agent,
        badge=waits.badge,
        waits_for=waits.waits_for,
        detail=detail,
        seconds=round(waits.seconds, 3),
    )


def _line(link: WaitLink) -> str:
    what = link.waits_for if link.detail is None else f"{link.waits_for} ({link.detail})"
    return f"{link.session} ({link.agent}, {link.badge}) waits for {what}, for {link.seconds:.0f} s"


TOOL: Final = SessionTool(
    name="why",
    title="Explain a wait",
    description=(
        "Explain why a session makes no progress: what it waits for and for how long, followed over"
        " the sessions below yours that wait for each other."
    ),
    arguments=WhyArguments,
    answer=WhyAnswer,
    run=_run,
    is_read_only=True,
)
