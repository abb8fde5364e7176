"""What a session does when it is told something, one promise at a time."""

# ruff: noqa: ANN401 - the words of an event are passed on as they are

from typing import Any

import attrs
import pytest

from supervisor.core import events as ev
from supervisor.core.creation import Message, Plan, create
from supervisor.core.effects import (
    AbandonTurn,
    AnswerRequest,
    CancelCall,
    CancelTurn,
    CloseAgent,
    OfferSteering,
    SetTimer,
    StartAgent,
    StartTurn,
)
from supervisor.core.errors import (
    BudgetSpent,
    InputRefused,
    InputTooLarge,
    InvalidDecision,
    NotRunning,
    PermissionNotFound,
    QueueFull,
    SessionNotActive,
)
from supervisor.core.folds import begin
from supervisor.core.ids import CallId, InputId, RequestId, SessionId, SessionKey, TurnId
from supervisor.core.limits import Restart
from supervisor.core.permissions import Permissions
from supervisor.core.receipts import InterruptReport
from supervisor.core.session import Failure, Phase, Terms
from supervisor.core.step import Accepted, UnderWay
from tests.core.play import Play, busy, idle

TURN = TurnId("turn_2")  # the first turn: the agent attaches with event 1
A = InputId("a")
CRASH = Failure("process_exit", "killed by signal 9")


def with_terms(play: Play, **terms: Any) -> Play:
    play.session = attrs.evolve(play.session, terms=Terms(**terms))
    return play


# Input while busy ------------------------------------------------------------------------


def test_an_input_to_an_idle_session_begins_a_turn() -> None:
    play = idle()

    receipt = play.send("a")

    assert (receipt.status, receipt.turn_id) == ("started", "turn_2")
    assert StartTurn(TURN, A, "text of a") in play.last.effects
    assert play.settled == {"a": "delivered"}


def test_the_users_text_is_on_record_before_the_agent_is_called() -> None:
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


def test_a_fresh_input_never_overtakes_the_queue_at_the_end_of_a_turn() -> None:
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


def test_a_full_queue_refuses_and_says_what_to_do() -> None:
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
def test_a_text_that_cannot_be_taken_is_refused(text: str, error: type[Exception]) -> None:
    play = with_terms(idle(), max_text_bytes=10)

    play.tell(ev.InputSubmitted, input="a", text=text)

    assert isinstance(play.refusal(), error)


def test_an_input_that_waited_too_long_expires() -> None:
    play = busy()
    play.send("a", expires_at=10.0)
    play.send("b")

    play.now = 10.0
    play.tell(ev.InputsExpired)

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


def test_what_is_not_waiting_cannot_be_edited() -> None:
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

    play.tell(ev.SteeringTaken, turn="turn_2", inputs=("a",))
    assert play.settled["a"] == "steered"


def test_what_the_turn_never_took_is_queued_at_its_own_place() -> None:
    play = busy()
    play.send("a", when_busy="steer")
    play.send("b")

    play.end_turn()

    assert play.running == "a"
    assert play.queue == ["b"]


def test_steering_handed_to_a_process_that_never_said_it_arrived_has_failed() -> None:
    play = busy(steering="native")
    play.send("a", when_busy="steer")

    play.tell(ev.Claimed, epoch=2)

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


# Interrupts ------------------------------------------------------------------------------


def test_an_interrupt_asks_the_turn_and_sets_the_ladder() -> None:
    play = busy()

    step = play.tell(ev.InterruptRequested, reason="changed my mind")

    assert step.reply == Accepted(UnderWay(TURN))
    assert CancelTurn(TURN, "ask") in step.effects
    assert SetTimer("ladder", 5.0) in step.effects


def test_an_interrupt_that_names_a_turn_which_is_over_never_hits_the_next() -> None:
    play = busy()
    play.send("a")
    play.end_turn()

    step = play.tell(ev.InterruptRequested, turn="turn_2", replace_with="x", replacement="r")

    assert step.reply == Accepted(InterruptReport("turn", already_over=1, stale=1))
    assert step.facts == ()
    assert play.session.phase is Phase.RUNNING


def test_a_tool_call_is_interrupted_alone() -> None:
    play = busy()
    play.tell(ev.CallStarted, turn="turn_2", call="c1", name="bash")
    play.tell(ev.CallStarted, turn="turn_2", call="c2", name="bash")

    step = play.tell(ev.InterruptRequested, call="c1")

    assert step.effects == (CancelCall(TURN, CallId("c1")),)
    assert play.session.phase is Phase.RUNNING


def test_a_call_without_a_handle_is_unreachable() -> None:
    play = busy()
    play.tell(ev.CallStarted, turn="turn_2", call="c1", name="bash", cancellable=False)

    step = play.tell(ev.InterruptRequested, call="c1")

    assert step.reply == Accepted(InterruptReport("tool_call", matched=1, unreachable=1))
    assert step.effects == ()


def test_an_interrupting_input_runs_before_the_queue() -> None:
    play = busy()
    play.send("a")
    receipt = play.send("b", when_busy="interrupt")
    assert (receipt.status, receipt.previous_turn_id) == ("interrupting", "turn_2")

    play.end_turn()

    assert play.running == "b"
    assert play.queue == ["a"]


def test_cancelling_the_queue_raises_the_generation_in_the_same_step() -> None:
    play = busy()
    play.send("a")

    play.tell(ev.InterruptRequested, queued="cancel", replace_with="new", replacement="r")

    assert play.settled["a"] == "cancelled"
    assert play.session.generation == 1
    assert [(w.id, w.generation) for w in play.session.inputs] == [("r", 1)]


def test_the_ladder_goes_step_by_step_to_its_end() -> None:
    play = busy(ladder=("ask", "close", "terminate", "kill"))
    play.tell(ev.InterruptRequested)
    taken = []
    for step in ("ask", "close", "terminate", "kill"):
        effects = play.tell(ev.LadderElapsed, turn="turn_2", step=step).effects
        taken += [effect for effect in effects if isinstance(effect, (CancelTurn, AbandonTurn))]

    assert [getattr(effect, "step", "abandon") for effect in taken] == [
        "close",
        "terminate",
        "kill",
        "abandon",
    ]
    assert play.session.phase is Phase.IDLE


def test_a_python_agent_that_does_not_listen_is_a_zombie_and_holds_its_session() -> None:
    play = busy()
    play.send("a")
    play.tell(ev.InterruptRequested)

    play.tell(ev.LadderElapsed, turn="turn_2", step="ask")
    assert (play.session.zombie, play.running, play.queue) == ("turn_2", None, ["a"])

    play.tell(ev.ZombieEnded, turn="turn_2")
    assert play.running == "a"


def test_an_interrupted_turn_cancels_what_it_asked_for() -> None:
    play = busy()
    play.tell(ev.PermissionAsked, turn="turn_2", request="r1", tool="bash", question="may I?")

    step = play.tell(ev.InterruptRequested)

    assert AnswerRequest(RequestId("r1"), "cancelled") in step.effects


def test_an_agent_that_the_ladder_ended_is_no_crash() -> None:
    play = busy()
    play.send("a")
    play.tell(ev.InterruptRequested)

    play.tell(ev.AgentExited, failure=CRASH)

    assert play.running == "a"
    assert (play.session.restarts, play.session.last_failure) == (0, None)


# Stopping and starting again -------------------------------------------------------------


def test_a_stop_lets_the_agent_go_and_ends_when_it_is_gone() -> None:
    play = idle()

    assert CloseAgent() in play.tell(ev.StopRequested).effects
    assert play.session.phase is Phase.STOPPING
    play.tell(ev.AgentClosed)

    assert (play.session.phase, play.session.stop_reason) == (Phase.STOPPED, "user_cancelled")


def test_a_stop_of_a_busy_session_cancels_its_queue() -> None:
    play = busy()
    play.send("a")

    play.tell(ev.StopRequested)
    play.end_turn()
    play.tell(ev.AgentClosed)

    assert play.settled["a"] == "cancelled"
    assert play.session.phase is Phase.STOPPED


def test_a_cooperative_stop_lets_the_turn_end_and_starts_no_other() -> None:
    play = busy()
    play.send("a")
    play.tell(ev.StopRequested, after_turn=True)
    assert play.session.phase is Phase.RUNNING

    play.end_turn()

    assert (play.session.phase, play.running) == (Phase.STOPPING, None)


def test_the_first_cause_of_a_stop_wins() -> None:
    play = busy()
    play.tell(ev.StopRequested, cause="ttl_expired")
    play.tell(ev.StopRequested, cause="user")
    play.end_turn()
    play.tell(ev.AgentClosed)

    assert play.session.stop_reason == "ttl_expired"


def test_stopping_what_is_stopped_is_fine() -> None:
    play = idle()
    play.tell(ev.StopRequested)
    play.tell(ev.AgentClosed)

    assert play.tell(ev.StopRequested).reply == Accepted()


def test_a_clean_exit_in_a_turn_is_a_crash_and_when_idle_a_completion() -> None:
    play = busy()
    play.tell(ev.AgentExited)
    assert play.session.phase is Phase.RESTARTING

    play = idle()
    play.tell(ev.AgentExited)
    assert play.session.stop_reason == "completed"


def test_a_crash_holds_the_queue_for_whoever_resumes() -> None:
    play = with_terms(busy(), restart=Restart(policy="never"))
    play.send("a")
    play.tell(ev.AgentExited, failure=CRASH)
    assert (play.session.stop_reason, play.queue) == ("agent_crashed", ["a"])

    assert StartAgent() in play.tell(ev.ResumeRequested).effects
    play.attach()

    assert play.running == "a"
    assert play.session.last_failure == CRASH  # a crash stays visible after a resume


def test_crashes_beyond_the_intensity_end_the_session() -> None:
    play = with_terms(idle(), restart=Restart(max_restarts=2))
    for _ in range(2):
        play.tell(ev.AgentExited, failure=CRASH)
        assert play.session.phase is Phase.RESTARTING
        play.attach()

    play.tell(ev.AgentExited, failure=CRASH)

    assert (play.session.stop_reason, play.session.restarts) == ("agent_crashed", 2)


def test_crashes_spread_wider_than_the_window_do_not_add_up() -> None:
    play = with_terms(idle(), restart=Restart(max_restarts=1, within_seconds=60.0))
    for _ in range(5):
        play.now += 61.0
        play.tell(ev.AgentExited, failure=CRASH)
        play.attach()

    assert play.session.phase is Phase.IDLE


def test_a_message_resumes_a_stopped_session_and_the_held_queue_runs_first() -> None:
    play = with_terms(busy(), restart=Restart(policy="never"))
    play.send("a")
    play.tell(ev.AgentExited, failure=CRASH)

    assert play.send("b").status == "queued"
    play.attach()

    assert (play.running, play.queue) == ("a", ["b"])


@pytest.mark.parametrize("cause", ["budget", "ttl_expired", "fenced", "turns_limit"])
def test_a_message_does_not_undo_a_stop_by_limits(cause: str) -> None:
    play = idle()
    play.tell(ev.StopRequested, cause=cause)
    play.tell(ev.AgentClosed)

    play.tell(ev.InputSubmitted, input="a", text="hello")

    spent = cause in ("budget", "turns_limit")
    assert isinstance(play.refusal(), BudgetSpent if spent else SessionNotActive)


def test_an_archived_session_takes_nothing_until_it_is_unarchived() -> None:
    play = idle()
    play.tell(ev.StopRequested)
    play.tell(ev.AgentClosed)
    play.tell(ev.ArchiveRequested)

    play.tell(ev.ResumeRequested)
    assert isinstance(play.refusal(), SessionNotActive)
    play.tell(ev.UnarchiveRequested)
    assert play.tell(ev.ResumeRequested).reply == Accepted()


def test_an_idle_session_is_suspended_and_wakes_on_the_next_input() -> None:
    play = idle()
    assert CloseAgent() in play.tell(ev.IdleElapsed).effects
    assert play.session.phase is Phase.SUSPENDED
    play.tell(ev.AgentClosed)

    assert play.send("a").status == "started"
    assert play.running == "a"


def test_clearing_begins_a_new_chapter_and_keeps_the_session() -> None:
    play = busy()
    play.end_turn()

    play.tell(ev.ClearRequested)

    assert (play.session.chapter, play.session.agent) == (1, None)
    assert play.session.phase is Phase.IDLE


def test_clearing_a_busy_session_waits_for_the_end_of_its_turn() -> None:
    play = busy()
    play.send("a")

    play.tell(ev.ClearRequested)
    assert (play.session.phase, play.session.chapter) == (Phase.INTERRUPTING, 0)
    assert play.settled["a"] == "cancelled"
    play.send("b")
    play.end_turn()

    assert (play.session.chapter, play.running) == (1, "b")


def test_a_session_that_was_to_be_cleared_is_so_after_any_end_of_its_turn() -> None:
    play = busy()
    play.tell(ev.ClearRequested)

    play.tell(ev.Claimed, epoch=2)

    assert (play.session.chapter, play.session.phase) == (1, Phase.IDLE)


def test_clearing_a_stopped_session_cancels_what_was_held() -> None:
    play = with_terms(busy(), restart=Restart(policy="never"))
    play.send("a")
    play.tell(ev.AgentExited, failure=CRASH)

    play.tell(ev.ClearRequested)

    assert (play.settled["a"], play.queue) == ("cancelled", [])


def test_moving_an_input_to_where_it_is_writes_nothing() -> None:
    play = busy()
    play.send("a")

    assert play.tell(ev.InputMoved, input="a", position=0).facts == ()


def test_a_new_incarnation_closes_the_open_turn_as_lost_and_goes_on() -> None:
    play = busy()
    play.send("a")

    step = play.tell(ev.Claimed, epoch=2)

    lost = next(fact for fact in step.facts if fact.kind == "turn_ended")
    assert (lost.body["turn_id"], lost.body["outcome"]) == ("turn_2", "lost")
    assert (play.running, play.session.epoch) == ("a", 2)
    assert play.settled["first"] == "delivered"  # stays delivered though its turn was lost


# Permissions -----------------------------------------------------------------------------


def asking(**words: Any) -> Play:
    play = busy()
    play.tell(
        ev.PermissionAsked, turn="turn_2", request="r1", tool="bash", question="may I?", **words
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

    play.tell(ev.PermissionAsked, turn="turn_2", request="r2", tool="bash", question="again?")

    assert AnswerRequest(RequestId("r2"), "allow_once") in play.last.effects


def test_an_answer_to_a_request_that_is_gone_or_not_offered_is_a_typed_error() -> None:
    play = asking(options=("allow_once", "reject_once"))

    play.tell(ev.RequestAnswered, request="r9", decision="allow_once")
    assert isinstance(play.refusal(), PermissionNotFound)
    play.tell(ev.RequestAnswered, request="r1", decision="allow_always")
    assert isinstance(play.refusal(), InvalidDecision)


def test_a_request_nobody_answers_in_time_is_rejected_once() -> None:
    play = asking()

    play.tell(ev.RequestTimedOut, request="r1")

    assert AnswerRequest(RequestId("r1"), "reject_once") in play.last.effects
    assert play.session.rules == ()


def test_a_tool_the_session_has_no_right_to_is_rejected_without_asking() -> None:
    play = busy()
    play.session = attrs.evolve(play.session, permissions=Permissions(tools=["read"]))

    play.tell(ev.PermissionAsked, turn="turn_2", request="r1", tool="bash", question="may I?")

    assert AnswerRequest(RequestId("r1"), "reject_once") in play.last.effects


# Beginning, leaving, coming back ---------------------------------------------------------------


def test_a_new_session_is_what_its_first_record_says() -> None:
    plan = Plan(
        agent="coder", key=SessionKey("coder", "chat", "ann"), tags=("a",), workspace="/work"
    )

    session, facts = create(SessionId("s_1"), plan, at=5.0)

    assert begin(SessionId("s_1"), facts[0]) == session
    assert session.phase is Phase.STARTING
    assert session.permissions.mode == "approve_reads"
    assert session.created_at == 5.0


def test_a_fork_brings_what_was_said_and_counts_it() -> None:
    said = [Message("user", "hello", 1.0), Message("agent", "hi", 2.0)]

    session, facts = create(SessionId("s_2"), Plan(agent="coder"), at=5.0, said=said)

    assert [fact.kind for fact in facts] == ["session_created", "user_text", "agent_text"]
    assert session.messages == 2
    assert session.title == "hello"


def test_a_session_that_is_left_rests_with_its_queue() -> None:
    play = busy()
    play.send("b")
    play.tell(ev.LeaveRequested)
    assert play.session.turn is not None

    play.tell(ev.TurnEnded, turn=TURN, outcome="completed")

    assert play.session.phase is Phase.SUSPENDED
    assert [waiting.id for waiting in play.session.inputs] == ["b"]
    assert CloseAgent() in play.last.effects
    assert not play.session.leaving


def test_a_lost_supervisor_closes_the_turn_and_starts_the_agent_again() -> None:
    play = busy()
    play.send("b")

    play.tell(ev.SupervisorRestarted, epoch=2)

    assert play.session.phase is Phase.RESTARTING
    assert play.session.turn is None
    assert play.session.epoch == 2
    assert [waiting.id for waiting in play.session.inputs] == ["b"]


def test_a_recovery_that_is_repeated_does_not_count_the_same_death_twice() -> None:
    play = busy()
    play.tell(ev.SupervisorRestarted, epoch=2)

    play.tell(ev.SupervisorRestarted, epoch=3)

    assert play.session.phase is Phase.RESTARTING
    assert play.session.restarts == 1


def test_what_rested_with_inputs_is_woken_when_the_supervisor_is_back() -> None:
    play = busy()
    play.send("b")
    play.tell(ev.LeaveRequested)
    play.tell(ev.TurnEnded, turn=TURN, outcome="completed")

    play.tell(ev.SupervisorRestarted, epoch=2)

    assert play.session.phase is Phase.RUNNING
    assert play.settled["b"] == "delivered"
