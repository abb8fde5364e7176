"""Rules for agents that are processes: session ids, steering, authentication, exits."""

from typing import Any

import pytest

from supervisor.core import agent_events, text
from supervisor.core import events as ev
from supervisor.core.effects import (
    AdoptTurn,
    EndBackground,
    OfferSteering,
    SetTimer,
    StartTurn,
)
from supervisor.core.events import Event
from supervisor.core.ids import InputId, TurnId
from supervisor.core.info import badge_of, waiting_for
from supervisor.core.liveness import check_silence
from supervisor.core.state import Agent, Capabilities, Failure, Phase, Usage
from tests.support.core_session import CRASH, CoreSession, busy, idle

A = InputId("a")
TURN = TurnId("turn_2")


def native() -> CoreSession:
    play = busy(steering="native")
    play.send("a", when_busy="steer")
    return play


# Steering --------------------------------------------------------------------------------


def test_handed_steering_is_recorded_as_handed() -> None:
    assert native().last.effects == (OfferSteering(TURN, A, "text of a", handed=True),)


def test_declined_steering_is_queued() -> None:
    play = native()

    play.tell(agent_events.SteeringDeclined, turn=TURN, inputs=(A,))
    assert (play.queue, play.settled.get("a")) == (["a"], None)

    play.end_turn()
    assert play.running == "a"


def test_steering_declined_after_its_expiry_expires_at_once() -> None:
    play = busy(steering="native")
    play.send("a", when_busy="steer", expires_at=10.0)
    play.send("b", when_busy="steer", expires_at=30.0)

    play.now = 20.0
    play.tell(agent_events.SteeringDeclined, turn=TURN, inputs=(A, InputId("b")))

    assert play.settled == {"first": "delivered", "a": "expired"}
    assert play.queue == ["b"]
    assert play.last.effects == (SetTimer("expiry", 10.0),)


def test_steering_returned_by_a_crash_expires_while_the_agent_restarts() -> None:
    play = busy()
    play.send("a", when_busy="steer", expires_at=10.0)

    play.now = 20.0
    play.tell(agent_events.AgentExited, failure=CRASH)

    assert play.session.phase is Phase.RESTARTING
    assert play.settled["a"] == "expired"


def test_only_handed_steering_can_be_declined() -> None:
    play = busy()
    play.send("a", when_busy="steer")

    play.tell(agent_events.SteeringDeclined, turn=TURN, inputs=(A, InputId("nobody")))

    assert not play.last.facts


END_EVENTS: tuple[tuple[type[Event], dict[str, Any]], ...] = (
    (agent_events.TurnEnded, {"turn": TURN, "outcome": "completed"}),
    (agent_events.TurnEnded, {"turn": TURN, "outcome": "failed"}),
    (agent_events.AgentExited, {"failure": CRASH}),
)


@pytest.mark.parametrize(("event", "fields"), END_EVENTS)
def test_steering_that_was_not_sent_by_the_turn_end_is_queued(
    event: type[Event], fields: dict[str, Any]
) -> None:
    play = busy(steering="native")
    play.send("before")
    play.send("a", when_busy="steer")
    play.send("after")

    play.tell(event, **fields)

    inputs = [waiting.id for waiting in play.session.inputs]
    assert (play.settled.get("a"), inputs[-2:]) == (None, ["a", "after"])


def test_unanswered_steering_fails_and_is_not_sent_again() -> None:
    play = native()

    step = play.tell(agent_events.SteeringUnanswered, turn=TURN, inputs=(A, InputId("nobody")))

    [settled] = [fact.body for fact in step.facts]
    assert (settled["outcome"], settled["detail"]) == ("failed", "unknown")
    assert play.queue == []


def test_only_handed_steering_can_be_unanswered() -> None:
    play = busy()
    play.send("a", when_busy="steer")

    play.tell(agent_events.SteeringUnanswered, turn=TURN, inputs=(A,))

    assert not play.last.facts


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        (agent_events.Claimed, {"epoch": 2}),
        (agent_events.SupervisorRestarted, {"epoch": 2}),
        (agent_events.LadderElapsed, {"turn": TURN, "step": "ask"}),
    ],
)
def test_steering_without_a_report_fails_when_the_driver_is_lost(
    event: type[Event], fields: dict[str, Any]
) -> None:
    play = native()
    if event is agent_events.LadderElapsed:
        play.tell(ev.InterruptRequested)

    play.tell(event, **fields)

    assert play.settled["a"] == "failed"


def test_steering_for_an_old_turn_is_queued_when_the_agent_began_another() -> None:
    play = native()
    play.send("b", when_busy="steer")

    play.tell(agent_events.SteeringBeganTurn, turn=TURN, input=A)

    assert (play.running, play.queue) == ("a", ["b"])


def test_a_turn_started_from_steering_is_adopted() -> None:
    play = native()

    step = play.tell(
        agent_events.SteeringBeganTurn, turn=TURN, input=A, output=text.TurnOutput("so far", 1)
    )

    ended = next(fact for fact in step.facts if fact.kind == "turn_ended")
    assert (ended.body["outcome"], ended.body["text"]) == ("completed", "so far")
    assert (play.settled["a"], play.running) == ("delivered", "a")
    assert play.session.turn is not None
    assert AdoptTurn(play.session.turn.id, A, "text of a") in step.effects
    assert not any(isinstance(effect, StartTurn) for effect in step.effects)


def test_a_stopping_session_adopts_no_turn() -> None:
    play = native()
    play.tell(ev.StopRequested, after_turn=True)

    play.tell(agent_events.SteeringBeganTurn, turn=TURN, input=A)

    assert (play.settled["a"], play.running) == ("steered", "first")


def test_steering_for_a_starting_agent_is_delivered_after_attachment() -> None:
    play = idle(steering="native")
    play.tell(agent_events.IdleElapsed)
    play.send("first")
    play.send("a", when_busy="steer")
    assert play.last.effects[0].handed is False  # type: ignore[union-attr]  # an OfferSteering

    play.attach()

    assert play.last.effects == (OfferSteering(play.session.turn.id, A, "text of a", handed=True),)  # type: ignore[union-attr]


def test_steering_for_an_agent_without_steering_is_queued() -> None:
    play = idle(steering="none")
    play.tell(agent_events.IdleElapsed)
    play.send("first")
    play.send("a", when_busy="steer")

    play.attach()

    assert [waiting.status for waiting in play.session.inputs] == ["queued"]


# The agent's own id of the conversation ---------------------------------------------------


def attached(session_id: str | None) -> CoreSession:
    play = CoreSession()
    play.tell(agent_events.AgentAttached, agent=Agent(Capabilities(), session_id, 42))
    return play


def test_the_agents_session_id_outlives_the_agent() -> None:
    play = attached("theirs")

    play.tell(agent_events.IdleElapsed)

    assert play.session.agent is None
    assert play.session.remembered is not None
    assert play.session.remembered.session_id == "theirs"


def test_an_agent_may_report_its_session_id_later() -> None:
    play = attached(None)

    play.tell(agent_events.AgentSessionNamed, session_id="later")

    assert play.session.remembered is not None
    assert play.session.remembered.session_id == "later"


def test_earlier_cost_does_not_count_for_a_new_conversation() -> None:
    play = attached("theirs")
    play.send("a")
    turn = play.session.turn
    assert turn is not None
    play.tell(agent_events.UsageReported, turn=turn.id, usage=Usage(cost=1.5))
    play.end_turn()

    costs = []
    for name in ("theirs", "another", "another"):
        play.tell(agent_events.AgentExited, failure=Failure("process_exit", "gone"))
        play.tell(agent_events.AgentAttached, agent=Agent(Capabilities(), name, 43))
        assert play.session.remembered is not None
        costs.append(play.session.remembered.cost_before)
    assert costs == [None, 1.5, 1.5]


def test_a_new_chapter_has_no_agent_session_id() -> None:
    play = attached("theirs")

    play.tell(ev.ClearRequested)

    assert play.session.remembered is None


# Authentication --------------------------------------------------------------------------


def test_an_agent_waiting_for_authentication_sets_the_badge() -> None:
    play = CoreSession()
    play.tell(agent_events.AuthenticationRequested, method="login")
    assert (badge_of(play.session), waiting_for(play.session)) == ("waiting-for-auth", "auth")

    play.attach()
    assert badge_of(play.session) == "idle"


def test_waiting_for_authentication_is_not_a_stall() -> None:
    play = busy()
    play.tell(agent_events.AuthenticationRequested, method="login")
    assert check_silence(play.session, 1e6).level is None

    play.tell(agent_events.AuthenticationRequested, method=None)
    assert check_silence(play.session, 1e6).level == "stalled"


def test_a_failed_start_ends_the_wait_for_authentication() -> None:
    play = CoreSession()
    play.tell(agent_events.AuthenticationRequested, method="login")

    play.tell(agent_events.StartFailed, failure=Failure("auth", "not logged in"))

    assert (badge_of(play.session), play.session.remembered) == ("failed", None)


# Background work -------------------------------------------------------------------------


def test_an_interrupt_of_the_session_ends_background_work() -> None:
    play = busy()

    play.tell(ev.InterruptRequested, whole=True)

    assert EndBackground() in play.last.effects


def test_an_interrupt_of_the_session_needs_no_turn() -> None:
    play = idle()

    play.tell(ev.InterruptRequested, whole=True)

    assert play.last.effects == (EndBackground(),)
    assert play.session.phase is Phase.IDLE


def test_an_interrupt_of_a_turn_leaves_background_work() -> None:
    play = busy()

    play.tell(ev.InterruptRequested)

    assert EndBackground() not in play.last.effects


# Exits -----------------------------------------------------------------------------------


def test_a_turn_is_lost_when_its_agent_dies() -> None:
    play = busy()

    play.tell(
        agent_events.AgentExited,
        failure=Failure("process_exit", "killed"),
        output=text.TurnOutput("half", 1),
    )

    ended = next(fact for fact in play.last.facts if fact.kind == "turn_ended")
    assert (ended.body["outcome"], ended.body["error"]) == ("lost", "killed")
    assert play.session.phase is Phase.RESTARTING


def test_an_agent_ended_by_the_ladder_did_not_crash() -> None:
    play = busy(ladder=("ask", "close", "terminate", "kill"))
    play.tell(ev.InterruptRequested)

    play.tell(agent_events.AgentExited, failure=Failure("process_exit", "killed"))

    assert (play.session.phase, play.session.restarts) == (Phase.IDLE, 0)
    assert play.session.last_failure is None
