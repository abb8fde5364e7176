"""List, search and count sessions."""

from __future__ import annotations

import sqlite3
from typing import Any, Final, TypeAlias

from supervisor.core.endings import FAILED_REASONS
from supervisor.core.ids import SessionId
from supervisor.store.codec import encode_text
from supervisor.store.filters import matches
from supervisor.store.list_filter import BADGE_PHASES, NO_FILTER, Filter
from supervisor.store.port import Hit, Stored
from supervisor.store.tokenizer import body_text, query_tokens, snippet, tokenize

from .read import IS_COMPLETE, SELECT_STORED, readable_rows

Values: TypeAlias = list[Any]
# Rows read at once: between pages a checkpoint can run, and so can other readers.
#
# Lists and searches are plain SQL (decision 69): sqlite-utils takes 30 % longer for a page and 23
# to 44 % for a search, and its import takes 150 to 340 ms, which `understudy ps` would pay.
PAGE_ROWS: Final = 200


def page_of_rows(
    connection: sqlite3.Connection,
    after: int,
    wanted: Filter,
    count: int = PAGE_ROWS,
    named: set[SessionId] | None = None,
) -> tuple[list[Stored], int | None]:
    """Return the next matching sessions, at most `count`, and the number to continue after.

    The number is None at the end. The SQL selects candidates and `port.matches` decides, so that
    all stores agree. A damaged row is logged, unless it is in `named`.
    """
    conditions, values = _conditions(wanted)
    # Numbers are selected first, from an index where there is one, because rows are large.
    found = connection.execute(
        f"""
        {SELECT_STORED} WHERE number IN (
            SELECT number FROM sessions WHERE number > ? {conditions} ORDER BY number LIMIT ?
        ) ORDER BY number
        """,
        (after, *values, count),
    ).fetchall()
    last: int | None = found[-1][-1] if len(found) == count else None
    readable, _ = readable_rows(found, set() if named is None else named)
    return [one for one in readable if matches(one.row, wanted)], last


# The badge, as a condition in SQL: decoding all rows only to skip most takes 100 times as long. A
# row that cannot be read has no badge.
_BADGE_CONDITIONS: Final = {
    "failed": f"json_extract(row, '$.stop_reason') IN {tuple(sorted(FAILED_REASONS))}",
    "waiting-for-auth": "json_extract(row, '$.remembered.auth') IS NOT NULL",
    "waiting-for-you": "json_extract(row, '$.turn.requests') IS NOT NULL",
    "hung": "json_extract(row, '$.turn.silence') = 'stalled'",
    "unhealthy": "json_extract(row, '$.zombie') IS NOT NULL",
}


def _conditions(wanted: Filter) -> tuple[str, Values]:
    """Return SQL conditions that every matching session meets; `port.matches` checks the rest."""
    if wanted is NO_FILTER:
        return "", []
    given: list[tuple[str, object]] = [
        ("agent = ?", wanted.agent),
        ("channel = ?", wanted.channel),
        ("peer = ?", wanted.peer),
        ("phase = ?", wanted.phase),
        ("parent = ?", wanted.parent),
        ("root = ?", wanted.root),
        ("workspace = ?", wanted.workspace),
        ("archived = ?", None if wanted.archived is None else int(wanted.archived)),
        ("instr(label, ?) > 0", None if wanted.text is None else wanted.text.casefold()),
        ("instr(tags, ?) > 0", None if wanted.tag is None else encode_text(wanted.tag)),
        ("created_at > ?", wanted.created_after),
        ("created_at < ?", wanted.created_before),
        ("updated_at > ?", wanted.updated_after),
        ("updated_at < ?", wanted.updated_before),
    ]
    conditions = [condition for condition, value in given if value is not None]
    values: Values = [value for _, value in given if value is not None]
    if wanted.attention:
        conditions.append("CASE WHEN json_valid(row) THEN row ->> '$.attention' IS NOT NULL END")
    phases = BADGE_PHASES.get(wanted.badge or "", ())
    if phases:
        conditions.append(f"phase IN ({', '.join('?' * len(phases))})")
        values += phases
    badge_condition = _BADGE_CONDITIONS.get(wanted.badge or "")
    if badge_condition is not None:
        conditions.append(f"CASE WHEN json_valid(row) THEN {badge_condition} END")
    return "".join(f" AND {condition}" for condition in conditions), values


def search(
    connection: sqlite3.Connection,
    words: str,
    session_id: SessionId | None,
    before: int | None,
    limit: int,
) -> list[Hit]:
    """Return the records whose text contains all words; see `port.Store.search`."""
    # Each token is quoted, so that none is an operator of the FTS5 query language.
    query = " ".join(f'"{word}"' for word in tokenize(words))
    if not query:
        return []
    found = connection.execute(
        f"""
        SELECT records.position, session_id, seq, at, turn_id, kind, CAST(body AS BLOB)
        FROM words JOIN records ON records.position = words.rowid
        WHERE
            words MATCH ?1
            AND (?2 IS NULL OR session_id = ?2)
            AND (?3 IS NULL OR words.rowid < ?3)
            AND {IS_COMPLETE}
        ORDER BY words.rowid DESC LIMIT ?4
        """,
        (query, session_id, before, limit),
    )
    # Our own snippet: SQLite's takes quadratic time in the number of matches in a text.
    wanted = query_tokens(words)
    return [
        Hit(position, owner, seq, at, turn_id, kind, snippet(text, wanted))
        for position, owner, seq, at, turn_id, kind, body in found
        if (text := body_text(body)) is not None
    ]


def sizes(connection: sqlite3.Connection) -> dict[SessionId, int]:
    """Return the size of each session's records; see `port.Store.sizes`."""
    # Late, because its import takes 150 to 340 ms; only a cleanup reads the sizes.
    from sqlite_utils import Database  # noqa: PLC0415

    db = Database(connection, recursive_triggers=False, execute_plugins=False)
    rows = db.query(
        f"""
        SELECT session_id, sum(length(CAST(body AS BLOB))) AS bytes FROM records
        WHERE {IS_COMPLETE} GROUP BY session_id
        """
    )
    return {row["session_id"]: row["bytes"] for row in rows}
