"""What a file must be like, whenever its supervisor was killed.

Rule 1: everything is worked out from the records, one by one. Only folding is the product's own,
        because that it gives the row is itself a promise.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import attrs

from supervisor import Phase, Record
from supervisor.core.ids import SessionId
from supervisor.core.records import replay
from supervisor.store.filters import EVERYTHING
from supervisor.store.port import Stored
from supervisor.store.sqlite import reading
from supervisor.store.sqlite.files import open_reader


@attrs.frozen
class Found:
    """All that is in a file."""

    stored: dict[str, Stored]
    records: dict[str, list[Record]]
    snapshots: dict[str, list[tuple[int, object]]]
    integrity: str

    @property
    def open_turns(self) -> dict[str, str]:
        """By turn, its session."""
        turns = ((one.row.turn, session_id) for session_id, one in self.stored.items())
        return {turn.id: session_id for turn, session_id in turns if turn is not None}

    def bodies(self, session_id: str, kind: str) -> list[dict[str, object]]:
        return [dict(one.body) for one in self.records.get(session_id, ()) if one.kind == kind]


def read(path: Path) -> Found:
    """Read all of it, as any other program could, and change nothing."""
    if not path.exists():
        return Found({}, {}, {}, "ok")
    with closing(open_reader(path)) as connection:
        [[integrity]] = connection.execute("PRAGMA integrity_check").fetchall()
        has_tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if not has_tables:
            return Found({}, {}, {}, integrity)
        stored: dict[str, Stored] = {one.row.id: one for one in _rows(connection)}
        records: dict[str, list[Record]] = {}
        for _, record in reading.all_records(connection, 0, None):
            records.setdefault(record.session_id, []).append(record)
        snapshots: dict[str, list[tuple[int, object]]] = {}
        for session_id, seq in connection.execute("SELECT session_id, seq FROM snapshots"):
            kept = reading.snapshot(connection, SessionId(session_id), seq)
            assert kept is not None
            snapshots.setdefault(session_id, []).append(kept)
        return Found(stored, records, snapshots, integrity)


def _rows(connection: sqlite3.Connection) -> Iterator[Stored]:
    after: int | None = 0
    while after is not None:
        page, after = reading.page_of_rows(connection, after, EVERYTHING)
        yield from page


def problems_of(found: Found) -> list[str]:
    """What is wrong with the file itself, at whatever instant it was left."""
    problems = [] if found.integrity == "ok" else [found.integrity]
    strangers = sorted(found.records.keys() - found.stored.keys())
    problems += [f"there are records and no row of {one}" for one in strangers]
    for session_id, stored in found.stored.items():
        records = found.records.get(session_id, [])
        problems += [f"{session_id}: {one}" for one in _problems_of_one(stored, records)]
        for seq, row in found.snapshots.get(session_id, ()):
            if replay(records[:seq]) != row:
                problems.append(f"{session_id}: the snapshot at {seq} is not what was so then")
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
    bearers = Counter(
        str(one.row.key)
        for one in found.stored.values()
        if one.row.key is not None and not one.row.archived
    )
    yield from (f"{n} sessions bear {key}" for key, n in bearers.items() if n > 1)


def problems_after(before: Found, after: Found) -> list[str]:
    """What a recovery has left undone, or done to what it found."""
    problems = []
    for session_id, records in before.records.items():
        if after.records.get(session_id, [])[: len(records)] != records:
            problems.append(f"{session_id}: what was recorded before is recorded otherwise")
    for turn, session_id in before.open_turns.items():
        ends = [
            one["outcome"]
            for one in after.bodies(session_id, "turn_ended")
            if one["turn_id"] == turn
        ]
        if ends != ["lost"]:
            problems.append(f"{session_id}: {turn} was open, and its ends are {ends}")
    for session_id, stored in after.stored.items():
        problems += _problems_of_family(session_id, stored, before, after)
    return problems


def _problems_of_family(
    session_id: str, stored: Stored, before: Found, after: Found
) -> Iterator[str]:
    row, earlier = stored.row, before.stored.get(session_id)
    parent = after.stored.get(row.lineage.parent) if row.lineage.parent is not None else None
    bound = row.lineage.parent is not None and row.lineage.lifetime == "with_parent"
    if bound and row.phase is not Phase.STOPPED and (parent is None or _is_over(parent)):
        yield f"{session_id} is {row.phase}, and its parent is over"
    if earlier is not None and earlier.row.phase is Phase.STARTING:
        reasons = [one["reason"] for one in after.bodies(session_id, "session_stopped")]
        if not reasons:
            yield f"{session_id} was starting, and has no end"


def _is_over(stored: Stored) -> bool:
    return stored.row.phase is Phase.STOPPED


def problems_of_news(found: Found) -> Iterator[str]:
    """When all is quiet: parents have heard of their children what is so, and nothing twice."""
    for session_id, stored in found.stored.items():
        parent = found.stored.get(stored.row.lineage.parent or "")
        if parent is None or parent.row.archived:
            continue
        news = [
            one
            for kind in ("child_started", "child_ended")
            for one in found.bodies(parent.row.id, kind)
            if one["child"] == session_id
        ]
        began = [one for one in news if "resumed" in one and not one["resumed"]]
        ends = [one for one in news if one.get("reason") is not None]
        really = found.bodies(session_id, "session_stopped")
        if len(began) != 1 or len(ends) > len(really):
            yield f"of {session_id}, {len(began)} beginnings and {len(ends)} ends were told"
        if _is_over(stored) and (not ends or ends[-1]["reason"] != really[-1]["reason"]):
            yield f"{session_id} is over, and its parent has heard {ends[-1:]} of {really[-1:]}"
