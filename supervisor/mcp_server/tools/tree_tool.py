"""The tool `tree`: a session and those below it; nothing above and nothing beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from supervisor.core.ids import SessionId
from supervisor.core.state import STOPPED
from supervisor.handles.subtree import SessionSnapshot
from supervisor.mcp_server.session_tool import (
    Answered,
    SessionTool,
    ToolContext,
    described,
)

_MAX_SHOWN: Final = 500


@attrs.frozen(kw_only=True)
class TreeArguments:
    """The arguments of `tree`."""

    session: str | None = described("id, name or role of the top; default: your own", None)
    stopped: bool = described("show sessions that have stopped, too", default=False)


@attrs.frozen(kw_only=True)
class TreeRow:
    """A session of the tree; `parent` is None for the top."""

    session: str
    parent: str | None = None
    level: int = described("levels below the top")
    name: str | None = None
    role: str | None = None
    agent: str
    badge: str = described("its state in one word")
    title: str | None = None
    queued: int
    turns: int
    outcome: str | None = described("of its last turn", None)
    waits_for: str | None = None
    stop_reason: str | None = None
    tokens: int = described("of it and all below")
    cost: float = described("of it and all below")


@attrs.frozen(kw_only=True)
class TreeAnswer:
    """The sessions of a subtree: the top, then each before those below it."""

    sessions: tuple[TreeRow, ...] = described("what each is for, its state and its usage")
    is_cut: bool | None = described("there are more: ask for a part of the tree", None)


async def _run(context: ToolContext, given: TreeArguments) -> Answered:
    top = await context.find_or_own(given.session)
    found = {one.info.id: one for one in await context.subtree.snapshots()}
    found[context.subtree.id] = await context.subtree.snapshot(context.subtree.id)
    below: dict[SessionId, list[SessionId]] = {}
    for one in found.values():
        above = _parent(one, found)
        if above is not None:
            below.setdefault(above, []).append(one.info.id)
    shown = list(found) if given.stopped else _with_live(found)
    rows = _rows(top, found, below, {*shown, top})
    answer = TreeAnswer(
        sessions=tuple(rows[:_MAX_SHOWN]), is_cut=True if len(rows) > _MAX_SHOWN else None
    )
    return answer, "\n".join(_line(row) for row in answer.sessions)


def _parent(one: SessionSnapshot, found: dict[SessionId, SessionSnapshot]) -> SessionId | None:
    """Return the nearest session above that is there: one in between may be deleted."""
    return next((id_ for id_ in reversed(one.state.lineage.above or ()) if id_ in found), None)


def _with_live(found: dict[SessionId, SessionSnapshot]) -> list[SessionId]:
    """Return the sessions that are not stopped, and those above them."""
    live = [one.state for one in found.values() if one.state.phase is not STOPPED]
    return [id_ for state in live for id_ in (state.id, *(state.lineage.above or ()))]


def _rows(
    top: SessionId,
    found: dict[SessionId, SessionSnapshot],
    below: dict[SessionId, list[SessionId]],
    shown: set[SessionId],
) -> list[TreeRow]:
    """Return the rows of the top and all below; without recursion, a tree may be deep."""
    rows: list[TreeRow] = []
    waiting: list[tuple[SessionId, SessionId | None, int]] = [(top, None, 0)]
    while waiting:
        session_id, parent, level = waiting.pop()
        rows.append(_row(found[session_id], parent, level))
        children: Sequence[SessionId] = below.get(session_id, ())
        waiting += [(one, session_id, level + 1) for one in reversed(children) if one in shown]
    return rows


def _row(one: SessionSnapshot, parent: SessionId | None, level: int) -> TreeRow:
    info = one.info
    return TreeRow(
        session=info.id,
        parent=parent,
        level=level,
        name=info.name,
        role=info.role,
        agent=info.agent,
        badge=info.badge,
        title=info.title,
        queued=info.queued,
        turns=info.turns,
        outcome=None if info.last_outcome is None else info.last_outcome.outcome,
        waits_for=info.waiting_for,
        stop_reason=info.stop_reason,
        tokens=info.spent.tokens,
        cost=info.spent.cost,
    )


def _line(row: TreeRow) -> str:
    name = row.name or row.role or ""
    said = " ".join(part for part in (row.session, name, row.agent, row.badge) if part)
    return "  " * row.level + said


TOOL: Final = SessionTool(
    name="tree",
    title="Show the tree",
    description=(
        "Show your session and all sessions below it: what each is for, its state, and what it has"
        " used. It shows nothing above or beside your session."
    ),
    arguments=TreeArguments,
    answer=TreeAnswer,
    run=_run,
    is_read_only=True,
)
