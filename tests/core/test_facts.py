"""Facts with numbers: records inside the supervisor, and the same for readers outside."""

from __future__ import annotations

import attrs

from supervisor.core.facts import Fact, as_record, fact_of, number_facts, number_in_log
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.records import Record

ONE = SessionId("s_one")
TOLD = Fact("user_text", 1.0, {"text": "go", "part": None}, TurnId("t1"))
ENDED = Fact("session_started", 2.0, {})


def test_numbered_facts_continue_after_the_given_number() -> None:
    numbered = number_in_log(ONE, (TOLD, ENDED), after=4)

    assert [fact.seq for fact in numbered] == [5, 6]
    assert tuple(map(fact_of, numbered)) == (TOLD.changed(seq=5), ENDED.changed(seq=6))


def test_a_numbered_fact_has_the_fields_of_its_record() -> None:
    (numbered,) = number_in_log(ONE, (TOLD,), after=0)

    assert numbered.__struct_fields__ == tuple(field.name for field in attrs.fields(Record))
    assert as_record(numbered) == Record(ONE, 1, 1.0, TurnId("t1"), "user_text", TOLD.body)


def test_a_record_is_its_own_record() -> None:
    (record,) = number_facts(ONE, (TOLD,), after=0)

    assert as_record(record) is record
