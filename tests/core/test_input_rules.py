"""Rules for inputs and steering."""

import pytest

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.effects import (
    OfferSteering,
    StartTurn,
)
from supervisor.core.errors import (
    InputRefused,
    InputTooLarge,
    NotRunning,
    QueueFull,
)
from supervisor.core.ids import InputId
from supervisor.core.state import Phase
from tests.support.core_session import TURN, busy, idle, with_terms

A = InputId("a")


# Input while busy ------------------------------------------------------------------------


def test_an_input_to_an_idle_session_starts_a_turn() -> None:
    play = idle()

    receipt = play.send("a")

    assert (receipt.status, receipt.turn_id) == ("started", "turn_2")
    assert StartTurn(TURN, A, "text of a") in play.last.effects
    assert play.settled == {"a": "delivered"}


def test_the_users_text_is_recorded_before_the_agent_is_called() -> None:
    play = idle()

    play.send("a")

    assert play.kinds[-4:] == ["input_accepted", "input_settled", "turn_started", "user_text"]


def test_inputs_queue_while_a_turn_runs_and_run_in_order() -> None:
    play = busy()
    play.send("a")
    play.send("b")
    assert play.queue == ["a", "b"]

    play.end_turn()
    assert play.running == "a"
    play.end_turn()
    assert play.running == "b"


def test_a_new_input_never_overtakes_the_queue_at_a_turn_end() -> None:
    play = busy()
    play.send("a")
    play.end_turn()

    assert play.send("b").status == "queued"
    assert play.running == "a"


def test_mode_matters_only_when_busy() -> None:
    assert idle().send("a", when_busy="reject").status == "started"
    assert idle().send("a", when_busy="interrupt").status == "started"
    assert idle().send("a", when_busy="steer").status == "started"


def test_reject_is_refused_while_busy() -> None:
    play = busy()

    play.tell(ev.InputSubmitted, input="a", text="hello", when_busy="reject")

    assert isinstance(play.refusal(), InputRefused)


def test_a_full_queue_refuses_with_a_hint() -> None:
    play = with_terms(busy(), queue_cap=1)
    play.send("a")

    play.tell(ev.InputSubmitted, input="b", text="hello")

    assert isinstance(play.refusal(), QueueFull)
    assert "queue_cap" in play.refusal().hint
    assert play.queue == ["a"]


@pytest.mark.parametrize(
    ("text", "error"),
    [("", InputRefused), (" \n", InputRefused), ("\ud800", InputRefused), ("é" * 6, InputTooLarge)],
)
def test_an_invalid_text_is_refused(text: str, error: type[Exception]) -> None:
    play = with_terms(idle(), max_text_bytes=10)

    play.tell(ev.InputSubmitted, input="a", text=text)

    assert isinstance(play.refusal(), error)


def test_an_input_that_waited_too_long_expires() -> None:
    play = busy()
    play.send("a", expires_at=10.0)
    play.send("b")

    play.now = 10.0
    play.tell(agent_events.InputsExpired)

    assert play.settled["a"] == "expired"
    assert play.queue == ["b"]


def test_an_expired_input_does_not_begin_a_turn_though_no_timer_fired() -> None:
    play = busy()
    play.send("a", expires_at=10.0)
    play.send("b")

    play.now = 11.0
    play.end_turn()

    assert play.running == "b"
    assert play.settled["a"] == "expired"


def test_queued_inputs_can_be_edited_moved_and_cancelled() -> None:
    play = busy()
    for name in ("a", "b", "c"):
        play.send(name)

    play.tell(ev.InputEdited, input="a", text="better")
    play.tell(ev.InputMoved, input="c", position=0)
    play.tell(ev.InputWithdrawn, input="b")

    assert play.queue == ["c", "a"]
    assert play.session.inputs[1].text == "better"
    assert play.settled["b"] == "cancelled"


def test_an_input_that_is_not_queued_cannot_be_edited() -> None:
    play = busy()

    play.tell(ev.InputEdited, input="first", text="too late")

    assert isinstance(play.refusal(), InputRefused)


# Steering --------------------------------------------------------------------------------


def test_steering_is_staged_until_the_turn_takes_it() -> None:
    play = busy()

    receipt = play.send("a", when_busy="steer")

    assert receipt.status == "staged"
    assert play.last.effects == (OfferSteering(TURN, A, "text of a"),)
    assert "a" not in play.settled

    play.tell(agent_events.SteeringTaken, turn="turn_2", inputs=("a",))
    assert play.settled["a"] == "steered"


def test_steering_that_was_not_taken_is_queued_at_its_place() -> None:
    play = busy()
    play.send("a", when_busy="steer")
    play.send("b")

    play.end_turn()

    assert play.running == "a"
    assert play.queue == ["b"]


def test_unconfirmed_handed_steering_fails() -> None:
    play = busy(steering="native")
    play.send("a", when_busy="steer")

    play.tell(agent_events.Claimed, epoch=2)

    assert play.settled["a"] == "failed"


def test_without_steering_the_fallback_queues_or_interrupts() -> None:
    play = busy(steering="none")
    assert play.send("a", when_busy="steer").status == "queued"

    play = with_terms(busy(steering="none"), steer_fallback="interrupt")
    assert play.send("a", when_busy="steer").status == "interrupting"
    assert play.session.phase is Phase.INTERRUPTING


def test_steering_an_idle_session_is_an_error() -> None:
    play = idle()

    play.tell(ev.SteeringSubmitted, input="a", text="shorter")

    assert isinstance(play.refusal(), NotRunning)


def test_while_interrupting_steer_is_refused_and_send_queues() -> None:
    play = busy()
    play.tell(ev.InterruptRequested)

    play.tell(ev.SteeringSubmitted, input="a", text="shorter")
    assert isinstance(play.refusal(), NotRunning)
    assert play.send("b", when_busy="steer").status == "queued"


def test_a_queued_input_can_be_promoted_to_steering() -> None:
    play = busy()
    play.send("a")

    play.tell(ev.InputPromoted, input="a")

    assert play.session.inputs[0].status == "staged"
