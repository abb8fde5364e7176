"""Creation of sessions, shutdown and recovery."""

from supervisor.core import agent_events
from supervisor.core.creation import Message, SessionSpec, create
from supervisor.core.effects import (
    CloseAgent,
)
from supervisor.core.fold import initial_state
from supervisor.core.ids import SessionId, SessionKey
from supervisor.core.state import Phase
from tests.support.core_session import TURN, busy


def test_a_new_session_equals_the_fold_of_its_first_record() -> None:
    plan = SessionSpec(
        agent="coder", key=SessionKey("coder", "chat", "ann"), tags=("a",), workspace="/project"
    )

    session, facts = create(SessionId("s_1"), plan, at=5.0)

    assert initial_state(SessionId("s_1"), facts[0]) == session
    assert session.phase is Phase.STARTING
    assert session.permissions.mode == "approve_reads"
    assert session.created_at == 5.0


def test_a_fork_copies_and_counts_messages() -> None:
    said = [Message("user", "hello", 1.0), Message("agent", "hi", 2.0)]

    session, facts = create(SessionId("s_2"), SessionSpec(agent="coder"), at=5.0, messages=said)

    assert [fact.kind for fact in facts] == ["session_created", "user_text", "agent_text"]
    assert session.messages == 2
    assert session.title == "hello"


def test_a_session_suspends_with_its_queue_during_shutdown() -> None:
    play = busy()
    play.send("b")
    play.tell(agent_events.ShutdownRequested)
    assert play.session.turn is not None

    play.tell(agent_events.TurnEnded, turn=TURN, outcome="completed")

    assert play.session.phase is Phase.SUSPENDED
    assert [waiting.id for waiting in play.session.inputs] == ["b"]
    assert CloseAgent() in play.last.effects
    assert not play.session.leaving


def test_a_lost_supervisor_closes_the_turn_and_starts_the_agent_again() -> None:
    play = busy()
    play.send("b")

    play.tell(agent_events.SupervisorRestarted, epoch=2)

    assert play.session.phase is Phase.RESTARTING
    assert play.session.turn is None
    assert play.session.epoch == 2
    assert [waiting.id for waiting in play.session.inputs] == ["b"]


def test_a_repeated_recovery_counts_an_exit_once() -> None:
    play = busy()
    play.tell(agent_events.SupervisorRestarted, epoch=2)

    play.tell(agent_events.SupervisorRestarted, epoch=3)

    assert play.session.phase is Phase.RESTARTING
    assert play.session.restarts == 1


def test_a_suspended_session_with_inputs_wakes_after_a_restart() -> None:
    play = busy()
    play.send("b")
    play.tell(agent_events.ShutdownRequested)
    play.tell(agent_events.TurnEnded, turn=TURN, outcome="completed")

    play.tell(agent_events.SupervisorRestarted, epoch=2)

    assert play.session.phase is Phase.RUNNING
    assert play.settled["b"] == "delivered"
