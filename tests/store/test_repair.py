"""Repair: every planted fault is reported with its code, and open items are closed once."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.errors import RepairRefused
from supervisor.core.facts import Fact, fact_of, number_facts
from supervisor.core.fold import fold
from supervisor.core.ids import TurnId
from supervisor.core.limits import MAX_INT64
from supervisor.core.records import KINDS, Body, Record, RecordKind
from supervisor.core.state import Phase, SessionState
from supervisor.store.examine import Problem, examine, readable_records
from supervisor.store.port import RawRecord
from supervisor.store.repair import closing_facts, repair_records, repair_refusal
from tests.support.raw_histories import (
    LOST,
    SEEDS,
    Raw,
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
from tests.support.store_samples import ONE

NOW = 5000.0


def used(tokens: int) -> tuple[RecordKind, Body, TurnId]:
    return "usage", {"input_tokens": tokens, "output_tokens": 1, "cost": 0.5}, LOST


def said(text: str, *, continues: bool) -> tuple[RecordKind, Body, TurnId]:
    return "agent_text", {"text": text, "part": "p.1", "continues": continues}, LOST


STOPPED: tuple[RecordKind, Body, None] = (
    "session_stopped",
    {"reason": "user_cancelled", "detail": None, "failure": None},
    None,
)


# Open items -----------------------------------------------------------------------------


def test_a_turn_that_is_not_open_in_the_row_has_no_end() -> None:
    records, row = history_of(began(), began(TurnId("turn_2")), ended(TurnId("turn_2")))

    assert codes(examine(as_raw(records), row)) == [("missing_terminal", "warning", 2)]


def test_an_inactive_session_has_no_open_turn_for_any_row() -> None:
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


# Closing random histories ---------------------------------------------------------------


def folded(row: SessionState, facts: Iterable[Fact]) -> SessionState:
    return functools.reduce(fold, facts, row)


def without_ends(records: Sequence[Record]) -> tuple[Record, ...]:
    """Return the records without those that end something."""
    kinds = ("turn_ended", "tool_ended", "permission_answered")
    facts = (fact_of(record) for record in records if record.kind not in kinds)
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


# Refusals -------------------------------------------------------------------------------


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


# Random damage --------------------------------------------------------------------------


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
