"""The tools `resume`, `clear`, `archive` and `set_limits` of an assistant: one session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import attrs

from supervisor.core.errors import ConfigError
from supervisor.core.limits import Limits
from supervisor.handles.session import Session
from supervisor.mcp_server.session_tool import Answered, SessionTool, ToolContext, described

from .session_row import ListedSession, listed_session, session_line


@attrs.frozen(kw_only=True)
class OneSessionArguments:
    """The arguments of a tool that takes a session and nothing else."""

    session: str = described("id, name, key or path of a session")


async def _change(
    context: ToolContext, named: str, change: Callable[[Session], Awaitable[object]]
) -> Answered:
    """Change a session; return it as it is then."""
    target = await context.find(named)
    session = context.subtree.session(target)
    await change(session)
    answer = listed_session(await session.info())
    return answer, session_line(answer)


async def _resume(context: ToolContext, given: OneSessionArguments) -> Answered:
    return await _change(context, given.session, Session.resume)


async def _clear(context: ToolContext, given: OneSessionArguments) -> Answered:
    return await _change(context, given.session, Session.clear)


@attrs.frozen(kw_only=True)
class ArchiveArguments:
    """The arguments of `archive`."""

    session: str = described("id, name, key or path of a stopped session")
    undo: bool = described("unarchive it instead", default=False)


async def _archive(context: ToolContext, given: ArchiveArguments) -> Answered:
    change = Session.unarchive if given.undo else Session.archive
    return await _change(context, given.session, change)


@attrs.frozen(kw_only=True)
class SetLimitsArguments:
    """The arguments of `set_limits`; a limit that is not given stays as it is."""

    session: str = described("id, name, key or path of a session")
    max_depth: int | None = described("levels below the root at most", None)
    max_children: int | None = described("live children at most", None)
    max_descendants: int | None = described("live descendants at most", None)
    max_spawns: int | None = described("spawns below it at most, over all time", None)
    turns: int | None = described("turns of it and all below", None)
    tokens: int | None = described("tokens of it and all below", None)
    cost: float | None = described("cost of it and all below", None)
    wall_seconds: float | None = described("seconds of running turns of it and all below", None)


@attrs.frozen(kw_only=True)
class LimitsAnswer:
    """The limits of a session after the change."""

    session: str = described("the id of the session")
    limits: Limits = described("its limits; null is without one")


async def _set_limits(context: ToolContext, given: SetLimitsArguments) -> Answered:
    changes = attrs.asdict(given, filter=lambda _, value: value is not None)
    target = await context.find(changes.pop("session"))
    if not changes:
        raise ConfigError("no limit is given", hint="give the limits to change")
    session = context.subtree.session(target)
    await session.set(limits=changes)
    answer = LimitsAnswer(session=target, limits=(await session.info()).limits)
    return answer, ", ".join(f"{name} {value:g}" for name, value in changes.items())


RESUME: Final = SessionTool(
    name="resume",
    title="Resume a session",
    description=(
        "Start a stopped session again, with its history; a live one stays as it is. Refused while"
        " a budget is exhausted: set_limits raises it."
    ),
    arguments=OneSessionArguments,
    answer=ListedSession,
    run=_resume,
    is_idempotent=True,
    gives_work=True,
)
CLEAR: Final = SessionTool(
    name="clear",
    title="Clear a session",
    description=(
        "Begin an empty conversation in the same session. Its turn is interrupted, its queued"
        " inputs and its permission rules are dropped; the old records stay readable."
    ),
    arguments=OneSessionArguments,
    answer=ListedSession,
    run=_clear,
    is_destructive=True,
)
ARCHIVE: Final = SessionTool(
    name="archive",
    title="Archive a session",
    description="Make a stopped session read-only and hide it from lists; undo brings it back.",
    arguments=ArchiveArguments,
    answer=ListedSession,
    run=_archive,
)
SET_LIMITS: Final = SessionTool(
    name="set_limits",
    title="Set limits",
    description=(
        "Change limits and budgets of a session and all below it. Ask the person before you raise"
        " a budget. Sessions above keep theirs."
    ),
    arguments=SetLimitsArguments,
    answer=LimitsAnswer,
    run=_set_limits,
    is_destructive=True,
    is_idempotent=True,
)
