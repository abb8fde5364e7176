"""What a person reads of records: whole texts, whole calls, in the order of their beginnings."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.facts import Kind
from supervisor.core.records import Record, numbered
from supervisor.store.exporting.items import (
    Call,
    ChapterBegan,
    Item,
    Note,
    Question,
    Text,
    TurnBegan,
    TurnOver,
)
from supervisor.store.exporting.story import MAX_HELD, tell
from tests.store.cast import life
from tests.store.exporting.cast import ONE, Told, records_of, rich


def items_of(told: Told) -> list[Item]:
    return list(tell(records_of(told)))


def texts_of(told: Told) -> list[str]:
    return [item.text for item in items_of(told) if isinstance(item, Text)]


def notes_of(told: Told) -> list[tuple[str, str | None]]:
    return [(item.what, item.detail) for item in items_of(told) if isinstance(item, Note)]


def note_one(kind: Kind, **body: Any) -> tuple[str, str | None]:  # noqa: ANN401 - a record's body
    told = Told()
    told.note(kind, **body)
    return notes_of(told)[0]


def test_text_in_parts_is_whole_again() -> None:
    told = Told()
    told.begin("hello")
    told.say("one ", "two ", "three")
    told.say("four")
    told.finish()

    assert texts_of(told) == ["hello", "one two three", "four"]


def test_what_comes_in_the_middle_of_a_text_does_not_cut_it() -> None:
    told = Told()
    told.begin("hello")
    told.say("one ")
    told.note("quiet", waits_for="model", detail=None, since=1.0, seconds=2.0)
    told.note("agent_text", text="two", part="p", continues=True)
    told.finish()

    items = items_of(told)

    assert texts_of(told) == ["hello", "one two"]
    assert [type(item) for item in items[2:4]] == [Text, Note]


def test_what_says_that_it_continues_something_else_does_not() -> None:
    told = Told()
    told.begin("hello")
    told.think("hm")
    told.note("agent_text", text="so", part="p", continues=True)

    assert texts_of(told) == ["hello", "hm", "so"]


def test_appended_text_is_whole() -> None:
    told = Told()
    told.note("agent_text", text="one", part=None)
    told.note("agent_text", text="two", part=None)

    assert texts_of(told) == ["one", "two"]


def test_calls_side_by_side_are_whole_and_in_the_order_of_their_beginnings() -> None:
    told = Told()
    told.begin("go")
    for call in "ab":
        told.note("tool_call", call_id=call, name=call, input=None, cancellable=True)
    for call in "ba":
        told.note("tool_update", call_id=call, name=call, update="half")
        told.note("tool_ended", call_id=call, name=call, outcome="completed", result=call)
    told.finish()

    calls = [item for item in items_of(told) if isinstance(item, Call)]

    assert [(call.name, call.result, call.updates) for call in calls] == [
        ("a", "a", ["half"]),
        ("b", "b", ["half"]),
    ]


def test_a_call_that_never_ends_holds_up_only_so_much() -> None:
    told = Told()
    told.begin("go")
    told.note("tool_call", call_id="c", name="slow", input=None, cancellable=True)
    for number in range(MAX_HELD + 10):
        told.say(str(number))
    told.note("tool_ended", call_id="c", name="slow", outcome="completed", result="late")
    records = records_of(told)
    given_at = [len(list(tell(records[:count]))) for count in (len(records) - 2, len(records))]

    calls = [item for item in tell(records) if isinstance(item, Call)]

    assert [call.outcome for call in calls] == [None]
    assert ("A tool call ended", "slow: completed: late") in notes_of(told)
    assert given_at[1] > given_at[0]


def test_an_open_turn_ends_without_an_outcome_and_with_what_it_has_spent() -> None:
    told = Told()
    told.begin("and then?")
    told.note("tool_call", call_id="c", name="slow", input=None, cancellable=True)
    told.note("usage", input_tokens=5, output_tokens=1, cost=0.5)
    told.note("usage", input_tokens=5, output_tokens=1, cost=0.5)

    *_, call, over = items_of(told)

    assert isinstance(call, Call)
    assert isinstance(over, TurnOver)
    assert over.outcome is None
    assert over.usage == {"input_tokens": 10, "output_tokens": 2, "cost": 1.0}


def test_a_question_has_its_answer() -> None:
    questions = [item for item in tell(rich()) if isinstance(item, Question)]

    assert [(item.tool, item.decision, item.by) for item in questions] == [
        ("edit", "allow_once", "person")
    ]


def test_chapters_are_counted_from_one() -> None:
    assert [item.number for item in tell(rich()) if isinstance(item, ChapterBegan)] == [2]


def test_turns_are_counted_on_over_chapters() -> None:
    assert [item.number for item in tell(rich()) if isinstance(item, TurnBegan)] == [1, 2, 3]


def accepted(input_id: str, text: str) -> dict[str, Any]:
    body = {"input_id": input_id, "text": text, "when_busy": "queue", "number": 1}
    more = {"source": "user", "generation": 0, "expires_at": None}
    return {**body, **more, "attachments": [], "replacement": False}


def test_inputs_that_never_ran_are_told_with_their_last_text() -> None:
    told = Told()
    for name in ("in_1", "in_2", "in_3"):
        told.note("input_accepted", **accepted(name, f"text of {name}"))
    told.note("input_changed", inputs={"in_2": {"text": "edited"}})
    told.note("input_settled", input_id="in_1", outcome="delivered", detail=None)
    told.note("input_settled", input_id="in_2", outcome="expired", detail=None)

    assert notes_of(told) == [
        ("An input expired and never ran", "edited"),
        ("An input waits", "text of in_3"),
    ]


def test_a_stop_says_why() -> None:
    failure = {"kind": "process_exit", "detail": "exit code 1"}

    note = note_one("session_stopped", reason="agent_crashed", detail=None, failure=failure)

    assert note == ("The session stopped", "agent_crashed: exit code 1")


def test_a_stall_says_what_it_waits_for() -> None:
    note = note_one("stalled", waits_for="tool", detail="bash", since=1.0, seconds=300.0)

    assert note == ("Stalled", "nothing for 5 min 0 s, waiting for tool (bash)")


def test_a_child_that_was_refused_says_by_which_limit() -> None:
    note = note_one(
        "spawn_refused", agent="tester", limit="max_children", used=5, allowed=5, detail="full"
    )

    assert note == ("A child was refused", "tester: max_children: full")


def test_a_kind_that_is_not_known_yet_is_shown_as_it_is() -> None:
    record = Record(ONE, 1, 1.0, None, "compacted", {"cut": 5})  # type: ignore[arg-type]

    assert list(tell([record])) == [Note("compacted", 1.0, '{"cut": 5}')]


@given(st.integers(0, 2000))
def test_every_turn_of_a_life_begins_and_ends(seed: int) -> None:
    facts = [fact for _, some, _ in life(seed, 60) for fact in some]

    items = list(tell(numbered(ONE, facts, after=0)))

    marks = [type(item) for item in items if isinstance(item, TurnBegan | TurnOver)]
    assert marks == [TurnBegan, TurnOver] * (len(marks) // 2)
    said = [fact.body["text"] for fact in facts if fact.kind == "user_text"]
    assert said == [item.text for item in items if isinstance(item, Text) and item.who == "user"]
    calls = sum(fact.kind == "tool_call" for fact in facts)
    assert calls == sum(isinstance(item, Call) for item in items)


KINDS: list[Kind] = ["tool_ended", "turn_ended", "permission_answered", "plan", "input_changed"]


@given(st.lists(st.sampled_from(KINDS)), st.dictionaries(st.text(max_size=8), st.integers()))
def test_no_body_can_make_it_fail(kinds: list[Kind], body: dict[str, int]) -> None:
    records = [Record(ONE, seq, 1.0, None, kind, body) for seq, kind in enumerate(kinds, 1)]

    list(tell(records))
