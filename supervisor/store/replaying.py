"""The state of a session at any of its record numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from supervisor.core.errors import NotStorable, RecordNotFound, shown
from supervisor.core.folds import begin, fold
from supervisor.core.records import Record
from supervisor.core.session import Session

# What every store can count to.
_LARGEST: Final = 2**53


def replay_from(
    snapshot: tuple[int, Session] | None, records: Iterable[Record], at: int
) -> Session:
    """The session as it was when record `at` had been written; raises `RecordNotFound`.

    Raises `NotStorable` for a record of which nothing can be made, as somebody else may have left.
    `records` are in order, from the one after the snapshot's number or from an earlier one, and
    need not end with `at`: no more of them are taken than are needed. A snapshot from after `at`
    helps nobody, and then they have to begin with the first.
    """
    if type(at) is not int or not 1 <= at <= _LARGEST:
        raise RecordNotFound(
            f"{shown(at)} is not the number of a record", hint="records are numbered from 1"
        )
    number, session = snapshot if snapshot is not None and snapshot[0] <= at else (0, None)
    for record in _between(records, number, at):
        session = _after(session, record)
    assert session is not None  # there is a first record, or `_between` has said so
    return session


def _after(session: Session | None, record: Record) -> Session:
    try:
        if session is None:
            return begin(record.session_id, record.fact)
        return fold(session, record.fact)
    except Exception as error:
        raise NotStorable(
            f"nothing can be made of record {record.seq} of session {record.session_id}",
            hint="repair(dry_run=True) of that session says what is wrong with it",
        ) from error


def _between(records: Iterable[Record], after: int, last: int) -> Iterator[Record]:
    """The records with the numbers between, all of them; raises `RecordNotFound`."""
    expected = after + 1
    if expected > last:
        return
    for record in records:
        if record.seq < expected:
            continue
        if record.seq > expected:
            raise RecordNotFound(
                f"record {expected} is missing, and {record.seq} is there",
                hint="repair the session with a dry run to see what else is missing",
            )
        yield record
        expected += 1
        if expected > last:
            return
    raise RecordNotFound(
        f"there is no record {last}, the last is {expected - 1}",
        hint="give a number from 1 to that of the last record",
    )
