"""The tool `list`: sessions of all trees, in order of creation."""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.core.info import Badge
from supervisor.mcp_server.session_tool import Answered, SessionTool, ToolContext, described

from .session_row import ListedSession, listed_session, session_line


@attrs.frozen(kw_only=True)
class ListArguments:
    """The arguments of `list`: filters, all of which a session must fit."""

    text: str | None = described("a part of its name, title or key", None)
    agent: str | None = described("the name of its agent", None)
    badge: Badge | None = described("its state in one word", None)
    tag: str | None = described("one of its tags", None)
    workspace: str | None = described("its folder, or one above", None)
    parent: str | None = described("the id of its parent", None)
    root: str | None = described("the id of the root of its tree", None)
    archived: bool = described("archived ones only, else only the others", default=False)
    limit: int = described("sessions at most", 50, minimum=1, maximum=200)
    after: str | None = described("the next of the answer before", None)


@attrs.frozen(kw_only=True)
class ListAnswer:
    """The sessions that fit."""

    sessions: tuple[ListedSession, ...] = described("in order of creation")
    next: str | None = described("there is more: give it as after", None)


async def _run(context: ToolContext, given: ListArguments) -> Answered:
    fields = attrs.asdict(given)
    cursor = fields.pop("after")
    page = await context.sup.list(**fields, cursor=cursor)
    answer = ListAnswer(sessions=tuple(map(listed_session, page.items)), next=page.next)
    return answer, "\n".join(map(session_line, answer.sessions)) or "no session"


TOOL: Final = SessionTool(
    name="list",
    title="List sessions",
    description="List sessions of all trees, in order of creation; filters narrow the list.",
    arguments=ListArguments,
    answer=ListAnswer,
    run=_run,
    is_read_only=True,
)
