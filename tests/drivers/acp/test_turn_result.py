"""Outcome of a turn; see acp/turn_result.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.drivers.acp.turn_result import TurnActivity, TurnEnd, classify_turn_end

WORKED = TurnActivity(calls=1)


def test_a_turn_with_text_is_completed() -> None:
    assert classify_turn_end("end_turn", text="done", activity=TurnActivity()) == TurnEnd(
        "completed", "end_turn"
    )


@pytest.mark.parametrize(
    "did", [TurnActivity(calls=1), TurnActivity(thoughts=1), TurnActivity(plans=1)]
)
def test_a_turn_with_activity_is_completed(did: TurnActivity) -> None:
    assert classify_turn_end("end_turn", text="", activity=did) == TurnEnd("completed", "end_turn")


def test_a_turn_without_output_has_failed() -> None:
    ended = classify_turn_end("end_turn", text=" \n", activity=TurnActivity())

    assert ended == TurnEnd("failed", "end_turn", "the agent ended its turn without output")


@pytest.mark.parametrize(
    "said",
    [
        'API Error: 400 {"type":"error","error":{"type":"invalid_request_error"}}',
        "API Error (429 Too Many Requests)",
        "Error: 500 Internal Server Error",
        "Error code: 400 - {'error': {'message': 'bad'}}",
        "Error: Error code: 400 - bad",
        "\u26a0\ufe0f API Error: 529 overloaded",
        "\n  unexpected status 400 Bad Request: {}",
        "exceeded retry limit, last status: 429 Too Many Requests",
        "stream disconnected before completion: the socket was closed",
        "Execution failed: Error: (400) the model is not there",
        '{"error": {"message": "no such model"}}',
        '{"type": "error", "error": {"message": "overloaded"}, "request_id": "r1"}',
    ],
)
def test_a_turn_with_only_an_error_text_has_failed(said: str) -> None:
    ended = classify_turn_end("end_turn", text=said, activity=TurnActivity())

    assert ended == TurnEnd("failed", "end_turn", said.strip())


def test_a_warning_before_an_error_does_not_hide_it() -> None:
    said = 'Warning: no metadata.\n\nWarning: old.\n\n{"type": "error", "error": {"code": 400}}'

    ended = classify_turn_end("end_turn", text=said, activity=TurnActivity())

    assert ended == TurnEnd("failed", "end_turn", '{"type": "error", "error": {"code": 400}}')


def test_a_warning_before_an_answer_is_not_an_error() -> None:
    said = "Warning: no metadata.\n\nHere you are."

    assert classify_turn_end("end_turn", text=said, activity=TurnActivity()).outcome == "completed"


def test_a_warning_alone_is_an_answer() -> None:
    assert (
        classify_turn_end("end_turn", text="Warning: hot.", activity=TurnActivity()).outcome
        == "completed"
    )


def test_a_failure_that_the_agent_reports_fails_the_turn() -> None:
    faulty = TurnActivity(calls=1, reported_failure=True)

    assert classify_turn_end(
        "end_turn", text="Warning: x.\n\nno more quota", activity=faulty
    ) == TurnEnd("failed", "end_turn", "no more quota")
    assert (
        classify_turn_end("end_turn", text="", activity=faulty).error
        == "the agent reported a failure"
    )


@pytest.mark.parametrize(
    "said",
    [
        "Error 404 means that the page is not there.",
        "API errors are handled in client.py",
        "API Error handling: three ways",
        "The server answered: Error: 500",
        '{"error": null, "result": 3}',
        '{"errors": []}',
        '{"error": "x", "also": "an answer"}',
        "{not json}",
        "400 lines were changed.",
        "Error: the file is not there",
        "Error: 500 " + "and a long story " * 400,
    ],
)
def test_a_text_about_an_error_is_not_an_error(said: str) -> None:
    assert classify_turn_end("end_turn", text=said, activity=TurnActivity()).outcome == "completed"


def test_an_error_text_after_tool_calls_is_an_answer() -> None:
    assert (
        classify_turn_end("end_turn", text="API Error: 400", activity=WORKED).outcome == "completed"
    )


def test_a_cancelled_turn_is_interrupted() -> None:
    assert classify_turn_end("cancelled", text="half", activity=TurnActivity()) == TurnEnd(
        "interrupted", "cancelled"
    )


def test_a_refusal_has_failed() -> None:
    assert classify_turn_end("refusal", text="I will not", activity=TurnActivity()) == TurnEnd(
        "failed", "refusal", "the agent refused to continue"
    )


@pytest.mark.parametrize("reason", ["max_tokens", "max_turn_requests"])
def test_a_turn_that_reached_a_limit_is_completed(reason: str) -> None:
    assert classify_turn_end(reason, text="half of it", activity=TurnActivity()) == TurnEnd(
        "completed", reason
    )


@pytest.mark.parametrize("reason", ["tired", None, 5, "x" * 1000, ["end_turn"]])
def test_an_unknown_stop_reason_is_judged_by_the_text(reason: object) -> None:
    shown = "tired" if reason == "tired" else None

    assert classify_turn_end(reason, text="done", activity=TurnActivity()) == TurnEnd(
        "completed", shown
    )
    assert classify_turn_end(reason, text="", activity=TurnActivity()).outcome == "failed"


@given(st.text(st.characters()), st.text(st.characters()))
def test_any_end_has_an_outcome(reason: str, said: str) -> None:
    ended = classify_turn_end(reason, text=said, activity=TurnActivity())

    assert (ended.outcome == "failed") == (ended.error is not None)


def test_control_characters_in_a_stop_reason_are_removed() -> None:
    ended = classify_turn_end("\x1b[31mred", text="a word", activity=TurnActivity())

    assert ended.stop_reason == "red"
