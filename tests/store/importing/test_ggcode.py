"""Import of ggcode files."""

from typing import Any

import pytest

from supervisor.core.records import BODY_FIELDS
from supervisor.core.state import Phase, Usage
from supervisor.store.importing import ImportFailed, read_import
from tests.support.import_files import (
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


def test_a_conversation_becomes_turns() -> None:
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


def test_an_import_replays_to_an_idle_session_with_the_right_counts() -> None:
    session = replayed(read_ggcode(META, ASK, blocks("assistant", USE), usage(100, 5), ANSWER))

    assert session.phase is Phase.IDLE
    assert (session.turns, session.messages, session.tool_calls) == (1, 2, 1)
    assert session.usage == Usage(100, 5, 0.0)


def test_the_last_meta_counts_and_an_earlier_workspace_is_kept() -> None:
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


def test_a_file_without_a_meta_is_imported() -> None:
    imported = read_ggcode(ASK, ANSWER)

    assert imported.title is None
    assert imported.created_at is None
    assert imported.facts[0].at == pytest.approx(NOON_AT)


def test_an_error_result_is_a_failed_call() -> None:
    imported = read_ggcode(
        ASK, blocks("assistant", USE), blocks("user", {**RESULT, "is_error": True})
    )

    assert imported.facts[3].body["outcome"] == "failed"


def test_a_text_with_tool_results_is_steering() -> None:
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


def test_every_body_has_exactly_the_fields_of_its_kind() -> None:
    block = {**text("so"), "reasoning_content": "because"}
    for fact in read_ggcode(META, ASK, blocks("assistant", block, USE), usage(1, 1)).facts:
        assert fact.body.keys() - {"continues"} == BODY_FIELDS[fact.kind].required.keys() - {
            "continues"
        }


def test_tokens_from_a_cache_are_counted() -> None:
    imported = read_ggcode(ASK, usage(10, 5, prompt_tokens_total=900), ANSWER)

    assert imported.facts[-1].body["usage"]["input_tokens"] == 900


def test_a_repeated_message_is_imported_once() -> None:
    asked = blocks("user", text("hello"), id="msg_1")

    imported = read_ggcode(asked, blocks("assistant", text("hi"), id="msg_2"), asked)

    assert replayed(imported).turns == 1
    assert imported.warnings == ("left out: a repeated message (1)",)


def test_equal_messages_without_an_id_are_both_imported() -> None:
    assert replayed(read_ggcode(ASK, ANSWER, ASK, ANSWER)).turns == 2


def test_a_summary_of_other_messages_is_left_out() -> None:
    checkpoint = {"type": "checkpoint", "checkpoint_summary_msg_id": "msg_9"}
    summary = blocks("user", text("so far..."), id="msg_9")

    imported = read_ggcode(ASK, ANSWER, summary, checkpoint)

    assert replayed(imported).turns == 1
    assert imported.warnings == ("left out: a summary of earlier messages (1)",)


def test_a_skipped_entry_is_a_warning() -> None:
    picture = {"type": "image", "image_mime": "image/png", "image_data": "aa"}

    imported = read_ggcode(
        blocks("user", text("look"), picture), blocks("system", text("note")), {"type": "metric"}
    )

    assert imported.warnings == (
        "left out: image block of a user's message (1)",
        "left out: a system message (1)",
        "left out: a line of type metric (1)",
    )


def test_warnings_are_escaped_and_bounded() -> None:
    odd = [{"type": f"\x1b[31m{number}" + "long" * 1_000} for number in range(100)]

    imported = read_ggcode(blocks("user", text("look"), *odd))

    assert len(imported.warnings) == 21
    assert imported.warnings[-1] == "left out: other things (80)"
    assert all(len(one) < 150 and one.isprintable() for one in imported.warnings)


def test_a_truncated_last_line_is_a_warning() -> None:
    imported = read_import("ggcode", [*lines_of(META, ASK), '{"type":"message","mess'])

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
def test_an_invalid_line_is_refused_with_its_number(thing: dict[str, Any]) -> None:
    with pytest.raises(ImportFailed, match="line 2: ") as caught:
        read_ggcode(ASK, thing, ANSWER)

    assert caught.value.hint


@pytest.mark.parametrize("lines", [[], ["\n"], lines_of(META), ['{"type"']])
def test_a_file_without_a_message_is_refused(lines: list[str]) -> None:
    with pytest.raises(ImportFailed, match="no message"):
        read_import("ggcode", lines)


def test_too_large_numbers_are_capped() -> None:
    session = replayed(read_ggcode(ASK, usage(2**63, 2**63), usage(2**63, 0), ANSWER))

    assert session.usage.input_tokens == 2**63 - 1
