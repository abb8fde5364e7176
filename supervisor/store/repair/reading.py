"""From what lies in the file to records, as far as it goes.

`gap`: a number is missing, from 1 on. `duplicate`: a number is there twice. `regression`: a number
comes after a larger one, in the order of the file, and was not there before. Only numbers are
looked at for that, not times: clocks are set back, and some records are stamped with when a session
was last heard of, so an earlier time is no sign of anything.
`bad_json`: the body is no JSON. `type_mismatch`: a column holds what it never should, or the body
is no object, or has not what its kind needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, cast

import attrs
import orjson

from supervisor.core.errors import shown
from supervisor.core.facts import KINDS, Body, Kind
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.limits import LARGEST
from supervisor.core.records import Record
from supervisor.store.port import RawRecord
from supervisor.store.shapes import misfit

from .problems import Problem

_KINDS: Final[frozenset[str]] = frozenset(KINDS)


@attrs.frozen
class Reading:
    """The records that could be read, by number and each number once, and what was in the way."""

    records: tuple[Record, ...]
    problems: tuple[Problem, ...]


def readable(raw: Sequence[RawRecord], session_id: SessionId | None = None) -> tuple[Record, ...]:
    """The records that can be used: by number, and where a number is there twice, the first."""
    return read(raw, session_id).records


def read(raw: Iterable[RawRecord], session_id: SessionId | None) -> Reading:
    """Read what can be read; `session_id` is whose they should be, None if that is not known."""
    records: dict[int, Record] = {}
    problems: list[Problem] = []
    seen: set[int] = set()
    largest = 0
    for lying in sorted(raw, key=lambda lying: lying.position):
        number = _number(lying.seq)
        if number in seen:
            problems.append(_duplicate(number))
            continue
        if number is not None:
            if number < largest:
                problems.append(_regression(number, largest))
            seen.add(number)
            largest = max(largest, number)
        found = _read_one(lying, number, session_id)
        if isinstance(found, Record):
            records[found.seq] = found
            if type(lying.body) is bytes:
                problems.append(_note_bytes(found.seq))
        else:
            problems.append(found)
    problems += _gaps(sorted(seen))
    return Reading(tuple(records[number] for number in sorted(records)), tuple(problems))


def _number(seq: Any) -> int | None:  # noqa: ANN401 - whatever the column holds
    return seq if type(seq) is int and 1 <= seq <= LARGEST else None


def _duplicate(number: int) -> Problem:
    return Problem("duplicate", "error", number, f"number {number} is there more than once")


def _regression(number: int, largest: int) -> Problem:
    # By number all is told in order; only who reads all sessions by position sees it late.
    return Problem("regression", "warning", number, f"number {number} lies behind {largest}")


def _note_bytes(number: int) -> Problem:
    return Problem(
        "type_mismatch", "note", number, f"the body of number {number} lies there as bytes"
    )


def _gaps(numbers: Iterable[int]) -> Iterator[Problem]:
    expected = 1
    for number in numbers:
        if number > expected:
            last = number - 1
            missing = f"{expected} is" if last == expected else f"{expected} to {last} are"
            yield Problem("gap", "error", expected, f"number {missing} missing")
        expected = number + 1


def _read_one(
    lying: RawRecord, number: int | None, session_id: SessionId | None
) -> Record | Problem:
    """The record, or the first thing that is wrong with it."""
    where = f"number {number}" if number is not None else f"the record at {lying.position}"
    wrong = _wrong_column(lying, number, session_id)
    if wrong is not None:
        return Problem("type_mismatch", "error", number, f"{where} has {wrong}")
    try:
        body = _body(lying.body)
    except (ValueError, TypeError):
        return Problem("bad_json", "error", number, f"the body of {where} is no JSON")
    if body is None:
        return Problem("type_mismatch", "error", number, f"the body of {where} is no object")
    kind = cast("Kind", lying.kind)
    wrong = misfit(kind, body)
    if wrong is not None:
        return Problem("type_mismatch", "error", number, f"{where} is {wrong}")
    assert number is not None
    turn = None if lying.turn_id is None else TurnId(lying.turn_id)
    return Record(SessionId(lying.session_id), number, lying.at, turn, kind, body)


def _wrong_column(lying: RawRecord, number: int | None, session_id: SessionId | None) -> str | None:
    if not _is_text(lying.session_id) or session_id not in (None, lying.session_id):
        return f"{shown(lying.session_id)} for a session_id"
    if number is None:
        return f"{shown(lying.seq)} for a seq"
    if type(lying.at) not in (int, float) or not abs(lying.at) <= LARGEST:  # NaN is not, either
        return f"{shown(lying.at)} for an at"
    if lying.turn_id is not None and not _is_text(lying.turn_id):
        return f"{shown(lying.turn_id)} for a turn_id"
    if type(lying.kind) is not str or lying.kind not in _KINDS:
        return f"{shown(lying.kind)} for a kind"
    return None


def _is_text(value: Any) -> bool:  # noqa: ANN401 - whatever the column holds
    if type(value) is not str:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a character: nothing that names it could be appended
        return False
    return True


def _body(text: Any) -> Body | None:  # noqa: ANN401 - whatever the column holds
    """The object that the text is, or None; raises for what we could not have written."""
    if type(text) not in (str, bytes):
        raise TypeError
    body = orjson.loads(text)
    orjson.dumps(body)  # more is read than is written: here end those that are too deep
    return body if type(body) is dict else None
