"""Import of picoclaw files."""

from typing import Any

import pytest

from supervisor.core.fold import fold
from supervisor.core.records import BODY_FIELDS
from supervisor.core.state import Phase
from supervisor.store.importing import ImportFailed, read_import
from tests.support.import_files import NOON, NOON_AT, kinds_of, lines_of, read_picoclaw, replayed

HELLO = {"role": "user", "content": "hello"}
HI = {"role": "assistant", "content": "hi there"}


def calling(*calls: tuple[str, str, str]) -> dict[str, Any]:
    functions = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": given}}
        for id_, name, given in calls
    ]
    return {"role": "assistant", "content": "", "tool_calls": functions}


def answering(call: str, result: str) -> dict[str, Any]:
    return {"role": "tool", "content": result, "tool_call_id": call}


SEARCH = (
    HELLO,
    {**calling(("c1", "search", '{"q": "jsonl"}')), "reasoning_content": "look it up"},
    answering("c1", "found"),
    {"role": "assistant", "content": "here it is"},
)


def test_a_question_and_an_answer_are_a_turn() -> None:
    imported = read_picoclaw(HELLO, HI)

    assert kinds_of(imported) == ["turn_started", "user_text", "agent_text", "turn_ended"]
    assert imported.facts[2].body["text"] == "hi there"
    assert imported.facts[3].body["text"] == "hi there"
    assert {fact.turn for fact in imported.facts} == {"imported_1"}


def test_an_import_replays_to_an_idle_session_with_the_right_counts() -> None:
    session = replayed(read_picoclaw(*SEARCH, HELLO, HI))

    assert session.phase is Phase.IDLE
    assert session.turn is None
    assert (session.turns, session.messages, session.tool_calls) == (2, 4, 1)
    assert session.title == "hello"


def test_thoughts_and_tool_calls_are_imported_in_order() -> None:
    imported = read_picoclaw(*SEARCH)

    assert kinds_of(imported)[2:] == [
        "thought",
        "tool_call",
        "tool_ended",
        "agent_text",
        "turn_ended",
    ]
    call, end = imported.facts[3].body, imported.facts[4].body
    assert (call["name"], call["input"]) == ("search", {"q": "jsonl"})
    assert (end["call_id"], end["result"]) == (call["call_id"], "found")
    assert end["outcome"] == "completed"


def test_every_body_has_exactly_the_fields_of_its_kind() -> None:
    for fact in read_picoclaw(*SEARCH).facts:
        assert fact.body.keys() - {"continues"} == BODY_FIELDS[fact.kind].required.keys() - {
            "continues"
        }


def test_arguments_that_are_not_json_are_kept_as_text() -> None:
    imported = read_picoclaw(HELLO, calling(("c1", "bash", "{oops"), ("c2", "bash", "[1]")))

    given = [fact.body["input"] for fact in imported.facts if fact.kind == "tool_call"]
    assert given == [{"arguments": "{oops"}, {"arguments": [1]}]


def test_calls_with_the_same_id_are_kept_apart() -> None:
    same = calling(("c", "one", ""), ("c", "two", ""))

    imported = read_picoclaw(HELLO, same, answering("c", "1"), answering("c", "2"))

    ends = [fact.body for fact in imported.facts if fact.kind == "tool_ended"]
    assert [(end["name"], end["result"]) for end in ends] == [("one", "1"), ("two", "2")]
    assert len({end["call_id"] for end in ends}) == 2


def test_a_call_without_a_result_is_interrupted() -> None:
    imported = read_picoclaw(HELLO, calling(("c1", "bash", "")), HELLO)

    assert kinds_of(imported)[2:5] == ["tool_call", "tool_ended", "turn_ended"]
    assert imported.facts[3].body["outcome"] == "interrupted"


def test_a_result_without_a_call_is_kept() -> None:
    imported = read_picoclaw(answering("c9", "late"))

    assert kinds_of(imported) == ["turn_started", "tool_call", "tool_ended", "turn_ended"]
    assert imported.facts[2].body["result"] == "late"


def test_an_unanswered_question_is_a_lost_turn() -> None:
    imported = read_picoclaw(HELLO, HELLO, HI)

    outcomes = [fact.body["outcome"] for fact in imported.facts if fact.kind == "turn_ended"]
    assert outcomes == ["lost", "completed"]


def test_an_agent_that_speaks_first_gets_its_own_turn() -> None:
    imported = read_picoclaw(HI, HELLO, HI)

    assert kinds_of(imported)[:3] == ["turn_started", "agent_text", "turn_ended"]
    assert replayed(imported).turns == 2


def test_the_meta_file_sets_the_creation_time_and_custom_data() -> None:
    meta = {"key": "telegram:1", "summary": "we spoke", "skip": 1, "created_at": NOON}

    imported = read_picoclaw(HELLO, HI, meta=meta)

    assert imported.created_at == pytest.approx(NOON_AT)
    assert imported.custom == {
        "imported_from": "picoclaw",
        "picoclaw_key": "telegram:1",
        "picoclaw_summary": "we spoke",
    }
    assert {fact.at for fact in imported.facts} == {imported.created_at}
    assert any("no longer sent to the model" in warning for warning in imported.warnings)


def test_a_file_without_meta_uses_the_given_time_or_message_times() -> None:
    imported = read_picoclaw(HELLO, {**HI, "created_at": NOON}, HELLO, at=5.0)

    assert imported.created_at is None
    times = [fact.at for fact in imported.facts]
    assert times == sorted(times)
    assert times[0] == 5.0
    assert times[-1] == pytest.approx(NOON_AT)


def test_a_zero_time_is_none() -> None:
    imported = read_picoclaw(HELLO, meta={"created_at": "0001-01-01T00:00:00Z"})

    assert imported.created_at is None


def test_a_skipped_entry_is_a_warning() -> None:
    picture = {"role": "user", "content": "look", "media": ["data:"], "model_name": "x"}

    imported = read_picoclaw({"role": "system", "content": "be nice"}, picture)

    assert imported.warnings == (
        "left out: a system message (1)",
        "left out: media of a message (1)",
    )


def test_the_text_of_parts_is_used_when_there_is_no_content() -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "x"}}]

    imported = read_picoclaw({"role": "user", "content": "", "content_parts": parts})

    assert imported.facts[1].body["text"] == "see"


def test_a_truncated_last_line_is_a_warning() -> None:
    imported = read_import("picoclaw", [*lines_of(HELLO), '{"role":"user","content":"incomple'])

    assert len(imported.warnings) == 1
    assert replayed(imported).turns == 1


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": "user", "content": 5},
        {"role": "user", "content": ["x"]},
        {"role": ["user"]},
        {"role": "wizard", "content": "x"},
        {"role": "assistant", "tool_calls": {}},
        {"role": "assistant", "tool_calls": ["c1"]},
        {"role": "assistant", "tool_calls": [{"id": 5}]},
        {"role": "assistant", "tool_calls": [{"function": "f"}]},
        {"role": "user", "content": "x", "created_at": "yesterday"},
        {"role": "user", "content": "x", "created_at": 5},
        {"type": "meta", "session_id": "x"},
    ],
)
def test_an_invalid_message_is_refused_with_its_line(message: dict[str, Any]) -> None:
    with pytest.raises(ImportFailed, match="line 2: ") as caught:
        read_picoclaw(HELLO, message, HI)

    assert caught.value.hint


@pytest.mark.parametrize("lines", [[], ["\n"], ['{"role"']])
def test_a_file_without_a_message_is_refused(lines: list[str]) -> None:
    with pytest.raises(ImportFailed, match="no message"):
        read_import("picoclaw", lines)


@pytest.mark.parametrize("meta", ["{", "[]", '{"skip": "1"}', '{"key": 5}', '{"created_at": "?"}'])
def test_a_bad_meta_file_is_refused(meta: str) -> None:
    with pytest.raises(ImportFailed):
        read_import("picoclaw", lines_of(HELLO), meta=meta)


def test_folding_step_by_step_never_leaves_two_turns_open() -> None:
    imported = read_picoclaw(*SEARCH, HI, HELLO)
    session = replayed(read_picoclaw(HELLO))

    for fact in imported.facts:
        assert not (fact.kind == "turn_started" and session.turn is not None)
        session = fold(session, fact)

    assert session.turn is None
