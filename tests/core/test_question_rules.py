"""Rules for questions that agents ask people."""
# ruff: noqa: ANN401 - the words of an event are passed on as they are

from typing import Any, get_args

import attrs
import pytest

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.attention import attention_of
from supervisor.core.effects import CloseQuestion, SetRequestTimer, SetTimer
from supervisor.core.errors import (
    InputRefused,
    InputTooLarge,
    InvalidDecision,
    NotRunning,
    PermissionNotFound,
)
from supervisor.core.ids import RequestId
from supervisor.core.permissions import Mode, Permissions
from supervisor.core.rules.questions import MAX_CHOICES, MAX_OPEN_QUESTIONS
from supervisor.core.session_values import PermissionRule
from supervisor.core.step import Accepted
from tests.support.core_session import CoreSession, busy


def ask(play: CoreSession, name: str = "q1", question: str = "which?", **words: Any) -> None:
    play.tell(ev.QuestionAsked, turn="turn_2", question_id=name, question=question, **words)


def asking(**words: Any) -> CoreSession:
    play = busy()
    ask(play, **words)
    return play


def open_ids(play: CoreSession) -> list[str]:
    return [one.id for one in play.session.turn.requests] if play.session.turn else []


def test_a_question_waits_for_the_text_of_a_person() -> None:
    play = asking(choices=("this", "that"))
    assert play.last.reply == Accepted(RequestId("q1"))
    assert open_ids(play) == ["q1"]

    play.tell(ev.QuestionAnswered, request="q1", text="neither")

    assert open_ids(play) == []
    body = play.last.facts[0].body
    said = (body["request_id"], body["decision"], body["by"], body["text"])
    assert said == ("q1", "answered", "person", "neither")
    assert play.last.effects == (
        CloseQuestion(RequestId("q1")),
        SetTimer("silence", play.session.terms.quiet_after_seconds),
    )


@pytest.mark.parametrize("mode", get_args(Mode))
def test_no_mode_no_rule_and_no_right_decides_a_question(mode: Mode) -> None:
    play = busy()
    rules = tuple(PermissionRule(RequestId(d), "ask", d) for d in ("allow_always", "reject_always"))
    permissions = Permissions(tools=[], mode=mode)
    play.session = attrs.evolve(play.session, permissions=permissions, rules=rules)

    ask(play)

    assert open_ids(play) == ["q1"]


def test_the_same_question_again_is_the_same_request() -> None:
    play = asking(choices=("this",))

    ask(play, "q2", choices=("this",))
    assert play.last.reply == Accepted(RequestId("q1"))
    assert not play.last.facts
    ask(play, "q3")

    assert open_ids(play) == ["q1", "q3"]


def test_an_open_question_needs_attention_as_a_question() -> None:
    play = asking()

    assert [(item.kind, item.detail) for item in attention_of(play.session)] == [
        ("question", "which?")
    ]


def test_a_decision_is_no_answer_to_a_question_nor_a_text_to_a_permission_request() -> None:
    play = asking()
    play.tell(
        agent_events.PermissionAsked, turn="turn_2", request="r1", tool="bash", question="may I?"
    )

    play.tell(ev.RequestAnswered, request="q1", decision="allow_once")
    assert isinstance(play.refusal(), InvalidDecision)
    play.tell(ev.QuestionAnswered, request="r1", text="yes")
    assert isinstance(play.refusal(), InvalidDecision)
    play.tell(ev.QuestionAnswered, request="gone", text="yes")
    assert isinstance(play.refusal(), PermissionNotFound)
    assert open_ids(play) == ["q1", "r1"]


@pytest.mark.parametrize(
    ("text", "error"),
    [(" ", InputRefused), ("\ud800", InputRefused), ("x" * 70_000, InputTooLarge)],
)
def test_an_answer_that_is_no_text_is_refused(text: str, error: type[Exception]) -> None:
    play = asking()

    play.tell(ev.QuestionAnswered, request="q1", text=text)

    assert isinstance(play.refusal(), error)
    assert open_ids(play) == ["q1"]


@pytest.mark.parametrize(
    "words",
    [
        {"question": " "},
        {"question": "x" * 70_000},
        {"choices": (" ",)},
        {"choices": ("x" * 1_001,)},
        {"choices": ("x",) * (MAX_CHOICES + 1)},
    ],
)
def test_a_question_that_cannot_be_shown_is_refused(words: dict[str, Any]) -> None:
    play = asking(**words)

    assert isinstance(play.refusal(), InputRefused | InputTooLarge)
    assert open_ids(play) == []


def test_the_number_of_open_questions_is_bounded() -> None:
    play = busy()
    for number in range(MAX_OPEN_QUESTIONS):
        ask(play, f"q{number}", f"question {number}")

    ask(play, "more", "one more")

    assert isinstance(play.refusal(), InputRefused)
    assert len(open_ids(play)) == MAX_OPEN_QUESTIONS


def test_a_question_of_another_turn_and_of_an_interrupted_one_is_refused() -> None:
    play = busy()
    play.tell(ev.QuestionAsked, turn="turn_1", question_id="q1", question="which?")
    assert isinstance(play.refusal(), NotRunning)

    play.tell(ev.InterruptRequested)
    ask(play)
    assert isinstance(play.refusal(), NotRunning)


def test_a_question_times_out_as_a_permission_request_does() -> None:
    play = busy()
    terms = attrs.evolve(play.session.terms, permission_timeout_seconds=5.0)
    play.session = attrs.evolve(play.session, terms=terms)
    ask(play)
    assert SetRequestTimer(RequestId("q1"), 5.0) in play.last.effects

    play.tell(agent_events.RequestTimedOut, request="q1")

    (fact,) = play.last.facts
    assert (fact.body["decision"], fact.body["by"]) == ("cancelled", "timeout")
    assert CloseQuestion(RequestId("q1")) in play.last.effects


@pytest.mark.parametrize(
    "ending",
    [
        (agent_events.TurnEnded, {"turn": "turn_2", "outcome": "completed"}),
        (agent_events.Claimed, {"epoch": 2}),
    ],
)
def test_the_end_of_the_turn_cancels_a_question(ending: tuple[type[ev.Event], Any]) -> None:
    play = asking()

    play.tell(ending[0], **ending[1])

    answers = [fact.body for fact in play.last.facts if fact.kind == "permission_answered"]
    assert [(body["decision"], body["by"]) for body in answers] == [("cancelled", "turn")]
    assert CloseQuestion(RequestId("q1")) in play.last.effects
