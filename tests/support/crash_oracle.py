"""Invariants of a store file after a kill of its supervisor at any instant.

Rule 1: everything is derived from the records, one by one. Only `replay` is the product's own,
        because its agreement with the row is itself an invariant.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import attrs

from supervisor import Phase, Record
from supervisor.core.fold import replay
from supervisor.core.ids import SessionId
from supervisor.store.list_filter import NO_FILTER
from supervisor.store.port import Stored
from supervisor.store.sqlite import lists, read
from supervisor.store.sqlite.files import open_reader


@attrs.frozen
class Found:
    """The contents of a store file."""

    stored: dict[str, Stored]
    records: dict[str, list[Record]]
    snapshots: dict[str, list[tuple[int, object]]]
    integrity: str

    @property
    def open_turns(self) -> dict[str, str]:
        """The session id of each open turn."""
        turns = ((one.row.turn, session_id) for session_id, one in self.stored.items())
        return {turn.id: session_id for turn, session_id in turns if turn is not None}

    def bodies(self, session_id: str, kind: str) -> list[dict[str, object]]:
        return [dict(one.body) for one in self.records.get(session_id, ()) if one.kind == kind]


def read_store(path: Path) -> Found:
    """Return the contents of the file at one instant, read only."""
    if not path.exists():
        return Found({}, {}, {}, "ok")
    with closing(open_reader(path)) as connection:
        connection.execute("BEGIN")  # a supervisor may write meanwhile
        [[integrity]] = connection.execute("PRAGMA integrity_check").fetchall()
        has_tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if not has_tables:
            return Found({}, {}, {}, integrity)
        stored: dict[str, Stored] = {one.row.id: one for one in _rows(connection)}
        records: dict[str, list[Record]] = {}
        for _, record in read.all_records(connection, 0, None):
            records.setdefault(record.session_id, []).append(record)
        snapshots: dict[str, list[tuple[int, object]]] = {}
        for session_id, seq in connection.execute("SELECT session_id, seq FROM snapshots"):
            kept = read.snapshot(connection, SessionId(session_id), seq)
            assert kept is not None
            snapshots.setdefault(session_id, []).append(kept)
        return Found(stored, records, snapshots, integrity)


def _rows(connection: sqlite3.Connection) -> Iterator[Stored]:
    after: int | None = 0
    while after is not None:
        page, after = lists.page_of_rows(connection, after, NO_FILTER)
        yield from page


def problems_of(found: Found) -> list[str]:
    """Return the violations of invariants that hold at every instant."""
    problems = [] if found.integrity == "ok" else [found.integrity]
    without_row = sorted(found.records.keys() - found.stored.keys())
    problems += [f"there are records but no row of {one}" for one in without_row]
    for session_id, stored in found.stored.items():
        records = found.records.get(session_id, [])
        problems += [f"{session_id}: {one}" for one in _problems_of_one(stored, records)]
        for seq, row in found.snapshots.get(session_id, ()):
            if replay(records[:seq]) != row:
                problems.append(
                    f"{session_id}: the snapshot at {seq} is not the replay of its records"
                )
    problems += _problems_of_keys(found)
    return problems


def _problems_of_one(stored: Stored, records: list[Record]) -> Iterator[str]:
    numbers = [one.seq for one in records]
    if numbers != list(range(1, len(records) + 1)) or stored.last_seq != len(records):
        yield f"its records are numbered {numbers[:3]}..{numbers[-3:]}"
        return
    if replay(records) != stored.row:
        yield "its row is not what its records say"
    yield from _problems_of_inputs(records)
    yield from _problems_of_turns(records)


def _problems_of_inputs(records: list[Record]) -> Iterator[str]:
    accepted = Counter(one.body["input_id"] for one in records if one.kind == "input_accepted")
    settled = Counter(one.body["input_id"] for one in records if one.kind == "input_settled")
    yield from (f"{one} was accepted {n} times" for one, n in accepted.items() if n > 1)
    yield from (f"{one} was settled {n} times" for one, n in settled.items() if n > 1)
    yield from (f"{one} was settled and never accepted" for one in settled if one not in accepted)


def _problems_of_turns(records: list[Record]) -> Iterator[str]:
    begun = Counter(one.body["turn_id"] for one in records if one.kind == "turn_started")
    ended = Counter(one.body["turn_id"] for one in records if one.kind == "turn_ended")
    yield from (f"{one} began {n} times" for one, n in begun.items() if n > 1)
    yield from (f"{one} ended {n} times" for one, n in ended.items() if n > 1)
    yield from (f"{one} ended and never began" for one in ended if one not in begun)
    if len(begun) - len(ended) > 1:
        yield "it has several turns open"


def _problems_of_keys(found: Found) -> Iterator[str]:
    holders = Counter(
        str(one.row.key)
        for one in found.stored.values()
        if one.row.key is not None and not one.row.archived
    )
    yield from (f"{n} sessions hold {key}" for key, n in holders.items() if n > 1)


def problems_after(before: Found, after: Found) -> list[str]:
    """Return what a recovery left undone, or changed in existing records."""
    problems = []
    for session_id, records in before.records.items():
        if after.records.get(session_id, [])[: len(records)] != records:
            problems.append(f"{session_id}: recovery changed existing records")
    for turn, session_id in before.open_turns.items():
        ends = [
            one["outcome"]
            for one in after.bodies(session_id, "turn_ended")
            if one["turn_id"] == turn
        ]
        if ends != ["lost"]:
            problems.append(f"{session_id}: {turn} was open, and its ends are {ends}")
    for session_id, stored in after.stored.items():
        problems += _problems_of_tree(session_id, stored, before, after)
    return problems


def _problems_of_tree(
    session_id: str, stored: Stored, before: Found, after: Found
) -> Iterator[str]:
    row, earlier = stored.row, before.stored.get(session_id)
    parent = after.stored.get(row.lineage.parent) if row.lineage.parent is not None else None
    bound = row.lineage.parent is not None and row.lineage.lifetime == "with_parent"
    if bound and row.phase is not Phase.STOPPED and (parent is None or _is_over(parent)):
        yield f"{session_id} is {row.phase} but its parent has stopped"
    if earlier is not None and earlier.row.phase is Phase.STARTING:
        reasons = [one["reason"] for one in after.bodies(session_id, "session_stopped")]
        if not reasons:
            yield f"{session_id} was starting but has no recorded stop"


def _is_over(stored: Stored) -> bool:
    return stored.row.phase is Phase.STOPPED


def problems_of_notifications(found: Found) -> Iterator[str]:
    """Yield wrong or duplicate child notifications of parents, once all sessions are at rest."""
    for session_id, stored in found.stored.items():
        parent = found.stored.get(stored.row.lineage.parent or "")
        if parent is None or parent.row.archived:
            continue
        notifications = [
            one
            for kind in ("child_started", "child_ended")
            for one in found.bodies(parent.row.id, kind)
            if one["child"] == session_id
        ]
        began = [one for one in notifications if "resumed" in one and not one["resumed"]]
        ends = [one for one in notifications if one.get("reason") is not None]
        really = found.bodies(session_id, "session_stopped")
        if len(began) != 1 or len(ends) > len(really):
            yield f"the parent of {session_id} recorded {len(began)} starts and {len(ends)} ends"
        if _is_over(stored) and (not ends or ends[-1]["reason"] != really[-1]["reason"]):
            yield f"{session_id} stopped with {really[-1:]}, its parent recorded {ends[-1:]}"
