"""Find sessions by name, and ids by a part of them."""

from __future__ import annotations

import sqlite3
from typing import Final

from supervisor.core.ids import SessionId
from supervisor.core.match import IdKind, Place
from supervisor.store.port import Stored

from .migrations import INPUT_ID_SQL
from .read import CALL_ID_SQL, IS_COMPLETE, SELECT_STORED, readable_rows

# The id, its session, and where they are. An expression is written as in its index.
_SOURCES: Final[dict[IdKind, tuple[str, str, str]]] = {
    "session": ("id", "id", "sessions WHERE TRUE"),
    "input": (INPUT_ID_SQL, "session_id", "records WHERE kind = 'input_accepted'"),
    "turn": ("turn_id", "session_id", "records WHERE kind = 'turn_started'"),
    "call": (CALL_ID_SQL, "session_id", "records WHERE kind = 'tool_call'"),
}


def find_ids(
    connection: sqlite3.Connection,
    kind: IdKind,
    text: str,
    place: Place,
    *,
    session_id: SessionId | None,
    limit: int,
) -> list[tuple[str, SessionId]]:
    """Return ids of which the text is a part; see `port.Store.find_ids`."""
    if kind == "request" or (kind == "call" and session_id is None):
        return []
    found_id, owner, source = _SOURCES[kind]
    condition = {
        "whole": f"{found_id} = ?1",
        "beginning": f"{found_id} >= ?1 AND {found_id} < ?1 || char(1114111)",
        "end": f"substr({found_id}, -length(?1)) = ?1",
    }[place]
    complete = "" if kind == "session" else f"AND {IS_COMPLETE}"
    return connection.execute(
        f"""
        SELECT DISTINCT {found_id}, {owner} FROM {source}
        AND {condition} AND (?2 IS NULL OR {owner} = ?2) {complete}
        ORDER BY 1, 2 LIMIT ?3
        """,  # noqa: S608 - constants of ours
        (text, session_id, limit),
    ).fetchall()


def sessions_named(
    connection: sqlite3.Connection, name: str, root: SessionId | None, limit: int
) -> list[Stored]:
    """Return the sessions with this name; see `port.Store.sessions_named`."""
    folded = name.casefold()
    # The name is the first line of the label, which has an index. Another name may be equal to it
    # except for case, and a title may stand there.
    found = connection.execute(
        f"""
        {SELECT_STORED} WHERE number IN (
            SELECT number FROM sessions
            WHERE (label = ?1 OR (label >= ?1 || char(10) AND label < ?1 || char(11)))
            AND (?2 IS NULL OR root = ?2)
        ) ORDER BY archived, number DESC
        """,  # noqa: S608 - constants of ours
        (folded, root),
    )
    named: list[Stored] = []
    for row in found:
        named += (one for one in readable_rows([row], set())[0] if one.row.name == name)
        if len(named) == limit:
            break
    return named
