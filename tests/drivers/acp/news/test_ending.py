"""How a turn went; see acp/news/ending.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.drivers.acp.news.ending import Did, Ended, judge_end

WORKED = Did(calls=1)


def test_a_turn_in_which_something_was_said_is_complete() -> None:
    assert judge_end("end_turn", said="done", did=Did()) == Ended("completed", "end_turn")


@pytest.mark.parametrize("did", [Did(calls=1), Did(thoughts=1), Did(plans=1)])
def test_a_turn_in_which_something_was_done_is_complete(did: Did) -> None:
    assert judge_end("end_turn", said="", did=did) == Ended("completed", "end_turn")


def test_a_turn_without_a_word_has_failed() -> None:
    ended = judge_end("end_turn", said=" \n", did=Did())

    assert ended == Ended("failed", "end_turn", "the agent ended its turn without a word")


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
def test_a_text_that_is_nothing_but_an_error_has_failed(said: str) -> None:
    ended = judge_end("end_turn", said=said, did=Did())

    assert ended == Ended("failed", "end_turn", said.strip())


def test_a_warning_before_an_error_does_not_hide_it() -> None:
    said = 'Warning: no metadata.\n\nWarning: old.\n\n{"type": "error", "error": {"code": 400}}'

    ended = judge_end("end_turn", said=said, did=Did())

    assert ended == Ended("failed", "end_turn", '{"type": "error", "error": {"code": 400}}')


def test_a_warning_before_an_answer_makes_no_error_of_it() -> None:
    said = "Warning: no metadata.\n\nHere you are."

    assert judge_end("end_turn", said=said, did=Did()).outcome == "completed"


def test_a_warning_alone_is_an_answer() -> None:
    assert judge_end("end_turn", said="Warning: hot.", did=Did()).outcome == "completed"


def test_one_that_says_of_itself_that_it_has_failed_is_believed() -> None:
    faulty = Did(calls=1, is_faulty=True)

    assert judge_end("end_turn", said="Warning: x.\n\nno more quota", did=faulty) == Ended(
        "failed", "end_turn", "no more quota"
    )
    assert judge_end("end_turn", said="", did=faulty).error == "the agent says that it has failed"


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
def test_a_text_about_an_error_is_none(said: str) -> None:
    assert judge_end("end_turn", said=said, did=Did()).outcome == "completed"


def test_an_error_after_work_is_what_the_agent_has_to_say() -> None:
    assert judge_end("end_turn", said="API Error: 400", did=WORKED).outcome == "completed"


def test_a_cancelled_turn_was_interrupted() -> None:
    assert judge_end("cancelled", said="half", did=Did()) == Ended("interrupted", "cancelled")


def test_a_refusal_is_no_success() -> None:
    assert judge_end("refusal", said="I will not", did=Did()) == Ended(
        "failed", "refusal", "the agent refused to go on"
    )


@pytest.mark.parametrize("reason", ["max_tokens", "max_turn_requests"])
def test_a_turn_that_came_to_a_limit_counts_as_far_as_it_goes(reason: str) -> None:
    assert judge_end(reason, said="half of it", did=Did()) == Ended("completed", reason)


@pytest.mark.parametrize("reason", ["tired", None, 5, "x" * 1000, ["end_turn"]])
def test_a_reason_that_nobody_knows_is_judged_by_what_was_said(reason: object) -> None:
    shown = "tired" if reason == "tired" else None

    assert judge_end(reason, said="done", did=Did()) == Ended("completed", shown)
    assert judge_end(reason, said="", did=Did()).outcome == "failed"


@given(st.text(st.characters()), st.text(st.characters()))
def test_every_end_is_judged(reason: str, said: str) -> None:
    ended = judge_end(reason, said=said, did=Did())

    assert (ended.outcome == "failed") == (ended.error is not None)


def test_a_stop_reason_is_text_that_nobody_obeys() -> None:
    ended = judge_end("\x1b[31mred", said="a word", did=Did())

    assert ended.stop_reason == "red"
