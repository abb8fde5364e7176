"""Repair: every planted fault is reported with its code, and open items are closed once."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.creation import SessionSpec, create
from supervisor.core.errors import RepairRefused
from supervisor.core.fold import fold, replay
from supervisor.core.ids import TurnId
from supervisor.core.limits import MAX_INT64
from supervisor.core.records import (
    ANYTHING,
    BODY_FIELDS,
    KINDS,
    Body,
    Fact,
    Record,
    RecordKind,
    number_facts,
)
from supervisor.core.state import Phase, SessionState
from supervisor.store.examine import Problem, examine, readable_records
from supervisor.store.port import RawRecord
from supervisor.store.repair import closing_facts, repair_records, repair_refusal
from tests.support.store_samples import ONE, TWO, life

SEEDS = 60
NOW = 5000.0
Raw: TypeAlias = list[RawRecord]
LOST = TurnId("turn_lost")


def as_raw(records: Iterable[Record]) -> Raw:
    """Return the records undecoded, as they are in the file."""
    return [
        RawRecord(place, r.session_id, r.seq, r.at, r.turn_id, r.kind, json.dumps(r.body))
        for place, r in enumerate(records, 100)
    ]


def in_file_order(raw: Iterable[RawRecord]) -> Raw:
    return [attrs.evolve(one, position=place) for place, one in enumerate(raw)]


@functools.cache
def random_history(seed: int) -> tuple[tuple[Record, ...], SessionState]:
    facts = [fact for _, facts, _ in life(seed, 40) for fact in facts]
    records = number_facts(ONE, facts, after=0)
    return records, folded_row(records)


def folded_row(records: Iterable[Record]) -> SessionState:
    session = replay(records)
    assert session is not None
    return session


def history_of(
    *facts: tuple[RecordKind, Body, TurnId | None],
) -> tuple[tuple[Record, ...], SessionState]:
    """Return the records of a session with these facts, one a second, and its row."""
    _, born = create(ONE, SessionSpec(agent="echo"), at=1.0)
    rest = (Fact(kind, at, body, turn) for at, (kind, body, turn) in enumerate(facts, 2))
    records = number_facts(ONE, (*born, *rest), after=0)
    return records, folded_row(records)


def began(turn: TurnId = LOST) -> tuple[RecordKind, Body, TurnId]:
    return "turn_started", {"turn_id": turn, "input_id": "in_1", "source": "user"}, turn


def called(call: str = "c_1", turn: TurnId = LOST) -> tuple[RecordKind, Body, TurnId]:
    return "tool_call", {"call_id": call, "name": "bash", "input": {}, "cancellable": True}, turn


def asked(request: str = "r_1", turn: TurnId = LOST) -> tuple[RecordKind, Body, TurnId]:
    body: Body = {"tool": "bash", "question": "?", "input": None, "options": [], "asks": "person"}
    return "permission_asked", {"request_id": request, **body}, turn


def ended(turn: TurnId) -> tuple[RecordKind, Body, TurnId]:
    body = {"outcome": "completed", "stop_reason": None, "text": "", "error": None, "messages": 0}
    more: Body = {"zombie": False, "ladder_step": None, "usage": {}, "seconds": 1.0}
    return "turn_ended", {"turn_id": turn, **body, **more}, turn


def used(tokens: int) -> tuple[RecordKind, Body, TurnId]:
    return "usage", {"input_tokens": tokens, "output_tokens": 1, "cost": 0.5}, LOST


def said(text: str, *, continues: bool) -> tuple[RecordKind, Body, TurnId]:
    return "agent_text", {"text": text, "part": "p.1", "continues": continues}, LOST


STOPPED: tuple[RecordKind, Body, None] = (
    "session_stopped",
    {"reason": "user_cancelled", "detail": None, "failure": None},
    None,
)


def codes(problems: Iterable[Problem]) -> list[tuple[str, str, int | None]]:
    return [(problem.code, problem.severity, problem.seq) for problem in problems]


def defects_of(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.severity != "note"]


histories = st.integers(0, SEEDS).map(random_history)


# Without problems ------------------------------------------------------------------------


@given(histories, st.data())
def test_a_good_history_has_no_problem_wherever_it_is_cut(
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


# Numbers ---------------------------------------------------------------------------------


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


# Unreadable records ----------------------------------------------------------------------

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


# The row ---------------------------------------------------------------------------------


def test_a_row_that_differs_from_its_records_is_a_type_mismatch() -> None:
    records, row = history_of(began(), ended(LOST))

    (problem,) = examine(as_raw(records), row.changed(turns=7, title="other"))

    assert codes([problem]) == [("type_mismatch", "error", None)]
    assert problem.detail == "the row differs from its records in: title, turns"


def test_records_without_a_row_and_a_row_without_records_are_errors() -> None:
    records, row = history_of()

    assert codes(examine(as_raw(records), None)) == [("type_mismatch", "error", None)]
    assert codes(examine([], row)) == [("gap", "error", 1)]


# Open items ------------------------------------------------------------------------------


def test_a_turn_that_is_not_open_in_the_row_has_no_end() -> None:
    records, row = history_of(began(), began(TurnId("turn_2")), ended(TurnId("turn_2")))

    assert codes(examine(as_raw(records), row)) == [("missing_terminal", "warning", 2)]


def test_an_inactive_session_has_no_open_turn_whatever_its_row() -> None:
    records, row = history_of(began(), called(), STOPPED)

    assert row.turn is not None
    assert codes(examine(as_raw(records), row)) == [
        ("missing_terminal", "warning", 2),
        ("dangling_tool_call", "warning", 3),
    ]


def test_an_open_call_and_request_of_an_ended_turn_are_reported() -> None:
    records, row = history_of(began(), called(), asked(), ended(LOST))

    assert codes(examine(as_raw(records), row)) == [
        ("dangling_tool_call", "warning", 3),
        ("missing_terminal", "warning", 4),
    ]


def test_calls_with_equal_ids_in_two_turns_are_kept_apart() -> None:
    two = TurnId("turn_2")
    over: Body = {"call_id": "c_1", "name": "bash", "outcome": "completed", "result": None}
    records, row = history_of(
        began(), called(), ended(LOST), began(two), called(turn=two), ("tool_ended", over, two),
        ended(two),
    )  # fmt: skip

    assert codes(examine(as_raw(records), row)) == [("dangling_tool_call", "warning", 3)]


def test_a_lost_turn_ends_after_all_its_open_items() -> None:
    records, row = history_of(
        began(), called(), asked(), began(TurnId("t_2")), ended(TurnId("t_2"))
    )

    facts = closing_facts(row, records, NOW)

    kinds = ["permission_answered", "tool_ended", "turn_ended"]
    assert [(fact.kind, fact.turn, fact.at) for fact in facts] == [(k, LOST, NOW) for k in kinds]
    assert facts[0].body["decision"] == "cancelled"
    assert facts[1].body["outcome"] == "interrupted"
    assert facts[2].body["outcome"] == "lost"


def test_the_end_of_a_lost_turn_has_its_text_usage_and_duration() -> None:
    records, row = history_of(
        began(), used(10), said("hel", continues=False), said("lo", continues=True), used(5),
        began(TurnId("t_2")), ended(TurnId("t_2")),
    )  # fmt: skip

    (end,) = closing_facts(row, records, NOW)

    assert (end.body["text"], end.body["messages"], end.body["seconds"]) == ("hello", 1, 4.0)
    assert end.body["usage"] == {"input_tokens": 15, "output_tokens": 2, "cost": 1.0}


def test_an_item_that_is_not_in_the_row_only_gets_its_end() -> None:
    records, row = history_of(began(), began(TurnId("t_2")), ended(TurnId("t_2")), STOPPED)

    after = folded(row, closing_facts(row, records, NOW))

    assert after.phase is Phase.STOPPED
    assert after.turns == row.turns


def test_a_turn_open_in_the_row_is_lost_as_after_a_restart() -> None:
    records, row = history_of(began(), called(), asked())

    facts = closing_facts(row, records, NOW, epoch=7)
    after = folded(row, facts)

    assert (after.phase, after.turn, after.epoch) == (Phase.RESTARTING, None, 7)
    assert [fact.kind for fact in facts if fact.turn == LOST] == [
        "session_changed", "permission_answered", "tool_ended", "turn_ended",
    ]  # fmt: skip


def test_a_clock_set_back_does_not_set_back_the_session() -> None:
    records, row = history_of(began())

    assert {fact.at for fact in closing_facts(row, records, -NOW)} == {row.updated_at}


def test_a_row_that_the_table_refuses_is_closed_by_its_records() -> None:
    records, row = history_of(began())
    broken = row.changed(phase=Phase.STOPPING)

    assert [fact.kind for fact in closing_facts(broken, records, NOW)] == ["turn_ended"]


def test_a_repair_starts_no_turn() -> None:
    waiting: Body = {"text": "t", "when_busy": "queue", "number": 1, "source": "user"}
    more: Body = {"generation": 0, "expires_at": None, "attachments": [], "replacement": False}
    accepted: Body = {"input_id": "in_2", **waiting, **more}
    records, row = history_of(
        began(), ("input_accepted", accepted, LOST), ("session_suspended", {}, LOST)
    )

    after = folded(row, closing_facts(row, records, NOW))

    assert (after.phase, after.turn, len(after.inputs)) == (Phase.SUSPENDED, None, 1)


# Closing random histories ----------------------------------------------------------------


def folded(row: SessionState, facts: Iterable[Fact]) -> SessionState:
    return functools.reduce(fold, facts, row)


def without_ends(records: Sequence[Record]) -> tuple[Record, ...]:
    """Return the records without those that end something."""
    kinds = ("turn_ended", "tool_ended", "permission_answered")
    facts = (record.fact for record in records if record.kind not in kinds)
    return number_facts(ONE, facts, after=0)


@given(histories, st.data(), st.booleans())
def test_a_repaired_session_has_no_open_item_and_a_matching_row(
    made: tuple[tuple[Record, ...], SessionState],
    data: st.DataObject,
    ends_were_lost: bool,  # noqa: FBT001 - drawn
) -> None:
    whole = without_ends(made[0]) if ends_were_lost else made[0]
    cut = whole[: data.draw(st.integers(1, len(whole)))]

    first = repair_records(
        ONE, as_raw(cut), folded_row(cut), at=NOW, last_seq=len(cut), dry_run=False
    )
    after = (*cut, *first.report.appended)
    row = first.row or folded_row(cut)
    second = repair_records(ONE, as_raw(after), row, at=NOW, last_seq=len(after), dry_run=False)

    assert row == folded_row(after)
    assert row.turn is None
    assert second.report.problems == ()
    assert second.report.appended == ()
    assert second.row is None


def test_the_histories_leave_every_kind_of_item_open() -> None:
    found = {
        (problem.code, problem.severity)
        for seed in range(SEEDS)
        for records in [random_history(seed)[0], without_ends(random_history(seed)[0])]
        for problem in examine(as_raw(records), folded_row(records))
    }

    assert found == {
        ("missing_terminal", "note"),
        ("missing_terminal", "warning"),
        ("dangling_tool_call", "warning"),
    }


# Refusals --------------------------------------------------------------------------------

ERROR = Problem("gap", "error", 3, "record 3 is missing")
WARNING = Problem("missing_terminal", "warning", 2, "turn t has no end")


def test_a_live_session_is_refused_even_with_force_and_dry_run() -> None:
    refused = repair_refusal(ONE, (), live=True, dry_run=True, force=True)

    assert isinstance(refused, RepairRefused)
    assert refused.code == "repair_refused"
    assert refused.hint.startswith("stop it first")


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("force", [True, False])
def test_errors_prevent_a_repair_without_force(
    dry_run: bool,  # noqa: FBT001 - parametrized
    force: bool,  # noqa: FBT001 - parametrized
) -> None:
    refused = repair_refusal(ONE, [ERROR, WARNING], live=False, dry_run=dry_run, force=force)

    assert (refused is not None) == (not dry_run and not force)
    assert repair_refusal(ONE, [WARNING], live=False, dry_run=dry_run, force=force) is None


def test_force_appends_the_possible_ends_to_records_with_errors() -> None:
    records, row = history_of(began(), called(), began(TurnId("t_2")), ended(TurnId("t_2")))
    raw = as_raw(records)
    raw[4] = attrs.evolve(raw[4], body="{")

    with pytest.raises(RepairRefused, match="1 errors"):
        repair_records(ONE, raw, row, at=NOW, last_seq=5, dry_run=False)
    mended = repair_records(ONE, raw, row, at=NOW, last_seq=5, dry_run=False, force=True)

    assert [(record.seq, record.kind, record.turn_id) for record in mended.report.appended] == [
        (6, "tool_ended", LOST), (7, "turn_ended", LOST), (8, "turn_ended", "t_2"),
    ]  # fmt: skip


def test_a_dry_run_reports_the_records_it_would_append() -> None:
    records, row = history_of(began(), began(TurnId("t_2")), ended(TurnId("t_2")))

    report = repair_records(ONE, as_raw(records), row, at=NOW, last_seq=4).report

    assert report.dry_run
    assert [record.kind for record in report.appended] == ["turn_ended"]


def test_a_session_without_a_row_gets_no_records() -> None:
    records, _ = history_of(began())

    mended = repair_records(
        ONE, as_raw(records), None, at=NOW, last_seq=2, dry_run=False, force=True
    )

    assert (mended.report.appended, mended.row) == ((), None)


# Random damage ---------------------------------------------------------------------------

sqlite_values = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(),
    st.binary(),
    st.sampled_from(["{}", "[" * 100_000, '{"turn_id": "t"}', *KINDS, ONE]),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
columns = ["session_id", "seq", "at", "turn_id", "kind", "body"]


def drop(raw: Raw, data: st.DataObject) -> None:
    del raw[data.draw(st.integers(0, len(raw) - 1))]


def double(raw: Raw, data: st.DataObject) -> None:
    raw.insert(data.draw(st.integers(0, len(raw))), data.draw(st.sampled_from(raw)))


def swap(raw: Raw, data: st.DataObject) -> None:
    places = st.integers(0, len(raw) - 1)
    one, other = data.draw(places), data.draw(places)
    raw[one], raw[other] = raw[other], raw[one]


def overwrite(raw: Raw, data: st.DataObject) -> None:
    place, column = data.draw(st.integers(0, len(raw) - 1)), data.draw(st.sampled_from(columns))
    raw[place] = attrs.evolve(raw[place], **{column: data.draw(sqlite_values)})


def cut_the_body(raw: Raw, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(raw) - 1))
    body = raw[place].body
    if isinstance(body, str):
        raw[place] = attrs.evolve(raw[place], body=body[: data.draw(st.integers(0, len(body)))])


def change_the_body(raw: Raw, data: st.DataObject) -> None:
    """Put another value into the body, at the top or one level below."""
    place = data.draw(st.integers(0, len(raw) - 1))
    try:
        body = inside = json.loads(raw[place].body)
        if isinstance(inside, dict) and data.draw(st.booleans()):
            inside = data.draw(st.sampled_from([*inside.values(), inside]))
        inside[data.draw(st.sampled_from(sorted(inside)))] = data.draw(json_values)
    except (TypeError, ValueError, RecursionError):
        return
    raw[place] = attrs.evolve(raw[place], body=json.dumps(body))


Attack: TypeAlias = Callable[[Raw, st.DataObject], None]
ATTACKS: list[Attack] = [drop, double, swap, overwrite, cut_the_body, change_the_body]


@given(histories, st.lists(st.sampled_from(ATTACKS), max_size=4), st.booleans(), st.data())
def test_a_forced_repair_closes_any_file_without_raising(
    made: tuple[tuple[Record, ...], SessionState],
    attacks: list[Attack],
    has_row: bool,  # noqa: FBT001 - drawn
    data: st.DataObject,
) -> None:
    raw = as_raw(made[0])
    for attack in attacks:
        if raw:
            attack(raw, data)
    raw = in_file_order(raw)

    mended = repair_records(
        ONE, raw, made[1] if has_row else None, at=NOW, last_seq=MAX_INT64 // 2, force=True
    )

    row = mended.row or made[1]
    again = in_file_order([*raw, *as_raw(mended.report.appended)])
    assert closing_facts(row, readable_records(again, ONE), NOW) == () or not has_row
    open_ends = {"missing_terminal", "dangling_tool_call"}
    assert not has_row or not open_ends & {p.code for p in examine(again, row)}


@given(st.lists(st.builds(RawRecord, st.integers(), *[sqlite_values] * 6), max_size=5))
def test_arbitrary_records_are_all_reported_without_raising(raw: Raw) -> None:
    problems = examine(raw, None)

    assert bool(problems) == bool(raw)
    assert all(problem.detail and problem.detail.isprintable() for problem in problems)


@given(histories, st.data())
def test_a_truncated_body_is_bad_json(
    made: tuple[tuple[Record, ...], SessionState], data: st.DataObject
) -> None:
    raw = as_raw(made[0])
    place = data.draw(st.integers(0, len(raw) - 1))
    length = data.draw(st.integers(0, len(raw[place].body) - 1))
    raw[place] = attrs.evolve(raw[place], body=raw[place].body[:length])

    assert ("bad_json", "error", place + 1) in codes(examine(raw, made[1]))
