"""Examination of records and rows: gaps, duplicates, unreadable records."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.limits import MAX_INT64
from supervisor.core.records import (
    ANYTHING,
    BODY_FIELDS,
    KINDS,
    Body,
    Record,
    RecordKind,
)
from supervisor.core.state import SessionState
from supervisor.store.examine import Problem, examine, readable_records
from tests.support.raw_histories import (
    LOST,
    as_raw,
    asked,
    began,
    called,
    codes,
    ended,
    folded_row,
    histories,
    history_of,
    in_file_order,
    random_history,
)
from tests.support.store_samples import ONE, TWO


def defects_of(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.severity != "note"]


# Without problems -----------------------------------------------------------------------


@given(histories, st.data())
def test_every_prefix_of_a_valid_history_has_no_problem(
    made: tuple[tuple[Record, ...], SessionState], data: st.DataObject
) -> None:
    cut = made[0][: data.draw(st.integers(1, len(made[0])))]
    row = folded_row(cut)

    problems = examine(as_raw(cut), row)

    assert defects_of(problems) == []
    assert bool(problems) == (row.turn is not None)


def test_a_turn_that_is_open_in_the_row_is_only_a_note() -> None:
    records, row = history_of(began(), called(), asked())

    (problem,) = examine(as_raw(records), row)

    assert codes([problem]) == [("missing_terminal", "note", 2)]
    assert "still open" in problem.detail


def test_an_empty_history_has_no_problem() -> None:
    assert examine([], None) == []


# Numbers --------------------------------------------------------------------------------


@given(histories, st.data())
def test_a_missing_record_is_a_gap(
    made: tuple[tuple[Record, ...], SessionState], data: st.DataObject
) -> None:
    records, row = made
    gone = data.draw(st.integers(0, len(records) - 2))

    problems = examine(as_raw(records[:gone] + records[gone + 1 :]), row)

    assert ("gap", "error", gone + 1) in codes(problems)
    assert {p.code for p in defects_of(problems)} <= {
        "gap",
        "missing_terminal",
        "dangling_tool_call",
    }


def test_consecutive_missing_records_are_one_gap() -> None:
    records, row = random_history(0)

    (problem,) = defects_of(examine(as_raw(records[:2] + records[5:]), row))

    assert codes([problem]) == [("gap", "error", 3)]
    assert problem.detail == "records 3 to 5 are missing"


@given(histories, st.data())
def test_a_repeated_number_is_a_duplicate(
    made: tuple[tuple[Record, ...], SessionState], data: st.DataObject
) -> None:
    raw = as_raw(made[0])
    again = data.draw(st.sampled_from(raw))
    place = data.draw(st.integers(0, len(raw)))

    problems = examine(in_file_order([*raw[:place], again, *raw[place:]]), made[1])

    assert ("duplicate", "error", again.seq) in codes(problems)
    assert {p.code for p in defects_of(problems)} <= {"duplicate", "regression"}


@given(histories, st.data())
def test_a_number_after_a_larger_one_is_a_regression(
    made: tuple[tuple[Record, ...], SessionState], data: st.DataObject
) -> None:
    raw = as_raw(made[0])
    one = data.draw(st.integers(0, len(raw) - 2))
    other = data.draw(st.integers(one + 1, len(raw) - 1))
    raw[one], raw[other] = raw[other], raw[one]
    raw = in_file_order(raw)

    problems = defects_of(examine(raw, made[1]))

    assert {p.code for p in problems} == {"regression"}
    assert [p.seq for p in problems] == list(range(one + 1, other + 1))
    assert [record.seq for record in readable_records(raw)] == list(range(1, len(raw) + 1))


def test_an_earlier_time_is_not_a_regression() -> None:
    records, _ = history_of(began(), ended(LOST))
    late = (*records[:2], attrs.evolve(records[2], at=-1e9))

    assert examine(as_raw(late), folded_row(late)) == []


def test_a_gap_of_the_largest_size_is_one_problem() -> None:
    records, row = history_of(began(), ended(LOST))
    raw = as_raw(records)
    raw[2] = attrs.evolve(raw[2], seq=MAX_INT64)

    assert codes(defects_of(examine(raw, row))) == [("gap", "error", 3)]


# Unreadable records ---------------------------------------------------------------------


NOT_JSON = [
    "",
    "{",
    '{"a": NaN}',
    '{"a": 1e999}',
    '{"a": "\\ud800"}',
    "\ud800",
    "[" * 100_000,
    '{"a":' * 600 + "1" + "}" * 600,
    b"\xff",
    b"[" * 100_000,
    None,
    5,
    5.5,
    math.nan,
]


@pytest.mark.parametrize("body", NOT_JSON, ids=lambda body: repr(body)[:20])
def test_a_body_that_is_not_json_is_bad_json(body: object) -> None:
    records, row = history_of(began(), ended(LOST))
    raw = as_raw(records)
    raw[2] = attrs.evolve(raw[2], body=body)

    assert ("bad_json", "error", 3) in codes(examine(raw, row))


@pytest.mark.parametrize("body", ["[]", "null", '"text"', "5", b"[1]"])
def test_a_body_that_is_not_an_object_is_a_mismatch(body: object) -> None:
    records, row = history_of(began(), ended(LOST))
    raw = as_raw(records)
    raw[2] = attrs.evolve(raw[2], body=body)

    assert ("type_mismatch", "error", 3) in codes(examine(raw, row))


def test_a_body_stored_as_bytes_is_read_and_noted() -> None:
    records, row = history_of(began(), ended(LOST))
    raw = [attrs.evolve(one, body=one.body.encode()) for one in as_raw(records)]

    assert codes(examine(raw, row)) == [("type_mismatch", "note", seq) for seq in (1, 2, 3)]
    assert readable_records(raw) == records


WRONG_COLUMNS: list[tuple[str, list[Any]]] = [
    ("session_id", [None, 1, b"s_one", TWO, "\ud800"]),
    ("seq", [None, "3", 3.0, b"3", 0, -1, MAX_INT64 + 1]),
    ("at", [None, "1.0", b"", math.inf, math.nan, 10**400]),
    ("turn_id", [1, 1.5, b"t", "\ud800"]),
    ("kind", [None, 1, b"usage", "", "foreign", "\ud800"]),
]


@pytest.mark.parametrize(
    ("column", "value"), [(column, value) for column, wrong in WRONG_COLUMNS for value in wrong]
)
def test_a_column_with_a_wrong_value_is_a_type_mismatch(column: str, value: object) -> None:
    records, row = history_of(began(), ended(LOST))
    raw = as_raw(records)
    changes: dict[str, Any] = {column: value}
    raw[2] = attrs.evolve(raw[2], **changes)

    problems = examine(raw, row)

    mismatch = next(p for p in problems if p.code == "type_mismatch")
    assert mismatch.severity == "error"
    assert mismatch.seq == (None if column == "seq" else 3)
    assert f"for a{'n' if column == 'at' else ''} {column}" in mismatch.detail
    assert mismatch.detail.isascii()


def test_every_kind_has_a_shape() -> None:
    assert set(BODY_FIELDS) == set(KINDS)


NEEDED = [(kind, name) for kind in KINDS for name in BODY_FIELDS[kind].required]
EXAMPLES: dict[type, Any] = {str: "t", int: 1, float: 1.5, bool: True, list: [], dict: {}}


def example(kind: RecordKind) -> dict[str, Any]:
    """Return a minimal body of that kind."""
    return {
        name: next(EXAMPLES.get(type_) for type_ in types)
        for name, types in BODY_FIELDS[kind].required.items()
    }


def faults_of(kind: RecordKind, body: Body) -> list[str]:
    records, row = history_of(began())
    one = Record(ONE, 3, 9.0, LOST, kind, body)
    found = examine([*as_raw(records), *in_file_order(as_raw([one]))], row)
    return [problem.detail for problem in found if problem.code == "type_mismatch"]


@pytest.mark.parametrize(("kind", "name"), NEEDED)
def test_a_body_without_a_required_field_is_a_type_mismatch(kind: RecordKind, name: str) -> None:
    body = example(kind)
    del body[name]

    assert any(f"a {kind} without {name}" in fault for fault in faults_of(kind, body))


@pytest.mark.parametrize(("kind", "name"), NEEDED)
def test_a_field_of_another_type_is_a_type_mismatch(kind: RecordKind, name: str) -> None:
    types = BODY_FIELDS[kind].required[name]
    wrong = [value for type_, value in EXAMPLES.items() if type_ not in types]

    for value in wrong:
        faults = faults_of(kind, {**example(kind), name: value})
        assert any(f"a {kind} whose {name} is" in fault for fault in faults)
    assert bool(wrong) == (types != ANYTHING)


INSIDE: list[tuple[RecordKind, Body]] = [
    ("session_changed", {"epoch": "2"}),
    ("session_changed", {"limits": {"turns": "many"}}),
    ("session_changed", {"tags": [1]}),
    ("session_changed", {"stopping": {"cause": "user"}}),
    ("session_changed", {"verdict": "guilty"}),
    ("agent_restarting", {**example("agent_restarting"), "recent": ["now"]}),
    ("input_accepted", {**example("input_accepted"), "when_busy": "never"}),
    ("input_changed", {"inputs": {"in_1": 5}}),
    ("usage", {**example("usage"), "more": 1}),
    ("turn_started", {"turn_id": "t", "input_id": "i", "source": "nobody"}),
    ("agent_attached", {"agent_session_id": None, "pid": 1, "capabilities": {"steering": 1}}),
]


@pytest.mark.parametrize(("kind", "body"), INSIDE)
def test_a_record_that_cannot_be_folded_or_stored_is_a_type_mismatch(
    kind: RecordKind, body: Body
) -> None:
    waiting: Body = {
        **example("input_accepted"),
        "input_id": "in_1",
        "when_busy": "queue",
        "source": "user",
    }
    records, row = history_of(("input_accepted", waiting, None), began())
    one = Record(ONE, 4, 9.0, None, kind, body)

    problems = defects_of(examine(as_raw([*records, one]), row))

    assert codes(problems)[0] == ("type_mismatch", "error", 4)


def test_a_history_without_its_first_record_is_a_type_mismatch() -> None:
    records, row = history_of(began())
    first = attrs.evolve(records[0], kind="session_started", body={})

    assert codes(defects_of(examine(as_raw([first]), row))) == [("type_mismatch", "error", 1)]


# The row --------------------------------------------------------------------------------


def test_a_row_that_differs_from_its_records_is_a_type_mismatch() -> None:
    records, row = history_of(began(), ended(LOST))

    (problem,) = examine(as_raw(records), row.changed(turns=7, title="other"))

    assert codes([problem]) == [("type_mismatch", "error", None)]
    assert problem.detail == "the row differs from its records in: title, turns"


def test_records_without_a_row_and_a_row_without_records_are_errors() -> None:
    records, row = history_of()

    assert codes(examine(as_raw(records), None)) == [("type_mismatch", "error", None)]
    assert codes(examine([], row)) == [("gap", "error", 1)]
