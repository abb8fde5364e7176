"""Transcripts: whole texts and calls, ordered by start."""

from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.facts import number_facts
from supervisor.core.records import Record, RecordKind
from supervisor.store.export.items import (
    CallItem,
    ChapterItem,
    NoteItem,
    PermissionItem,
    TextItem,
    TranscriptItem,
    TurnEndItem,
    TurnStartItem,
)
from supervisor.store.export.transcript import MAX_BUFFERED, transcript_items
from tests.support.export_samples import ONE, SampleHistory, records_of, rich
from tests.support.store_samples import random_session


def items_of(history: SampleHistory) -> list[TranscriptItem]:
    return list(transcript_items(records_of(history)))


def texts_of(history: SampleHistory) -> list[str]:
    return [item.text for item in items_of(history) if isinstance(item, TextItem)]


def notes_of(history: SampleHistory) -> list[tuple[str, str | None]]:
    return [(item.text, item.detail) for item in items_of(history) if isinstance(item, NoteItem)]


def note_one(kind: RecordKind, **body: Any) -> tuple[str, str | None]:  # noqa: ANN401 - a record's body
    history = SampleHistory()
    history.note(kind, **body)
    return notes_of(history)[0]


def test_a_text_in_parts_is_joined() -> None:
    history = SampleHistory()
    history.begin("hello")
    history.say("one ", "two ", "three")
    history.say("four")
    history.finish()

    assert texts_of(history) == ["hello", "one two three", "four"]


def test_a_record_inside_a_text_does_not_split_it() -> None:
    history = SampleHistory()
    history.begin("hello")
    history.say("one ")
    history.note("quiet", waits_for="model", detail=None, since=1.0, seconds=2.0)
    history.note("agent_text", text="two", part="p", continues=True)
    history.finish()

    items = items_of(history)

    assert texts_of(history) == ["hello", "one two"]
    assert [type(item) for item in items[2:4]] == [TextItem, NoteItem]


def test_a_continuation_of_another_kind_starts_a_new_text() -> None:
    history = SampleHistory()
    history.begin("hello")
    history.think("hm")
    history.note("agent_text", text="so", part="p", continues=True)

    assert texts_of(history) == ["hello", "hm", "so"]


def test_an_appended_text_is_complete() -> None:
    history = SampleHistory()
    history.note("agent_text", text="one", part=None)
    history.note("agent_text", text="two", part=None)

    assert texts_of(history) == ["one", "two"]


def test_parallel_calls_are_complete_and_ordered_by_start() -> None:
    history = SampleHistory()
    history.begin("go")
    for call in "ab":
        history.note("tool_call", call_id=call, name=call, input=None, cancellable=True)
    for call in "ba":
        history.note("tool_update", call_id=call, name=call, update="half")
        history.note("tool_ended", call_id=call, name=call, outcome="completed", result=call)
    history.finish()

    calls = [item for item in items_of(history) if isinstance(item, CallItem)]

    assert [(call.name, call.result, call.updates) for call in calls] == [
        ("a", "a", ["half"]),
        ("b", "b", ["half"]),
    ]


def test_a_tool_name_that_comes_late_replaces_the_title() -> None:
    history = SampleHistory()
    history.begin("go")
    history.note("tool_call", call_id="a", name="List files", input=None, cancellable=True)
    history.note("tool_update", call_id="a", name="List files", update={"name": "bash"})
    history.note("tool_ended", call_id="a", name="List files", outcome="completed", result="x")
    history.finish()

    (call,) = [item for item in items_of(history) if isinstance(item, CallItem)]

    assert call.name == "bash"


def test_an_unfinished_call_buffers_a_bounded_number_of_items() -> None:
    history = SampleHistory()
    history.begin("go")
    history.note("tool_call", call_id="c", name="slow", input=None, cancellable=True)
    for number in range(MAX_BUFFERED + 10):
        history.say(str(number))
    history.note("tool_ended", call_id="c", name="slow", outcome="completed", result="late")
    records = records_of(history)
    given_at = [
        len(list(transcript_items(records[:count]))) for count in (len(records) - 2, len(records))
    ]

    calls = [item for item in transcript_items(records) if isinstance(item, CallItem)]

    assert [call.outcome for call in calls] == [None]
    assert ("A tool call ended", "slow: completed: late") in notes_of(history)
    assert given_at[1] > given_at[0]


def test_an_open_turn_ends_with_its_usage_and_without_an_outcome() -> None:
    history = SampleHistory()
    history.begin("and then?")
    history.note("tool_call", call_id="c", name="slow", input=None, cancellable=True)
    history.note("usage", input_tokens=5, output_tokens=1, cost=0.5)
    history.note("usage", input_tokens=5, output_tokens=1, cost=0.5)

    *_, call, over = items_of(history)

    assert isinstance(call, CallItem)
    assert isinstance(over, TurnEndItem)
    assert over.outcome is None
    assert over.usage == {"input_tokens": 10, "output_tokens": 2, "cost": 1.0}


def test_a_permission_request_has_its_decision() -> None:
    questions = [item for item in transcript_items(rich()) if isinstance(item, PermissionItem)]

    assert [(item.tool, item.decision, item.by) for item in questions] == [
        ("edit", "allow_once", "person")
    ]


def test_a_question_has_its_answer() -> None:
    history = SampleHistory()
    asked = {"request_id": "req_1", "tool": "ask", "question": "which?", "input": None}
    history.note("permission_asked", **asked, options=[], asks="person", choices=["a"])
    answer = {"request_id": "req_1", "decision": "answered", "by": "person", "text": "b\nor c"}
    history.note("permission_answered", **answer)
    asking, answering = records_of(history)[-2:]
    asking = attrs.evolve(asking, body={**asking.body, "kind": "question"})

    (item,) = transcript_items([asking, answering])
    assert isinstance(item, PermissionItem)

    assert (item.title, item.answer, item.by) == ("Asked a question", "b\nor c", "person")


def test_chapters_are_numbered_from_one() -> None:
    assert [item.number for item in transcript_items(rich()) if isinstance(item, ChapterItem)] == [
        2
    ]


def test_turn_numbers_continue_over_chapters() -> None:
    assert [
        item.number for item in transcript_items(rich()) if isinstance(item, TurnStartItem)
    ] == [1, 2, 3]


def accepted(input_id: str, text: str) -> dict[str, Any]:
    body = {"input_id": input_id, "text": text, "when_busy": "queue", "number": 1}
    more = {"source": "user", "generation": 0, "expires_at": None}
    return {**body, **more, "attachments": [], "replacement": False}


def test_inputs_that_never_ran_are_shown_with_their_last_text() -> None:
    history = SampleHistory()
    for name in ("in_1", "in_2", "in_3"):
        history.note("input_accepted", **accepted(name, f"text of {name}"))
    history.note("input_changed", inputs={"in_2": {"text": "edited"}})
    history.note("input_settled", input_id="in_1", outcome="delivered", detail=None)
    history.note("input_settled", input_id="in_2", outcome="expired", detail=None)

    assert notes_of(history) == [
        ("An input expired and never ran", "edited"),
        ("An input waits", "text of in_3"),
    ]


def test_a_stop_note_has_the_reason() -> None:
    failure = {"kind": "process_exit", "detail": "exit code 1"}

    note = note_one("session_stopped", reason="agent_crashed", detail=None, failure=failure)

    assert note == ("The session stopped", "agent_crashed: exit code 1")


def test_a_stall_note_names_the_wait_of_the_agent() -> None:
    note = note_one("stalled", waits_for="tool", detail="bash", since=1.0, seconds=300.0)

    assert note == ("Stalled", "nothing for 5 min 0 s, waiting for tool (bash)")


def test_a_refused_child_note_has_the_limit() -> None:
    note = note_one(
        "spawn_refused", agent="tester", limit="max_children", used=5, allowed=5, detail="full"
    )

    assert note == ("A child was refused", "tester: max_children: full")


def test_an_unknown_kind_is_shown_as_it_is() -> None:
    record = Record(ONE, 1, 1.0, None, "compacted", {"cut": 5})  # type: ignore[arg-type]

    assert list(transcript_items([record])) == [NoteItem("compacted", 1.0, '{"cut": 5}')]


@given(st.integers(0, 2000))
def test_every_turn_of_a_history_starts_and_ends(seed: int) -> None:
    facts = [fact for _, some, _ in random_session(seed, 60) for fact in some]

    items = list(transcript_items(number_facts(ONE, facts, after=0)))

    marks = [type(item) for item in items if isinstance(item, TurnStartItem | TurnEndItem)]
    assert marks == [TurnStartItem, TurnEndItem] * (len(marks) // 2)
    said = [fact.body["text"] for fact in facts if fact.kind == "user_text"]
    assert said == [
        item.text for item in items if isinstance(item, TextItem) and item.role == "user"
    ]
    calls = sum(fact.kind == "tool_call" for fact in facts)
    assert calls == sum(isinstance(item, CallItem) for item in items)


KINDS: list[RecordKind] = [
    "tool_ended",
    "turn_ended",
    "permission_answered",
    "plan",
    "input_changed",
]


@given(st.lists(st.sampled_from(KINDS)), st.dictionaries(st.text(max_size=8), st.integers()))
def test_no_body_makes_the_transcript_fail(kinds: list[RecordKind], body: dict[str, int]) -> None:
    records = [Record(ONE, seq, 1.0, None, kind, body) for seq, kind in enumerate(kinds, 1)]

    list(transcript_items(records))
