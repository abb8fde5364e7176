"""A row that cannot be read, and the one that its records give.

A row is nothing but the sum of its records (invariant 39), so it can be made anew where they are
whole. Where some are not, a snapshot may stand for all that came before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import orjson

from supervisor.core.session import Session
from supervisor.store.codec import decode
from supervisor.store.port import RawRecord, RawRow

from .folding import fold_all
from .problems import Code, Problem
from .reading import Reading, read

Snapshot: TypeAlias = tuple[int, Session]

_WHY_LETTERS: Final = 200


def damage_of(raw: RawRow) -> str | None:
    """Why the row cannot be read; None if it can. Never raises."""
    try:
        row = decode(raw.row, Session)
    except ValueError as error:
        return ascii(str(error))[1:-1][:_WHY_LETTERS]
    return None if row.id == raw.session_id else "this is the row of another session"


def problem_of_row(raw: RawRow, made: Session | None) -> Problem:
    """What to say of a row that cannot be read; `made` is what it can be made anew as."""
    why = damage_of(raw)
    code: Code = "type_mismatch" if _is_json(raw.row) else "bad_json"
    if made is None:
        detail = f"the row cannot be read, and its records do not give it: {why}"
        return Problem(code, "error", None, detail)
    detail = f"the row cannot be read; a repair makes it anew from its records: {why}"
    return Problem(code, "warning", None, detail)


def _is_json(row: bytes) -> bool:
    try:
        orjson.loads(row)
    except ValueError:
        return False
    return True


def made_anew(
    raw: RawRow, records: Sequence[RawRecord], snapshot: Snapshot | None
) -> Session | None:
    """The row that the records give, all of them or those after the last snapshot, or None.

    Never from records of which one is missing or does not fit: that would be a guess. Never raises.
    """
    last = max((one.seq for one in records if type(one.seq) is int), default=0)
    if snapshot is not None and snapshot[0] > last:
        return None  # there were more of them
    reading = read(records, raw.session_id)
    session, unfit = fold_all(reading.records)
    if not _errors((*reading.problems, *unfit)):
        return session
    return None if snapshot is None else _folded_from(snapshot, reading, last)


def _folded_from(snapshot: Snapshot, reading: Reading, last: int) -> Session | None:
    """The snapshot's row with all that was written after it, if that is whole."""
    number, row = snapshot
    if any(one.seq is None or one.seq > number for one in _errors(reading.problems)):
        return None
    later = [record for record in reading.records if record.seq > number]
    if [record.seq for record in later] != list(range(number + 1, last + 1)):
        return None
    made, unfit = fold_all(later, row)
    return None if unfit else made


def _errors(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.severity == "error"]
