"""Replay of a session to any record number, and the history of one input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from supervisor.core.errors import NotStorable, RecordNotFound, short_repr
from supervisor.core.facts import fact_of
from supervisor.core.fold import fold, initial_state
from supervisor.core.ids import InputId, TurnId
from supervisor.core.records import Record
from supervisor.core.state import SessionState

# The largest record number that every store supports.
_LARGEST: Final = 2**53


def replay_from(
    snapshot: tuple[int, SessionState] | None, records: Iterable[Record], at: int
) -> SessionState:
    """Return the session's state after record `at`.

    Raise `RecordNotFound` if a needed record is missing, and `NotStorable` if a record cannot be
    folded, for example one edited by another program. `records` are in order, from the record after
    the snapshot or an earlier one, and need not end with `at`: only as many as needed are taken. A
    snapshot later than `at` is ignored; then the records have to start with the first.
    """
    if type(at) is not int or not 1 <= at <= _LARGEST:
        raise RecordNotFound(
            f"{short_repr(at)} is not the number of a record", hint="records are numbered from 1"
        )
    number, session = snapshot if snapshot is not None and snapshot[0] <= at else (0, None)
    for record in _consecutive(records, number, at):
        session = _fold_record(session, record)
    assert session is not None  # there is a first record, or `_consecutive` has raised
    return session


def _fold_record(session: SessionState | None, record: Record) -> SessionState:
    try:
        if session is None:
            return initial_state(record.session_id, fact_of(record))
        return fold(session, fact_of(record))
    except Exception as error:
        raise NotStorable(
            f"record {record.seq} of session {record.session_id} cannot be folded",
            hint="repair(dry_run=True) of that session lists all problems",
        ) from error


def _consecutive(records: Iterable[Record], after: int, last: int) -> Iterator[Record]:
    """Yield the records numbered `after + 1` to `last`; raise `RecordNotFound` at a gap."""
    expected = after + 1
    if expected > last:
        return
    for record in records:
        if record.seq < expected:
            continue
        if record.seq > expected:
            raise RecordNotFound(
                f"record {expected} is missing, but record {record.seq} exists",
                hint="repair(dry_run=True) of that session lists all problems",
            )
        yield record
        expected += 1
        if expected > last:
            return
    raise RecordNotFound(
        f"there is no record {last}, the last is {expected - 1}",
        hint="give a number from 1 to that of the last record",
    )


# The kinds of records that the history of an input consists of.
INPUT_HISTORY_KINDS: Final = frozenset(
    {"input_accepted", "turn_started", "input_settled", "turn_ended"}
)


def input_history(input_id: InputId, records: Iterable[Record]) -> list[Record]:
    """Return the records about the input; read only as many records as needed."""
    history: list[Record] = []
    turn: TurnId | None = None
    for record in records:
        if record.kind == "turn_ended":
            if turn is not None and record.body["turn_id"] == turn:
                return [*history, record]
            continue
        if record.kind not in INPUT_HISTORY_KINDS or record.body["input_id"] != input_id:
            continue
        if not history and record.kind != "input_accepted":
            continue  # the turn was not started by an input that this session accepted
        history.append(record)
        if record.kind == "turn_started":
            turn = record.body["turn_id"]
        elif record.kind == "input_settled":
            if record.body["outcome"] == "steered":
                turn = record.turn_id
            elif record.body["outcome"] != "delivered":
                return history
    return history
