"""Rules for permission requests."""
# ruff: noqa: ANN401 - the words of an event are passed on as they are

from typing import Any

import attrs

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.effects import (
    AnswerRequest,
    SetTimer,
)
from supervisor.core.errors import (
    InvalidDecision,
    PermissionNotFound,
)
from supervisor.core.ids import RequestId
from supervisor.core.permissions import Permissions
from tests.support.core_session import CoreSession, busy


def asking(**words: Any) -> CoreSession:
    play = busy()
    play.tell(
        agent_events.PermissionAsked,
        turn="turn_2",
        request="r1",
        tool="bash",
        question="may I?",
        **words,
    )
    return play


def test_a_request_waits_for_a_person() -> None:
    play = asking()
    assert [request.id for request in play.session.turn.requests] == ["r1"]  # type: ignore[union-attr]

    play.tell(ev.RequestAnswered, request="r1", decision="allow_once")

    assert play.last.effects == (
        AnswerRequest(RequestId("r1"), "allow_once"),
        SetTimer("silence", play.session.terms.quiet_after_seconds),
    )


def test_an_answer_for_always_becomes_a_rule_that_answers_the_next_time() -> None:
    play = asking()
    play.tell(ev.RequestAnswered, request="r1", decision="allow_always")

    play.tell(
        agent_events.PermissionAsked, turn="turn_2", request="r2", tool="bash", question="again?"
    )

    assert AnswerRequest(RequestId("r2"), "allow_once") in play.last.effects


def test_an_invalid_answer_to_a_request_is_refused() -> None:
    play = asking(options=("allow_once", "reject_once"))

    play.tell(ev.RequestAnswered, request="r9", decision="allow_once")
    assert isinstance(play.refusal(), PermissionNotFound)
    play.tell(ev.RequestAnswered, request="r1", decision="allow_always")
    assert isinstance(play.refusal(), InvalidDecision)


def test_an_unanswered_request_is_rejected_once() -> None:
    play = asking()

    play.tell(agent_events.RequestTimedOut, request="r1")

    assert AnswerRequest(RequestId("r1"), "reject_once") in play.last.effects
    assert play.session.rules == ()


def test_a_tool_the_session_has_no_right_to_is_rejected_without_asking() -> None:
    play = busy()
    play.session = attrs.evolve(play.session, permissions=Permissions(tools=["read"]))

    play.tell(
        agent_events.PermissionAsked, turn="turn_2", request="r1", tool="bash", question="may I?"
    )

    assert AnswerRequest(RequestId("r1"), "reject_once") in play.last.effects
