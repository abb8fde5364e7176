"""ggcode's lines become turns."""

from typing import Any

import pytest

from supervisor.core.session import Phase, Usage
from supervisor.store.importing import ImportFailed, read
from supervisor.store.shapes import SHAPES
from tests.store.importing.cast import (
    NOON,
    NOON_AT,
    blocks,
    kinds_of,
    lines_of,
    read_ggcode,
    replayed,
    text,
)

META = {
    "type": "meta",
    "session_id": "20260311-abc",
    "title": "A parser",
    "workspace": "/srv/project",
    "vendor": "v",
    "endpoint": "e",
    "model": "m",
    "created_at": NOON,
}
ASK = blocks("user", text("hello"))
ANSWER = blocks("assistant", text("hi there"))
USE = {"type": "tool_use", "tool_id": "t1", "tool_name": "bash", "input": {"cmd": "ls"}}
RESULT = {"type": "tool_result", "tool_id": "t1", "tool_name": "bash", "output": "README"}


def usage(input_tokens: int, output_tokens: int, **more: int) -> dict[str, Any]:
    used = {"input_tokens": input_tokens, "output_tokens": output_tokens, **more}
    entry = {"timestamp": NOON, "turn_index": 0, "usage": used}
    return {"type": "usage", "session_id": "x", "usage_entry": entry}


def test_a_conversation_is_told_in_turns() -> None:
    imported = read_ggcode(
        META, ASK, blocks("assistant", text("I look"), USE), blocks("user", RESULT), ANSWER, ASK
    )

    assert kinds_of(imported) == [
        "turn_started",
        "user_text",
        "agent_text",
        "tool_call",
        "tool_ended",
        "agent_text",
        "turn_ended",
        "turn_started",
        "user_text",
        "turn_ended",
    ]
    assert imported.facts[4].body["result"] == "README"
    assert imported.facts[6].body["text"] == "I lookhi there"
    assert imported.facts[9].body["outcome"] == "lost"


def test_it_replays_to_an_idle_session_with_the_right_counts() -> None:
    session = replayed(read_ggcode(META, ASK, blocks("assistant", USE), usage(100, 5), ANSWER))

    assert session.phase is Phase.IDLE
    assert (session.turns, session.messages, session.tool_calls) == (1, 2, 1)
    assert session.usage == Usage(100, 5, 0.0)


def test_the_last_meta_counts_but_a_workspace_once_said_stays() -> None:
    later = {"type": "meta", "title": "Renamed", "session_id": "20260311-abc", "model": "n"}

    imported = read_ggcode(META, ASK, later)

    assert imported.title == "Renamed"
    assert imported.workspace == "/srv/project"
    assert imported.created_at == pytest.approx(NOON_AT)
    assert imported.custom == {
        "imported_from": "ggcode",
        "ggcode_session_id": "20260311-abc",
        "ggcode_model": "n",
    }


def test_a_file_without_a_meta_is_fine() -> None:
    imported = read_ggcode(ASK, ANSWER)

    assert imported.title is None
    assert imported.created_at is None
    assert imported.facts[0].at == pytest.approx(NOON_AT)


def test_a_result_that_is_an_error_is_a_failed_call() -> None:
    imported = read_ggcode(
        ASK, blocks("assistant", USE), blocks("user", {**RESULT, "is_error": True})
    )

    assert imported.facts[3].body["outcome"] == "failed"


def test_text_that_comes_with_results_was_steered_in() -> None:
    imported = read_ggcode(
        ASK, blocks("assistant", USE), blocks("user", RESULT, text("shorter")), ANSWER
    )

    assert kinds_of(imported)[3:5] == ["tool_ended", "user_text"]
    assert imported.facts[4].body["steered"] is True
    assert replayed(imported).turns == 1


def test_reasoning_is_a_thought() -> None:
    block = {**text("so"), "reasoning_content": "because"}

    imported = read_ggcode(ASK, blocks("assistant", block))

    assert kinds_of(imported)[2:4] == ["thought", "agent_text"]


def test_every_body_has_just_the_fields_of_its_kind() -> None:
    block = {**text("so"), "reasoning_content": "because"}
    for fact in read_ggcode(META, ASK, blocks("assistant", block, USE), usage(1, 1)).facts:
        assert fact.body.keys() - {"continues"} == SHAPES[fact.kind].needed.keys() - {"continues"}


def test_tokens_from_a_cache_count_too() -> None:
    imported = read_ggcode(ASK, usage(10, 5, prompt_tokens_total=900), ANSWER)

    assert imported.facts[-1].body["usage"]["input_tokens"] == 900


def test_messages_that_were_written_twice_are_told_once() -> None:
    asked = blocks("user", text("hello"), id="msg_1")

    imported = read_ggcode(asked, blocks("assistant", text("hi"), id="msg_2"), asked)

    assert replayed(imported).turns == 1
    assert imported.warnings == ("left out: a message that was there before (1)",)


def test_the_same_words_twice_without_an_id_are_two_messages() -> None:
    assert replayed(read_ggcode(ASK, ANSWER, ASK, ANSWER)).turns == 2


def test_a_summary_of_what_is_there_anyway_is_left_out() -> None:
    checkpoint = {"type": "checkpoint", "checkpoint_summary_msg_id": "msg_9"}
    summary = blocks("user", text("so far..."), id="msg_9")

    imported = read_ggcode(ASK, ANSWER, summary, checkpoint)

    assert replayed(imported).turns == 1
    assert imported.warnings == ("left out: a summary of earlier messages (1)",)


def test_what_has_no_place_here_is_said_to_be_left_out() -> None:
    picture = {"type": "image", "image_mime": "image/png", "image_data": "aa"}

    imported = read_ggcode(
        blocks("user", text("look"), picture), blocks("system", text("note")), {"type": "metric"}
    )

    assert imported.warnings == (
        "left out: image block of a user's message (1)",
        "left out: a message of the system (1)",
        "left out: a line of type metric (1)",
    )


def test_what_is_said_of_it_obeys_nobody_and_has_an_end() -> None:
    odd = [{"type": f"\x1b[31m{number}" + "long" * 1_000} for number in range(100)]

    imported = read_ggcode(blocks("user", text("look"), *odd))

    assert len(imported.warnings) == 21
    assert imported.warnings[-1] == "left out: other things (80)"
    assert all(len(one) < 150 and one.isprintable() for one in imported.warnings)


def test_a_last_line_that_breaks_off_is_a_warning() -> None:
    imported = read("ggcode", [*lines_of(META, ASK), '{"type":"message","mess'])

    assert len(imported.warnings) == 1


@pytest.mark.parametrize(
    "thing",
    [
        {},
        {"type": "novel"},
        {"type": 5},
        {"type": "message", "message": "hello"},
        {"type": "message"},
        blocks("wizard", text("x")),
        {"type": "message", "message": {"role": "user", "content": "hello"}},
        {"type": "message", "message": {"role": "user", "content": ["hello"]}},
        blocks("user", {"type": "text", "text": 5}),
        blocks("user", {"type": "tool_result", "output": {}}),
        blocks("user", {"type": "tool_result", "output": "", "is_error": "no"}),
        blocks("user", text("x"), id=5),
        {**META, "title": 5},
        {**META, "created_at": "yesterday"},
        {"type": "checkpoint", "checkpoint_summary_msg_id": []},
        {"type": "usage", "usage_entry": {"usage": {"input_tokens": "many"}}},
        {"role": "user", "content": "picoclaw's"},
    ],
)
def test_what_is_no_line_of_ggcode_is_refused_with_its_number(thing: dict[str, Any]) -> None:
    with pytest.raises(ImportFailed, match="line 2: ") as caught:
        read_ggcode(ASK, thing, ANSWER)

    assert caught.value.hint


@pytest.mark.parametrize("lines", [[], ["\n"], lines_of(META), ['{"type"']])
def test_a_file_without_a_message_is_refused(lines: list[str]) -> None:
    with pytest.raises(ImportFailed, match="no message"):
        read("ggcode", lines)


def test_numbers_beyond_measure_stay_at_the_largest_that_can_be_kept() -> None:
    session = replayed(read_ggcode(ASK, usage(2**63, 2**63), usage(2**63, 0), ANSWER))

    assert session.usage.input_tokens == 2**63 - 1
