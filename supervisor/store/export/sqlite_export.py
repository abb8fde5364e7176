"""Export of sessions as an SQLite database of plain tables, for SQL tools and Datasette.

Rule 1: the source is the text of the `jsonl` export, so that a daemon's sessions, a file's sessions
        and redacted ones are exported in the same way.
Rule 2: every table has one primary key and single-column foreign keys, which Datasette can follow.
Rule 3: sqlite-utils is imported here, late: the import takes about 150 ms.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from supervisor.core.ids import SessionId, TurnId
from supervisor.core.records import Record

from .items import CallItem, TextItem, TurnEndItem, TurnStartItem
from .transcript import transcript_items

if TYPE_CHECKING:
    from sqlite_utils import Database

_SESSION_COLUMNS: Final = {
    "id": str, "agent": str, "key": str, "kind": str, "name": str, "title": str, "tags": str,
    "custom": str, "workspace": str, "phase": str, "archived": int, "parent": str, "root": str,
    "depth": int, "role": str, "stop_reason": str, "stop_detail": str, "created_at": float,
    "updated_at": float, "last_active_at": float,
}  # fmt: skip
_TURN_COLUMNS: Final = {
    "id": int, "session_id": str, "turn_id": str, "number": int, "source": str,
    "started_at": float, "ended_at": float, "outcome": str, "stop_reason": str, "error": str,
    "seconds": float,
}  # fmt: skip
_MESSAGE_COLUMNS: Final = {
    "id": int, "session_id": str, "turn": int, "at": float, "role": str, "text": str,
    "steered": int,
}  # fmt: skip
_CALL_COLUMNS: Final = {
    "id": int, "session_id": str, "turn": int, "call_id": str, "name": str, "input": str,
    "outcome": str, "result": str, "started_at": float, "ended_at": float,
}  # fmt: skip
_USAGE_COLUMNS: Final = {
    "id": int, "session_id": str, "turn": int, "at": float, "input_tokens": int,
    "output_tokens": int, "cost": float,
}  # fmt: skip
_SUMMARY_SQL: Final = """
    SELECT
        sessions.id, coalesce(title, name, key) AS title, agent, phase, parent, root,
        (SELECT count(*) FROM turns WHERE session_id = sessions.id) AS turns,
        (SELECT count(*) FROM messages WHERE session_id = sessions.id) AS messages,
        (SELECT count(*) FROM tool_calls WHERE session_id = sessions.id) AS tool_calls,
        (SELECT total(input_tokens) FROM usage WHERE session_id = sessions.id) AS input_tokens,
        (SELECT total(output_tokens) FROM usage WHERE session_id = sessions.id) AS output_tokens,
        (SELECT total(cost) FROM usage WHERE session_id = sessions.id) AS cost,
        datetime(created_at, 'unixepoch') AS created,
        datetime(last_active_at, 'unixepoch') AS last_active
    FROM sessions
"""
_AGENT_TOTALS_SQL: Final = """
    SELECT
        agent, count(DISTINCT sessions.id) AS sessions, total(input_tokens) AS input_tokens,
        total(output_tokens) AS output_tokens, total(cost) AS cost
    FROM sessions LEFT JOIN usage ON usage.session_id = sessions.id GROUP BY agent
"""


def write_sqlite(path: Path, exports: Iterable[str]) -> int:
    """Create a database in an empty or new file from the texts of `jsonl` exports.

    Return the number of sessions. Only one session is in memory at a time. Raise OSError if the
    file cannot be written, for example because the disk is full.
    """
    try:
        return _write(path, exports)
    except sqlite3.OperationalError as error:
        raise OSError(errno.EIO, f"cannot write the database: {error}", str(path)) from error


def _write(path: Path, exports: Iterable[str]) -> int:
    from sqlite_utils import Database  # noqa: PLC0415 - rule 3

    count = 0
    with closing(sqlite3.connect(path)) as connection:
        db = Database(connection, execute_plugins=False)
        with db.atomic():
            _create_tables(db)
            for text in exports:
                _add_session(db, text)
                count += 1
            # A foreign key of a parent that is not in the file would lead nowhere; `root` stays.
            db.execute(
                "UPDATE sessions SET parent = NULL WHERE parent NOT IN (SELECT id FROM sessions)"
            )
            _create_indexes(db)
        db.execute("VACUUM")
    return count


def _create_tables(db: Database) -> None:
    session = ("session_id", "sessions", "id")
    turn = ("turn", "turns", "id")
    db.table("sessions").create(
        _SESSION_COLUMNS, pk="id", foreign_keys=[("parent", "sessions", "id")], strict=True
    )
    db.table("turns").create(_TURN_COLUMNS, pk="id", foreign_keys=[session], strict=True)
    for name, columns in (
        ("messages", _MESSAGE_COLUMNS),
        ("tool_calls", _CALL_COLUMNS),
        ("usage", _USAGE_COLUMNS),
    ):
        db.table(name).create(columns, pk="id", foreign_keys=[session, turn], strict=True)


def _create_indexes(db: Database) -> None:
    db.index_foreign_keys()
    db.table("messages").enable_fts(["text"], tokenize="unicode61 remove_diacritics 2")
    db.create_view("session_summary", _SUMMARY_SQL)
    db.create_view("agent_totals", _AGENT_TOTALS_SQL)


def _add_session(db: Database, text: str) -> None:
    # Not splitlines(): a JSON string may contain U+2028.
    header, *lines = text.removesuffix("\n").split("\n")
    session = orjson.loads(header)["session"]
    records = [_to_record(session["id"], orjson.loads(line)) for line in lines]
    db.table("sessions").insert({name: _column(session.get(name)) for name in _SESSION_COLUMNS})
    turns = _add_items(db, session["id"], records)
    db.table("usage").insert_all(_usage_rows(session["id"], records, turns))


def _to_record(session_id: str, line: Mapping[str, Any]) -> Record:
    turn_id = None if line["turn_id"] is None else TurnId(line["turn_id"])
    return Record(
        SessionId(session_id), line["seq"], line["at"], turn_id, line["kind"], line["body"]
    )


def _add_items(db: Database, session_id: str, records: list[Record]) -> dict[str, int]:
    """Insert the turns, messages and tool calls; return the primary key of each turn by its id."""
    turns: dict[str, int] = {}
    messages: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    turn: int | None = None
    for item in transcript_items(records):
        place = {"session_id": session_id, "turn": turn}
        match item:
            case TurnStartItem():
                turn = _insert_turn(db, session_id, item)
                turns[item.turn_id] = turn
            case TurnEndItem():
                _end_turn(db, turn, item)
                turn = None
            case TextItem():
                text = {"role": item.role, "text": item.text, "steered": int(item.steered)}
                messages.append({**place, "at": item.at, **text})
            case CallItem():
                calls.append({**place, **_call_columns(item)})
            case _:
                pass  # notes, plans and permission requests are only in the records
    db.table("messages").insert_all(messages)
    db.table("tool_calls").insert_all(calls)
    return turns


def _insert_turn(db: Database, session_id: str, item: TurnStartItem) -> int:
    row = {
        "session_id": session_id,
        "turn_id": item.turn_id,
        "number": item.number,
        "source": item.source,
        "started_at": item.at,
    }
    key: int = db.table("turns").insert(row).last_pk  # type: ignore[assignment]  # an INTEGER key
    return key


def _end_turn(db: Database, turn: int | None, item: TurnEndItem) -> None:
    if turn is None or item.outcome is None:
        return  # an open turn has no end
    row = {
        "ended_at": item.at,
        "outcome": item.outcome,
        "stop_reason": item.stop_reason,
        "error": item.error,
        "seconds": item.seconds,
    }
    db.table("turns").update(turn, row)


def _call_columns(item: CallItem) -> dict[str, Any]:
    return {
        "call_id": item.call_id,
        "name": item.name,
        "input": _json(item.input),
        "outcome": item.outcome,
        "result": _json(item.result),
        "started_at": item.at,
        "ended_at": item.ended_at,
    }


def _usage_rows(
    session_id: str, records: list[Record], turns: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    for record in records:
        if record.kind == "usage":
            yield {
                "session_id": session_id,
                "turn": turns.get(record.turn_id or ""),
                "at": record.at,
                "input_tokens": int(_number(record.body.get("input_tokens"))),
                "output_tokens": int(_number(record.body.get("output_tokens"))),
                "cost": float(_number(record.body.get("cost"))),
            }


def _column(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    return _json(value) if isinstance(value, list | dict) else value


def _json(value: object) -> str | None:
    return None if value is None else orjson.dumps(value).decode()


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0
