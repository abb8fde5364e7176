"""Rules for interrupts and their ladder."""

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.effects import (
    AbandonTurn,
    AnswerRequest,
    CancelCall,
    CancelTurn,
    SetTimer,
)
from supervisor.core.ids import CallId, RequestId
from supervisor.core.receipts import InterruptReport
from supervisor.core.state import Phase
from supervisor.core.step import Accepted, InterruptPending
from tests.support.core_session import CRASH, TURN, busy


def test_an_interrupt_asks_the_turn_and_sets_the_ladder() -> None:
    play = busy()

    step = play.tell(ev.InterruptRequested, reason="changed my mind")

    assert step.reply == Accepted(InterruptPending(TURN))
    assert CancelTurn(TURN, "ask") in step.effects
    assert SetTimer("ladder", 5.0) in step.effects


def test_an_interrupt_of_an_ended_turn_never_hits_the_next() -> None:
    play = busy()
    play.send("a")
    play.end_turn()

    step = play.tell(ev.InterruptRequested, turn="turn_2", replace_with="x", replacement="r")

    assert step.reply == Accepted(InterruptReport("turn", already_over=1, stale=1))
    assert step.facts == ()
    assert play.session.phase is Phase.RUNNING


def test_a_tool_call_is_interrupted_alone() -> None:
    play = busy()
    play.tell(agent_events.CallStarted, turn="turn_2", call="c1", name="bash")
    play.tell(agent_events.CallStarted, turn="turn_2", call="c2", name="bash")

    step = play.tell(ev.InterruptRequested, call="c1")

    assert step.effects == (CancelCall(TURN, CallId("c1")),)
    assert play.session.phase is Phase.RUNNING


def test_a_call_without_a_handle_is_unreachable() -> None:
    play = busy()
    play.tell(agent_events.CallStarted, turn="turn_2", call="c1", name="bash", cancellable=False)

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


def test_the_ladder_takes_every_step_in_order() -> None:
    play = busy(ladder=("ask", "close", "terminate", "kill"))
    play.tell(ev.InterruptRequested)
    taken = []
    for step in ("ask", "close", "terminate", "kill"):
        effects = play.tell(agent_events.LadderElapsed, turn="turn_2", step=step).effects
        taken += [effect for effect in effects if isinstance(effect, (CancelTurn, AbandonTurn))]

    assert [getattr(effect, "step", "abandon") for effect in taken] == [
        "close",
        "terminate",
        "kill",
        "abandon",
    ]
    assert play.session.phase is Phase.IDLE


def test_a_python_agent_that_ignores_cancel_becomes_a_zombie() -> None:
    play = busy()
    play.send("a")
    play.tell(ev.InterruptRequested)

    play.tell(agent_events.LadderElapsed, turn="turn_2", step="ask")
    assert (play.session.zombie, play.running, play.queue) == ("turn_2", None, ["a"])

    play.tell(agent_events.ZombieEnded, turn="turn_2")
    assert play.running == "a"


def test_an_interrupted_turn_cancels_its_requests() -> None:
    play = busy()
    play.tell(
        agent_events.PermissionAsked, turn="turn_2", request="r1", tool="bash", question="may I?"
    )

    step = play.tell(ev.InterruptRequested)

    assert AnswerRequest(RequestId("r1"), "cancelled") in step.effects


def test_an_agent_killed_by_the_ladder_is_not_a_crash() -> None:
    play = busy()
    play.send("a")
    play.tell(ev.InterruptRequested)

    play.tell(agent_events.AgentExited, failure=CRASH)

    assert play.running == "a"
    assert (play.session.restarts, play.session.last_failure) == (0, None)
