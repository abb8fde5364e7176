"""Sessions as rows of `session/list`, and the ids under which a client knows them. Pure.

A session that replaced an empty one, because the client chose another agent before the first
prompt, keeps the id of the first one for clients: it is in a tag.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from supervisor.core.info import Info

_ID_TAG: Final = "acp-id:"


def id_tag(client_id: str) -> str:
    """Return the tag of the session that a client knows by this id."""
    return f"{_ID_TAG}{client_id}"


def client_id_of(info: Info) -> str:
    """Return the id by which clients know the session."""
    tagged = (tag for tag in info.tags if tag.startswith(_ID_TAG))
    return next(tagged, _ID_TAG + info.id).removeprefix(_ID_TAG)


def listed(infos: Iterable[Info]) -> list[dict[str, Any]]:
    """Return the rows of the roots; children are shown inside their parents."""
    return [_row(info) for info in infos if info.parent is None]


def _row(info: Info) -> dict[str, Any]:
    row: dict[str, Any] = {
        "sessionId": client_id_of(info),
        "cwd": info.workspace or "/",
        "updatedAt": iso_time(info.last_active_at),
        "_meta": {"understudy": {"agent": info.agent, "badge": info.badge}},
    }
    title = info.title or info.name
    return row if title is None else row | {"title": title}


def iso_time(seconds: float) -> str:
    """Return a time of the wall clock as ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
