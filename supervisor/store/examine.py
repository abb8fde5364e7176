"""Examine the records and the row of a session for damage.

Codes of problems:

`gap`: a number is missing, from 1 on. `duplicate`: a number exists twice. `regression`: a number
comes after a larger one in file order and is not a duplicate. Only numbers are compared for that,
not times: clocks are set back, and some records carry the time of the session's last update, so an
earlier time is not a problem. `bad_json`: the body is not JSON. `type_mismatch`: a column has a
value of a wrong type, the body is not an object or lacks a field of its kind, the body cannot be
folded or leads to a row that cannot be stored, or the row differs from the fold of its records (the
row must equal that fold). The row is compared only if the records have no errors: otherwise the row
differs anyway. `dangling_tool_call`: a tool call without an end, in a turn that has ended or was
lost. `missing_terminal`: the same for a turn or a permission request. A turn that is open in the
row is only a note: it is not lost yet, and the next start of the session closes it as a repair
does.

A tool call and a permission request belong to the turn in which they started: agents reuse the ids
of tool calls in other turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

import attrs
import orjson

from supervisor.core.errors import short_repr
from supervisor.core.facts import fact_of
from supervisor.core.fold import fold, initial_state
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.limits import MAX_INT64
from supervisor.core.records import FLAT_KINDS, KINDS, Body, Record, RecordKind, body_problem
from supervisor.core.state import SessionState

from .codec import decode, encode
from .port import RawRecord

# See the module docstring.
ProblemCode: TypeAlias = Literal[
    "gap",
    "duplicate",
    "regression",
    "bad_json",
    "type_mismatch",
    "dangling_tool_call",
    "missing_terminal",
]

# error: the history is incomplete or ambiguous; a repair appends to it only with force.
# warning: the history is complete, but has a flaw. A repair closes open items and rebuilds a row
#        that cannot be read; records in the wrong order stay as they are.
# note: not a defect, for information.
Severity: TypeAlias = Literal["error", "warning", "note"]


@attrs.frozen
class Problem:
    """One problem of the stored records; `seq` is None if it does not concern one record."""

    code: ProblemCode
    severity: Severity
    seq: int | None
    detail: str


_KNOWN_KINDS: Final[frozenset[str]] = frozenset(KINDS)


@attrs.frozen
class ParsedRecords:
    """The readable records, ordered by number and each number once, and the problems found."""

    records: tuple[Record, ...]
    problems: tuple[Problem, ...]


def readable_records(
    raw: Sequence[RawRecord], session_id: SessionId | None = None
) -> tuple[Record, ...]:
    """Return the usable records by number; of two records with one number, the first."""
    return parse_records(raw, session_id).records


def parse_records(raw: Iterable[RawRecord], session_id: SessionId | None) -> ParsedRecords:
    """Parse the readable records; `session_id` is the expected owner, None if unknown."""
    records: dict[int, Record] = {}
    problems: list[Problem] = []
    seen: set[int] = set()
    largest = 0
    for stored in sorted(raw, key=lambda stored: stored.position):
        number = _valid_seq(stored.seq)
        if number in seen:
            problems.append(_duplicate(number))
            continue
        if number is not None:
            if number < largest:
                problems.append(_regression(number, largest))
            seen.add(number)
            largest = max(largest, number)
        found = _parse_record(stored, number, session_id)
        if isinstance(found, Record):
            records[found.seq] = found
            if type(stored.body) is bytes:
                problems.append(_bytes_note(found.seq))
        else:
            problems.append(found)
    problems += _gaps(sorted(seen))
    return ParsedRecords(tuple(records[number] for number in sorted(records)), tuple(problems))


def _valid_seq(seq: Any) -> int | None:  # noqa: ANN401 - a column may hold any value
    return seq if type(seq) is int and 1 <= seq <= MAX_INT64 else None


def _duplicate(number: int) -> Problem:
    return Problem("duplicate", "error", number, f"record {number} exists more than once")


def _regression(number: int, largest: int) -> Problem:
    # Readers of one session go by number and see the right order; readers by position do not.
    return Problem(
        "regression", "warning", number, f"record {number} is stored after record {largest}"
    )


def _bytes_note(number: int) -> Problem:
    return Problem(
        "type_mismatch", "note", number, f"the body of record {number} is stored as bytes"
    )


def _gaps(numbers: Iterable[int]) -> Iterator[Problem]:
    expected = 1
    for number in numbers:
        if number > expected:
            last = number - 1
            missing = f" {expected} is" if last == expected else f"s {expected} to {last} are"
            yield Problem("gap", "error", expected, f"record{missing} missing")
        expected = number + 1


def _parse_record(
    stored: RawRecord, number: int | None, session_id: SessionId | None
) -> Record | Problem:
    """Return the record, or its first problem."""
    where = f"record {number}" if number is not None else f"the record at {stored.position}"
    wrong = _wrong_column(stored, number, session_id)
    if wrong is not None:
        return Problem("type_mismatch", "error", number, f"{where} has {wrong}")
    try:
        body = _parse_body(stored.body)
    except (ValueError, TypeError):
        return Problem("bad_json", "error", number, f"the body of {where} is not JSON")
    if body is None:
        return Problem("type_mismatch", "error", number, f"the body of {where} is not an object")
    kind = cast("RecordKind", stored.kind)
    wrong = body_problem(kind, body)
    if wrong is not None:
        return Problem("type_mismatch", "error", number, f"{where} is {wrong}")
    assert number is not None
    turn = None if stored.turn_id is None else TurnId(stored.turn_id)
    return Record(SessionId(stored.session_id), number, stored.at, turn, kind, body)


def _wrong_column(
    stored: RawRecord, number: int | None, session_id: SessionId | None
) -> str | None:
    if not _is_text(stored.session_id) or session_id not in (None, stored.session_id):
        return f"{short_repr(stored.session_id)} for a session_id"
    if number is None:
        return f"{short_repr(stored.seq)} for a seq"
    if type(stored.at) not in (int, float) or not abs(stored.at) <= MAX_INT64:  # false for NaN, too
        return f"{short_repr(stored.at)} for an at"
    if stored.turn_id is not None and not _is_text(stored.turn_id):
        return f"{short_repr(stored.turn_id)} for a turn_id"
    if type(stored.kind) is not str or stored.kind not in _KNOWN_KINDS:
        return f"{short_repr(stored.kind)} for a kind"
    return None


def _is_text(value: Any) -> bool:  # noqa: ANN401 - a column may hold any value
    if type(value) is not str:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate: a record with it could not be appended
        return False
    return True


def _parse_body(text: Any) -> Body | None:  # noqa: ANN401 - a column may hold any value
    """Return the JSON object, or None for another value; raise for text that we never write."""
    if type(text) not in (str, bytes):
        raise TypeError
    body = orjson.loads(text)
    orjson.dumps(body)  # fails for nesting that can be parsed, but not written
    return body if type(body) is dict else None


OpenKind: TypeAlias = Literal["turn", "call", "request"]

_START_KINDS: Final[Mapping[RecordKind, tuple[OpenKind, str]]] = {
    "turn_started": ("turn", "turn_id"),
    "tool_call": ("call", "call_id"),
    "permission_asked": ("request", "request_id"),
}

_END_KINDS: Final[Mapping[RecordKind, tuple[OpenKind, str]]] = {
    "turn_ended": ("turn", "turn_id"),
    "tool_ended": ("call", "call_id"),
    "permission_answered": ("request", "request_id"),
}


@attrs.frozen
class OpenItem:
    """A turn, tool call or permission request without an end, and the record that started it."""

    kind: OpenKind
    id: str
    turn: TurnId | None
    start_record: Record


def open_items(records: Iterable[Record]) -> tuple[OpenItem, ...]:
    """Return the turns, calls and requests that the records start and do not end, in order."""
    started: dict[tuple[OpenKind, TurnId | None, str], OpenItem] = {}
    for record in records:
        if record.kind in _START_KINDS:
            item_kind, turn, name = _item_key(record, *_START_KINDS[record.kind])
            started.setdefault((item_kind, turn, name), OpenItem(item_kind, name, turn, record))
        elif record.kind in _END_KINDS:
            started.pop(_item_key(record, *_END_KINDS[record.kind]), None)
    return tuple(started.values())


def _item_key(
    record: Record, item_kind: OpenKind, field: str
) -> tuple[OpenKind, TurnId | None, str]:
    name: str = record.body[field]
    # For a turn the id in the body counts, as in folding.
    return item_kind, TurnId(name) if item_kind == "turn" else record.turn_id, name


_MAX_DETAIL_CHARS: Final = 200


def fold_records(
    records: Iterable[Record], session: SessionState | None = None
) -> tuple[SessionState | None, list[Problem]]:
    """Return the folded session, without records that do not fit; None without a first record.

    Folding continues from `session` if it is given. Never raise.
    """
    problems = []
    for record in records:
        if session is None and record.seq > 1:
            break
        try:
            after = (
                initial_state(record.session_id, fact_of(record))
                if session is None
                else fold(session, fact_of(record))
            )
            if record.kind not in FLAT_KINDS and after is not session:
                decode(encode(after), SessionState)
        except Exception as error:  # noqa: BLE001 - folding may raise anything for an unchecked body
            problems.append(_fold_problem(record, error))
        else:
            session = after
    return session, problems


def _fold_problem(record: Record, error: Exception) -> Problem:
    why = ascii(f"{type(error).__name__}: {error}")[1:-1][:_MAX_DETAIL_CHARS]
    detail = f"record {record.seq} is a {record.kind} that cannot be folded: {why}"
    return Problem("type_mismatch", "error", record.seq, detail)


def examine(raw: Sequence[RawRecord], row: SessionState | None) -> list[Problem]:
    """Return all problems by record number, those without a number last. Never raise."""
    parsed = parse_records(raw, row.id if row is not None else _owner(raw))
    problems = [*parsed.problems]
    folded, unfit = fold_records(parsed.records)
    problems += unfit
    problems += _open_item_problems(parsed.records, row)
    if not any(problem.severity == "error" for problem in problems):
        problems += _row_problems(folded, row)
    return sorted(problems, key=lambda problem: (problem.seq is None, problem.seq or 0))


def _owner(raw: Iterable[RawRecord]) -> SessionId | None:
    found = (stored.session_id for stored in raw if type(stored.session_id) is str)
    return next((SessionId(name) for name in found), None)


def _open_item_problems(records: Iterable[Record], row: SessionState | None) -> Iterator[Problem]:
    # A suspended or stopped session has no open turn, even if its row has one.
    turn = row.turn if row is not None and not row.is_inactive else None
    for end in open_items(records):
        seq = end.start_record.seq
        if turn is None or end.turn != turn.id:
            yield _open_item_problem(end)
        elif end.kind == "turn":
            detail = f"turn {end.id} is still open in the row; a repair ends it as lost"
            yield Problem("missing_terminal", "note", seq, detail)


def _open_item_problem(end: OpenItem) -> Problem:
    seq = end.start_record.seq
    match end.kind:
        case "turn":
            detail = f"turn {end.id} has no end"
            return Problem("missing_terminal", "warning", seq, detail)
        case "call":
            detail = f"tool call {end.id} of turn {end.turn} has no end"
            return Problem("dangling_tool_call", "warning", seq, detail)
        case "request":
            detail = f"request {end.id} of turn {end.turn} was never answered"
            return Problem("missing_terminal", "warning", seq, detail)


def _row_problems(folded: SessionState | None, row: SessionState | None) -> Iterator[Problem]:
    if folded is None and row is not None:
        yield Problem("gap", "error", 1, "there is a row, but no record")
    elif folded is not None and row is None:
        yield Problem("type_mismatch", "error", None, "there are records, but no row")
    elif folded is not None and row is not None and folded != row:
        names = ", ".join(_differences(folded, row))
        detail = f"the row differs from its records in: {names}"
        yield Problem("type_mismatch", "error", None, detail)


def _differences(one: SessionState, other: SessionState) -> list[str]:
    names = (field.name for field in attrs.fields(SessionState))
    return [name for name in names if getattr(one, name) != getattr(other, name)]
