"""Repair: every planted fault is reported by its code, what was left open is closed, once."""

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

from supervisor.core.creation import Plan, create
from supervisor.core.facts import KINDS, Body, Fact, Kind
from supervisor.core.folds import fold
from supervisor.core.ids import TurnId
from supervisor.core.limits import LARGEST
from supervisor.core.records import Record, numbered, replay
from supervisor.core.session import Phase, Session
from supervisor.store.port import RawRecord
from supervisor.store.repair import (
    Problem,
    RepairRefused,
    closing,
    examine,
    mend,
    readable,
    refusal,
)
from supervisor.store.shapes import ANYTHING, SHAPES
from tests.store.cast import ONE, TWO, life

SEEDS = 60
NOW = 5000.0
Raw: TypeAlias = list[RawRecord]
LOST = TurnId("turn_lost")


def lying(records: Iterable[Record]) -> Raw:
    """The records as they lie in the file."""
    return [
        RawRecord(place, r.session_id, r.seq, r.at, r.turn_id, r.kind, json.dumps(r.body))
        for place, r in enumerate(records, 100)
    ]


def in_this_order(raw: Iterable[RawRecord]) -> Raw:
    return [attrs.evolve(one, position=place) for place, one in enumerate(raw)]


@functools.cache
def past(seed: int) -> tuple[tuple[Record, ...], Session]:
    facts = [fact for _, facts, _ in life(seed, 40) for fact in facts]
    records = numbered(ONE, facts, after=0)
    return records, sum_of(records)


def sum_of(records: Iterable[Record]) -> Session:
    session = replay(records)
    assert session is not None
    return session


def told(*facts: tuple[Kind, Body, TurnId | None]) -> tuple[tuple[Record, ...], Session]:
    """The records of a session in which this has happened, one a second; and its row."""
    _, born = create(ONE, Plan(agent="echo"), at=1.0)
    rest = (Fact(kind, at, body, turn) for at, (kind, body, turn) in enumerate(facts, 2))
    records = numbered(ONE, (*born, *rest), after=0)
    return records, sum_of(records)


def began(turn: TurnId = LOST) -> tuple[Kind, Body, TurnId]:
    return "turn_started", {"turn_id": turn, "input_id": "in_1", "source": "user"}, turn


def called(call: str = "c_1", turn: TurnId = LOST) -> tuple[Kind, Body, TurnId]:
    return "tool_call", {"call_id": call, "name": "bash", "input": {}, "cancellable": True}, turn


def asked(request: str = "r_1", turn: TurnId = LOST) -> tuple[Kind, Body, TurnId]:
    body: Body = {"tool": "bash", "question": "?", "input": None, "options": [], "asks": "person"}
    return "permission_asked", {"request_id": request, **body}, turn


def ended(turn: TurnId) -> tuple[Kind, Body, TurnId]:
    body = {"outcome": "completed", "stop_reason": None, "text": "", "error": None, "messages": 0}
    more: Body = {"zombie": False, "ladder_step": None, "usage": {}, "seconds": 1.0}
    return "turn_ended", {"turn_id": turn, **body, **more}, turn


def used(tokens: int) -> tuple[Kind, Body, TurnId]:
    return "usage", {"input_tokens": tokens, "output_tokens": 1, "cost": 0.5}, LOST


def said(text: str, *, continues: bool) -> tuple[Kind, Body, TurnId]:
    return "agent_text", {"text": text, "part": "p.1", "continues": continues}, LOST


STOPPED: tuple[Kind, Body, None] = (
    "session_stopped",
    {"reason": "user_cancelled", "detail": None, "failure": None},
    None,
)


def codes(problems: Iterable[Problem]) -> list[tuple[str, str, int | None]]:
    return [(problem.code, problem.severity, problem.seq) for problem in problems]


def bad(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.severity != "note"]


pasts = st.integers(0, SEEDS).map(past)


# Nothing wrong ---------------------------------------------------------------------------


@given(pasts, st.data())
def test_a_good_past_has_nothing_wrong_wherever_it_is_cut(
    made: tuple[tuple[Record, ...], Session], data: st.DataObject
) -> None:
    cut = made[0][: data.draw(st.integers(1, len(made[0])))]
    row = sum_of(cut)

    problems = examine(lying(cut), row)

    assert bad(problems) == []
    assert bool(problems) == (row.turn is not None)


def test_a_turn_that_the_row_has_open_is_only_noted() -> None:
    records, row = told(began(), called(), asked())

    (problem,) = examine(lying(records), row)

    assert codes([problem]) == [("missing_terminal", "note", 2)]
    assert "still open" in problem.detail


def test_where_nothing_is_nothing_is_wrong() -> None:
    assert examine([], None) == []


# Numbers ---------------------------------------------------------------------------------


@given(pasts, st.data())
def test_a_record_that_is_gone_is_a_gap(
    made: tuple[tuple[Record, ...], Session], data: st.DataObject
) -> None:
    records, row = made
    gone = data.draw(st.integers(0, len(records) - 2))

    problems = examine(lying(records[:gone] + records[gone + 1 :]), row)

    assert ("gap", "error", gone + 1) in codes(problems)
    assert {p.code for p in bad(problems)} <= {"gap", "missing_terminal", "dangling_tool_call"}


def test_neighbours_that_are_gone_are_one_gap() -> None:
    records, row = past(0)

    (problem,) = bad(examine(lying(records[:2] + records[5:]), row))

    assert codes([problem]) == [("gap", "error", 3)]
    assert problem.detail == "number 3 to 5 are missing"


@given(pasts, st.data())
def test_a_number_that_is_there_twice_is_a_duplicate(
    made: tuple[tuple[Record, ...], Session], data: st.DataObject
) -> None:
    raw = lying(made[0])
    again = data.draw(st.sampled_from(raw))
    place = data.draw(st.integers(0, len(raw)))

    problems = examine(in_this_order([*raw[:place], again, *raw[place:]]), made[1])

    assert ("duplicate", "error", again.seq) in codes(problems)
    assert {p.code for p in bad(problems)} <= {"duplicate", "regression"}


@given(pasts, st.data())
def test_a_number_behind_a_larger_one_is_a_regression_and_the_rest_is_read_in_order(
    made: tuple[tuple[Record, ...], Session], data: st.DataObject
) -> None:
    raw = lying(made[0])
    one = data.draw(st.integers(0, len(raw) - 2))
    other = data.draw(st.integers(one + 1, len(raw) - 1))
    raw[one], raw[other] = raw[other], raw[one]
    raw = in_this_order(raw)

    problems = bad(examine(raw, made[1]))

    assert {p.code for p in problems} == {"regression"}
    assert [p.seq for p in problems] == list(range(one + 1, other + 1))
    assert [record.seq for record in readable(raw)] == list(range(1, len(raw) + 1))


def test_an_earlier_time_is_no_regression() -> None:
    records, _ = told(began(), ended(LOST))
    late = (*records[:2], attrs.evolve(records[2], at=-1e9))

    assert examine(lying(late), sum_of(late)) == []


def test_a_gap_as_large_as_numbers_go_is_one_problem() -> None:
    records, row = told(began(), ended(LOST))
    raw = lying(records)
    raw[2] = attrs.evolve(raw[2], seq=LARGEST)

    assert codes(bad(examine(raw, row))) == [("gap", "error", 3)]


# What cannot be read ---------------------------------------------------------------------

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
def test_a_body_that_is_no_json_is_bad_json(body: object) -> None:
    records, row = told(began(), ended(LOST))
    raw = lying(records)
    raw[2] = attrs.evolve(raw[2], body=body)

    assert ("bad_json", "error", 3) in codes(examine(raw, row))


@pytest.mark.parametrize("body", ["[]", "null", '"text"', "5", b"[1]"])
def test_a_body_that_is_json_and_no_object_is_a_mismatch(body: object) -> None:
    records, row = told(began(), ended(LOST))
    raw = lying(records)
    raw[2] = attrs.evolve(raw[2], body=body)

    assert ("type_mismatch", "error", 3) in codes(examine(raw, row))


def test_a_body_that_lies_there_as_bytes_is_read_and_noted() -> None:
    records, row = told(began(), ended(LOST))
    raw = [attrs.evolve(one, body=one.body.encode()) for one in lying(records)]

    assert codes(examine(raw, row)) == [("type_mismatch", "note", seq) for seq in (1, 2, 3)]
    assert readable(raw) == records


WRONG_COLUMNS: list[tuple[str, list[Any]]] = [
    ("session_id", [None, 1, b"s_one", TWO, "\ud800"]),
    ("seq", [None, "3", 3.0, b"3", 0, -1, LARGEST + 1]),
    ("at", [None, "1.0", b"", math.inf, math.nan, 10**400]),
    ("turn_id", [1, 1.5, b"t", "\ud800"]),
    ("kind", [None, 1, b"usage", "", "foreign", "\ud800"]),
]


@pytest.mark.parametrize(
    ("column", "value"), [(column, value) for column, wrong in WRONG_COLUMNS for value in wrong]
)
def test_a_column_with_something_else_in_it_is_a_type_mismatch(column: str, value: object) -> None:
    records, row = told(began(), ended(LOST))
    raw = lying(records)
    changes: dict[str, Any] = {column: value}
    raw[2] = attrs.evolve(raw[2], **changes)

    problems = examine(raw, row)

    mismatch = next(p for p in problems if p.code == "type_mismatch")
    assert mismatch.severity == "error"
    assert mismatch.seq == (None if column == "seq" else 3)
    assert f"for a{'n' if column == 'at' else ''} {column}" in mismatch.detail
    assert mismatch.detail.isascii()


def test_every_kind_has_a_shape() -> None:
    assert set(SHAPES) == set(KINDS)


NEEDED = [(kind, name) for kind in KINDS for name in SHAPES[kind].needed]
EXAMPLES: dict[type, Any] = {str: "t", int: 1, float: 1.5, bool: True, list: [], dict: {}}


def example(kind: Kind) -> dict[str, Any]:
    """A body of that kind, as far as its outside goes."""
    return {
        name: next(EXAMPLES.get(type_) for type_ in types)
        for name, types in SHAPES[kind].needed.items()
    }


def faults_of(kind: Kind, body: Body) -> list[str]:
    records, row = told(began())
    one = Record(ONE, 3, 9.0, LOST, kind, body)
    found = examine([*lying(records), *in_this_order(lying([one]))], row)
    return [problem.detail for problem in found if problem.code == "type_mismatch"]


@pytest.mark.parametrize(("kind", "name"), NEEDED)
def test_a_body_without_a_field_that_its_kind_needs_is_a_type_mismatch(
    kind: Kind, name: str
) -> None:
    body = example(kind)
    del body[name]

    assert any(f"a {kind} without {name}" in fault for fault in faults_of(kind, body))


@pytest.mark.parametrize(("kind", "name"), NEEDED)
def test_a_field_of_another_type_is_a_type_mismatch(kind: Kind, name: str) -> None:
    types = SHAPES[kind].needed[name]
    wrong = [value for type_, value in EXAMPLES.items() if type_ not in types]

    for value in wrong:
        faults = faults_of(kind, {**example(kind), name: value})
        assert any(f"a {kind} whose {name} is" in fault for fault in faults)
    assert bool(wrong) == (types != ANYTHING)


INSIDE: list[tuple[Kind, Body]] = [
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
def test_what_folding_cannot_take_or_no_row_can_keep_is_a_type_mismatch(
    kind: Kind, body: Body
) -> None:
    waiting: Body = {
        **example("input_accepted"),
        "input_id": "in_1",
        "when_busy": "queue",
        "source": "user",
    }
    records, row = told(("input_accepted", waiting, None), began())
    one = Record(ONE, 4, 9.0, None, kind, body)

    problems = bad(examine(lying([*records, one]), row))

    assert codes(problems)[0] == ("type_mismatch", "error", 4)


def test_a_past_that_does_not_begin_with_its_beginning_is_a_type_mismatch() -> None:
    records, row = told(began())
    first = attrs.evolve(records[0], kind="session_started", body={})

    assert codes(bad(examine(lying([first]), row))) == [("type_mismatch", "error", 1)]


# The row ---------------------------------------------------------------------------------


def test_a_row_that_is_not_what_the_records_give_is_a_type_mismatch_that_names_the_fields() -> None:
    records, row = told(began(), ended(LOST))

    (problem,) = examine(lying(records), row.changed(turns=7, title="other"))

    assert codes([problem]) == [("type_mismatch", "error", None)]
    assert problem.detail == "the row is not what the records give: title, turns differ"


def test_records_without_a_row_and_a_row_without_records_are_errors() -> None:
    records, row = told()

    assert codes(examine(lying(records), None)) == [("type_mismatch", "error", None)]
    assert codes(examine([], row)) == [("gap", "error", 1)]


# What was left open ----------------------------------------------------------------------


def test_a_turn_that_the_row_does_not_have_open_has_no_end() -> None:
    records, row = told(began(), began(TurnId("turn_2")), ended(TurnId("turn_2")))

    assert codes(examine(lying(records), row)) == [("missing_terminal", "warning", 2)]


def test_a_session_at_rest_has_no_open_turn_whatever_its_row_says() -> None:
    records, row = told(began(), called(), STOPPED)

    assert row.turn is not None
    assert codes(examine(lying(records), row)) == [
        ("missing_terminal", "warning", 2),
        ("dangling_tool_call", "warning", 3),
    ]


def test_a_call_in_a_turn_that_is_over_dangles_and_a_request_was_never_answered() -> None:
    records, row = told(began(), called(), asked(), ended(LOST))

    assert codes(examine(lying(records), row)) == [
        ("dangling_tool_call", "warning", 3),
        ("missing_terminal", "warning", 4),
    ]


def test_the_end_of_a_call_in_one_turn_is_not_that_of_its_namesake_in_another() -> None:
    two = TurnId("turn_2")
    over: Body = {"call_id": "c_1", "name": "bash", "outcome": "completed", "result": None}
    records, row = told(
        began(), called(), ended(LOST), began(two), called(turn=two), ("tool_ended", over, two),
        ended(two),
    )  # fmt: skip

    assert codes(examine(lying(records), row)) == [("dangling_tool_call", "warning", 3)]


def test_a_lost_turn_is_ended_with_all_that_was_open_in_it_and_its_own_end_last() -> None:
    records, row = told(began(), called(), asked(), began(TurnId("t_2")), ended(TurnId("t_2")))

    facts = closing(row, records, NOW)

    kinds = ["permission_answered", "tool_ended", "turn_ended"]
    assert [(fact.kind, fact.turn, fact.at) for fact in facts] == [(k, LOST, NOW) for k in kinds]
    assert facts[0].body["decision"] == "cancelled"
    assert facts[1].body["outcome"] == "interrupted"
    assert facts[2].body["outcome"] == "lost"


def test_the_end_of_a_lost_turn_tells_what_was_said_and_spent_in_it_and_how_long_it_ran() -> None:
    records, row = told(
        began(), used(10), said("hel", continues=False), said("lo", continues=True), used(5),
        began(TurnId("t_2")), ended(TurnId("t_2")),
    )  # fmt: skip

    (end,) = closing(row, records, NOW)

    assert (end.body["text"], end.body["messages"], end.body["seconds"]) == ("hello", 1, 4.0)
    assert end.body["usage"] == {"input_tokens": 15, "output_tokens": 2, "cost": 1.0}


def test_what_the_row_no_longer_knows_gets_its_end_and_nothing_else_becomes_of_the_session() -> (
    None
):
    records, row = told(began(), began(TurnId("t_2")), ended(TurnId("t_2")), STOPPED)

    after = folded(row, closing(row, records, NOW))

    assert after.phase is Phase.STOPPED
    assert after.turns == row.turns


def test_a_turn_that_the_row_has_open_is_lost_as_after_a_restart_of_the_supervisor() -> None:
    records, row = told(began(), called(), asked())

    facts = closing(row, records, NOW, epoch=7)
    after = folded(row, facts)

    assert (after.phase, after.turn, after.epoch) == (Phase.RESTARTING, None, 7)
    assert [fact.kind for fact in facts if fact.turn == LOST] == [
        "session_changed", "permission_answered", "tool_ended", "turn_ended",
    ]  # fmt: skip


def test_a_clock_that_was_set_back_does_not_set_back_the_session() -> None:
    records, row = told(began())

    assert {fact.at for fact in closing(row, records, -NOW)} == {row.updated_at}


def test_a_row_that_the_table_cannot_take_is_closed_by_its_records() -> None:
    records, row = told(began())
    broken = row.changed(phase=Phase.STOPPING)

    assert [fact.kind for fact in closing(broken, records, NOW)] == ["turn_ended"]


def test_nothing_begins_because_something_was_closed() -> None:
    waiting: Body = {"text": "t", "when_busy": "queue", "number": 1, "source": "user"}
    more: Body = {"generation": 0, "expires_at": None, "attachments": [], "replacement": False}
    accepted: Body = {"input_id": "in_2", **waiting, **more}
    records, row = told(
        began(), ("input_accepted", accepted, LOST), ("session_suspended", {}, LOST)
    )

    after = folded(row, closing(row, records, NOW))

    assert (after.phase, after.turn, len(after.inputs)) == (Phase.SUSPENDED, None, 1)


# Closing, over many pasts ----------------------------------------------------------------


def folded(row: Session, facts: Iterable[Fact]) -> Session:
    return functools.reduce(fold, facts, row)


def without_ends(records: Sequence[Record]) -> tuple[Record, ...]:
    """As if nobody had ever written an end."""
    kinds = ("turn_ended", "tool_ended", "permission_answered")
    facts = (record.fact for record in records if record.kind not in kinds)
    return numbered(ONE, facts, after=0)


@given(pasts, st.data(), st.booleans())
def test_after_a_repair_nothing_is_open_and_the_row_is_still_what_the_records_give(
    made: tuple[tuple[Record, ...], Session],
    data: st.DataObject,
    ends_were_lost: bool,  # noqa: FBT001 - drawn
) -> None:
    whole = without_ends(made[0]) if ends_were_lost else made[0]
    cut = whole[: data.draw(st.integers(1, len(whole)))]

    first = mend(ONE, lying(cut), sum_of(cut), at=NOW, last_seq=len(cut), dry_run=False)
    after = (*cut, *first.report.appended)
    row = first.row or sum_of(cut)
    second = mend(ONE, lying(after), row, at=NOW, last_seq=len(after), dry_run=False)

    assert row == sum_of(after)
    assert row.turn is None
    assert second.report.problems == ()
    assert second.report.appended == ()
    assert second.row is None


def test_the_pasts_leave_everything_open_that_can_be() -> None:
    found = {
        (problem.code, problem.severity)
        for seed in range(SEEDS)
        for records in [past(seed)[0], without_ends(past(seed)[0])]
        for problem in examine(lying(records), sum_of(records))
    }

    assert found == {
        ("missing_terminal", "note"),
        ("missing_terminal", "warning"),
        ("dangling_tool_call", "warning"),
    }


# Whether it may be done ------------------------------------------------------------------

ERROR = Problem("gap", "error", 3, "number 3 is missing")
WARNING = Problem("missing_terminal", "warning", 2, "turn t has no end")


def test_a_session_at_work_is_refused_even_by_force_and_in_a_dry_run() -> None:
    refused = refusal(ONE, (), live=True, dry_run=True, force=True)

    assert isinstance(refused, RepairRefused)
    assert refused.code == "repair_refused"
    assert refused.hint.startswith("stop it first")


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("force", [True, False])
def test_errors_stand_in_the_way_of_a_repair_unless_it_is_forced(
    dry_run: bool,  # noqa: FBT001 - all four of them
    force: bool,  # noqa: FBT001 - likewise
) -> None:
    refused = refusal(ONE, [ERROR, WARNING], live=False, dry_run=dry_run, force=force)

    assert (refused is not None) == (not dry_run and not force)
    assert refusal(ONE, [WARNING], live=False, dry_run=dry_run, force=force) is None


def test_force_appends_what_it_can_to_records_with_errors() -> None:
    records, row = told(began(), called(), began(TurnId("t_2")), ended(TurnId("t_2")))
    raw = lying(records)
    raw[4] = attrs.evolve(raw[4], body="{")

    with pytest.raises(RepairRefused, match="1 errors"):
        mend(ONE, raw, row, at=NOW, last_seq=5, dry_run=False)
    mended = mend(ONE, raw, row, at=NOW, last_seq=5, dry_run=False, force=True)

    assert [(record.seq, record.kind, record.turn_id) for record in mended.report.appended] == [
        (6, "tool_ended", LOST), (7, "turn_ended", LOST), (8, "turn_ended", "t_2"),
    ]  # fmt: skip


def test_a_dry_run_tells_what_would_be_appended() -> None:
    records, row = told(began(), began(TurnId("t_2")), ended(TurnId("t_2")))

    report = mend(ONE, lying(records), row, at=NOW, last_seq=4).report

    assert report.dry_run
    assert [record.kind for record in report.appended] == ["turn_ended"]


def test_where_there_is_no_row_nothing_is_appended() -> None:
    records, _ = told(began())

    mended = mend(ONE, lying(records), None, at=NOW, last_seq=2, dry_run=False, force=True)

    assert (mended.report.appended, mended.row) == ((), None)


# Attacks ---------------------------------------------------------------------------------

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
    """Put something else inside it, at the top or one below."""
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


@given(pasts, st.lists(st.sampled_from(ATTACKS), max_size=4), st.booleans(), st.data())
def test_whatever_lies_in_the_file_a_forced_repair_closes_it_and_nothing_raises(
    made: tuple[tuple[Record, ...], Session],
    attacks: list[Attack],
    has_row: bool,  # noqa: FBT001 - drawn
    data: st.DataObject,
) -> None:
    raw = lying(made[0])
    for attack in attacks:
        if raw:
            attack(raw, data)
    raw = in_this_order(raw)

    mended = mend(ONE, raw, made[1] if has_row else None, at=NOW, last_seq=LARGEST // 2, force=True)

    row = mended.row or made[1]
    again = in_this_order([*raw, *lying(mended.report.appended)])
    assert closing(row, readable(again, ONE), NOW) == () or not has_row
    open_ends = {"missing_terminal", "dangling_tool_call"}
    assert not has_row or not open_ends & {p.code for p in examine(again, row)}


@given(st.lists(st.builds(RawRecord, st.integers(), *[sqlite_values] * 6), max_size=5))
def test_rubbish_is_all_reported_and_nothing_raises(raw: Raw) -> None:
    problems = examine(raw, None)

    assert bool(problems) == bool(raw)
    assert all(problem.detail and problem.detail.isprintable() for problem in problems)


@given(pasts, st.data())
def test_a_body_that_was_cut_short_is_bad_json(
    made: tuple[tuple[Record, ...], Session], data: st.DataObject
) -> None:
    raw = lying(made[0])
    place = data.draw(st.integers(0, len(raw) - 1))
    length = data.draw(st.integers(0, len(raw[place].body) - 1))
    raw[place] = attrs.evolve(raw[place], body=raw[place].body[:length])

    assert ("bad_json", "error", place + 1) in codes(examine(raw, made[1]))
