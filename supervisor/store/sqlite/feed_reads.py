"""SQL of the reads for feeds over some sessions; see `store.feed_reads`."""

from __future__ import annotations

import heapq
import itertools
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from operator import itemgetter

from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.store.feed_reads import JOINED_RECORDS, SEARCHED_RECORDS, joined_text

from .read import IS_COMPLETE, RECORD_COLUMNS, readable_records, to_record


@contextmanager
def _one_moment(connection: sqlite3.Connection) -> Iterator[None]:
    """Read everything in the block as of one moment."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


def records_by_position(
    connection: sqlite3.Connection, after: Mapping[SessionId, int], limit: int
) -> list[tuple[int, Record]]:
    """Return the next records of some sessions; see `FeedReads.records_by_position`."""
    with _one_moment(connection):
        found = [
            connection.execute(
                f"""
                SELECT {RECORD_COLUMNS}, position FROM records
                WHERE session_id = ? AND seq > ? AND {IS_COMPLETE} ORDER BY seq LIMIT ?
                """,
                (session_id, seq, limit),
            ).fetchall()
            for session_id, seq in after.items()
        ]
    first = itertools.islice(heapq.merge(*found, key=itemgetter(6)), limit)
    return [(one[6], to_record(one)) for one in first]


def numbers_at(
    connection: sqlite3.Connection, position: int, session_ids: Collection[SessionId]
) -> dict[SessionId, int]:
    """Return the last number of each session by then; see `FeedReads.numbers_at`."""
    numbers = dict.fromkeys(session_ids, 0)
    for session_id in session_ids:
        # From the end: a reader that continues is rarely far behind.
        found = connection.execute(
            "SELECT seq FROM records WHERE session_id = ? AND position <= ?"
            " ORDER BY seq DESC LIMIT 1",
            (session_id, position),
        ).fetchone()
        if found is not None:
            numbers[session_id] = found[0]
    return numbers


def latest_texts(
    connection: sqlite3.Connection, session_ids: Collection[SessionId]
) -> dict[SessionId, str]:
    """Return the end of what each agent said; see `FeedReads.latest_texts`."""
    texts: dict[SessionId, str] = {}
    for session_id in session_ids:
        found = connection.execute(
            f"""
            SELECT {RECORD_COLUMNS} FROM records
            WHERE
                session_id = ?1 AND kind = 'agent_text'
                AND seq > (SELECT max(seq) FROM records WHERE session_id = ?1) - ?2
            ORDER BY seq DESC LIMIT ?3
            """,
            (session_id, SEARCHED_RECORDS, JOINED_RECORDS),
        ).fetchall()
        text = joined_text(readable_records(found))
        if text:
            texts[session_id] = text
    return texts
