"""A session as the tools of an assistant show it."""

from __future__ import annotations

import attrs

from supervisor.core.info import Info
from supervisor.mcp_server.session_tool import described


@attrs.frozen(kw_only=True)
class ListedSession:
    """A session, as it is now."""

    session: str = described("its id")
    name: str | None = described("its name", None)
    title: str | None = described("its title, or its first text", None)
    key: str | None = described("its key", None)
    agent: str = described("its agent")
    badge: str = described("its state in one word")
    parent: str | None = described("the id of its parent", None)
    workspace: str | None = described("its folder", None)
    queued: int = described("inputs that wait")
    turns: int = described("turns so far")
    waits_for: str | None = described("what it waits for: model, tool, person, child ...", None)
    stop_reason: str | None = described("why it stopped", None)
    is_archived: bool = described("whether it is read-only and hidden from lists")
    updated_at: float = described("seconds since 1970")


def listed_session(info: Info) -> ListedSession:
    """Return the row of a session."""
    return ListedSession(
        session=info.id,
        name=info.name,
        title=info.title,
        key=None if info.key is None else str(info.key),
        agent=info.agent,
        badge=info.badge,
        parent=info.parent,
        workspace=info.workspace,
        queued=info.queued,
        turns=info.turns,
        waits_for=info.waiting_for,
        stop_reason=info.stop_reason,
        is_archived=info.archived,
        updated_at=info.updated_at,
    )


def session_line(row: ListedSession) -> str:
    """Return the row as one line of text."""
    return f"{row.session} ({row.name or row.title or row.agent}): {row.badge}"
