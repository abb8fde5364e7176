"""What sessions make of agents that are processes: names, guidance handed over, who we are."""

from supervisor.core import events as ev
from supervisor.core.effects import AdoptTurn, EndBackground, OfferSteering, StartTurn
from supervisor.core.ids import InputId, TurnId
from supervisor.core.info import badge_of, waiting_for
from supervisor.core.liveness import look_at
from supervisor.core.session import Agent, Capabilities, Failure, Phase, Usage
from tests.core.play import Play, busy, idle

A = InputId("a")
TURN = TurnId("turn_2")


def native() -> Play:
    play = busy(steering="native")
    play.send("a", when_busy="steer")
    return play


# Guidance -------------------------------------------------------------------------------------


def test_what_is_handed_over_says_so() -> None:
    assert native().last.effects == (OfferSteering(TURN, A, "text of a", handed=True),)


def test_what_the_agent_declines_waits_for_its_own_turn() -> None:
    play = native()

    play.tell(ev.SteeringDeclined, turn=TURN, inputs=(A,))
    assert (play.queue, play.settled.get("a")) == (["a"], None)

    play.end_turn()
    assert play.running == "a"


def test_only_what_was_handed_over_can_be_declined() -> None:
    play = busy()
    play.send("a", when_busy="steer")

    play.tell(ev.SteeringDeclined, turn=TURN, inputs=(A, InputId("nobody")))

    assert not play.last.facts


def test_a_turn_that_the_agent_began_with_it_is_a_turn_here_too() -> None:
    play = native()

    step = play.tell(ev.SteeringBeganTurn, turn=TURN, input=A, said=ev.Said("so far", 1))

    ended = next(fact for fact in step.facts if fact.kind == "turn_ended")
    assert (ended.body["outcome"], ended.body["text"]) == ("completed", "so far")
    assert (play.settled["a"], play.running) == ("delivered", "a")
    assert play.session.turn is not None
    assert AdoptTurn(play.session.turn.id, A, "text of a") in step.effects
    assert not any(isinstance(effect, StartTurn) for effect in step.effects)


def test_no_turn_is_adopted_by_a_session_that_is_about_to_stop() -> None:
    play = native()
    play.tell(ev.StopRequested, after_turn=True)

    play.tell(ev.SteeringBeganTurn, turn=TURN, input=A)

    assert (play.settled["a"], play.running) == ("steered", "first")


def test_guidance_for_an_agent_that_is_coming_up_is_handed_over_when_it_is() -> None:
    play = idle(steering="native")
    play.tell(ev.IdleElapsed)
    play.send("first")
    play.send("a", when_busy="steer")
    assert play.last.effects[0].handed is False  # type: ignore[union-attr]  # an OfferSteering

    play.attach()

    assert play.last.effects == (OfferSteering(play.session.turn.id, A, "text of a", handed=True),)  # type: ignore[union-attr]


def test_guidance_for_one_that_turns_out_to_take_none_is_queued() -> None:
    play = idle(steering="none")
    play.tell(ev.IdleElapsed)
    play.send("first")
    play.send("a", when_busy="steer")

    play.attach()

    assert [waiting.status for waiting in play.session.inputs] == ["queued"]


# The agent's own name for the conversation ------------------------------------------------------


def attached(session_id: str | None) -> Play:
    play = Play()
    play.tell(ev.AgentAttached, agent=Agent(Capabilities(), session_id, 42))
    return play


def test_the_name_of_the_conversation_outlives_the_agent() -> None:
    play = attached("theirs")

    play.tell(ev.IdleElapsed)

    assert play.session.agent is None
    assert play.session.remembered is not None
    assert play.session.remembered.session_id == "theirs"


def test_an_agent_may_name_it_later() -> None:
    play = attached(None)

    play.tell(ev.AgentSessionNamed, session_id="later")

    assert play.session.remembered is not None
    assert play.session.remembered.session_id == "later"


def test_what_was_spent_before_a_conversation_began_is_none_of_its_cost() -> None:
    play = attached("theirs")
    play.send("a")
    turn = play.session.turn
    assert turn is not None
    play.tell(ev.UsageReported, turn=turn.id, usage=Usage(cost=1.5))
    play.end_turn()

    costs = []
    for name in ("theirs", "another", "another"):
        play.tell(ev.AgentExited, failure=Failure("process_exit", "gone"))
        play.tell(ev.AgentAttached, agent=Agent(Capabilities(), name, 43))
        assert play.session.remembered is not None
        costs.append(play.session.remembered.cost_before)
    assert costs == [None, 1.5, 1.5]


def test_a_new_chapter_has_no_name_yet() -> None:
    play = attached("theirs")

    play.tell(ev.ClearRequested)

    assert play.session.remembered is None


# Who we are -------------------------------------------------------------------------------------


def test_an_agent_that_waits_for_authentication_shows_it() -> None:
    play = Play()
    play.tell(ev.AuthenticationAsked, method="login")
    assert (badge_of(play.session), waiting_for(play.session)) == ("waiting-for-auth", "auth")

    play.attach()
    assert badge_of(play.session) == "idle"


def test_to_wait_for_authentication_is_no_stall() -> None:
    play = busy()
    play.tell(ev.AuthenticationAsked, method="login")
    assert look_at(play.session, 1e6).level is None

    play.tell(ev.AuthenticationAsked, method=None)
    assert look_at(play.session, 1e6).level == "stalled"


def test_whoever_failed_to_start_no_longer_waits() -> None:
    play = Play()
    play.tell(ev.AuthenticationAsked, method="login")

    play.tell(ev.AgentStartFailed, failure=Failure("auth", "nobody logged in"))

    assert (badge_of(play.session), play.session.remembered) == ("failed", None)


# What runs besides a turn ---------------------------------------------------------------------


def test_an_interrupt_of_the_session_ends_what_else_its_agent_runs() -> None:
    play = busy()

    play.tell(ev.InterruptRequested, whole=True)

    assert EndBackground() in play.last.effects


def test_that_needs_no_turn() -> None:
    play = idle()

    play.tell(ev.InterruptRequested, whole=True)

    assert play.last.effects == (EndBackground(),)
    assert play.session.phase is Phase.IDLE


def test_an_interrupt_of_a_turn_leaves_it_alone() -> None:
    play = busy()

    play.tell(ev.InterruptRequested)

    assert EndBackground() not in play.last.effects


# Death ------------------------------------------------------------------------------------------


def test_a_turn_whose_agent_dies_is_lost() -> None:
    play = busy()

    play.tell(ev.AgentExited, failure=Failure("process_exit", "killed"), said=ev.Said("half", 1))

    ended = next(fact for fact in play.last.facts if fact.kind == "turn_ended")
    assert (ended.body["outcome"], ended.body["error"]) == ("lost", "killed")
    assert play.session.phase is Phase.RESTARTING


def test_what_the_ladder_ends_is_no_crash() -> None:
    play = busy(ladder=("ask", "close", "terminate", "kill"))
    play.tell(ev.InterruptRequested)

    play.tell(ev.AgentExited, failure=Failure("process_exit", "killed"))

    assert (play.session.phase, play.session.restarts) == (Phase.IDLE, 0)
    assert play.session.last_failure is None
