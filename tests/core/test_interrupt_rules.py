"""Rules for interrupts and their ladder."""

from collections.abc import Callable
from typing import Any

import pytest

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.effects import (
    AbandonTurn,
    AnswerRequest,
    CancelCall,
    CancelTurn,
    ClearCallTimer,
    EndBackground,
    SetCallTimer,
    SetTimer,
)
from supervisor.core.errors import InputTooLarge, QueueFull, SessionNotActive
from supervisor.core.ids import CallId, RequestId, SessionId, TurnId
from supervisor.core.receipts import InterruptReport
from supervisor.core.state import Phase
from supervisor.core.step import Accepted, InterruptPending, Step
from supervisor.core.tree.admission import TreeView
from supervisor.core.tree.tree_interrupt import TreeInterrupt
from tests.support.core_session import (
    CRASH,
    TURN,
    CoreSession,
    bodies,
    busy,
    idle,
    suspended,
    with_terms,
)


def with_call() -> CoreSession:
    """Return a running session with the open call c1."""
    play = busy()
    play.tell(agent_events.CallStarted, turn="turn_2", call="c1", name="bash")
    return play


def interrupts_of_calls(play: CoreSession) -> dict[str, str | None]:
    assert play.session.turn is not None
    return {call.id: call.interrupt for call in play.session.turn.calls}


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

    assert step.reply == Accepted(InterruptPending(TURN, CallId("c1")))
    assert step.effects == (SetCallTimer(CallId("c1"), 5.0), CancelCall(TURN, CallId("c1")))
    assert interrupts_of_calls(play) == {"c1": "asked", "c2": None}
    assert play.session.phase is Phase.RUNNING


def test_a_second_interrupt_of_a_call_waits_for_the_first() -> None:
    play = with_call()
    play.tell(ev.InterruptRequested, call="c1")

    step = play.tell(ev.InterruptRequested, call="c1")

    assert step.reply == Accepted(InterruptPending(TURN, CallId("c1")))
    assert (step.facts, step.effects) == ((), ())


def test_a_call_that_does_not_end_in_time_is_recorded_as_unreachable() -> None:
    play = with_call()
    play.tell(ev.InterruptRequested, call="c1", reason="too slow")

    step = play.tell(agent_events.CallInterruptElapsed, turn="turn_2", call="c1")

    assert bodies(play, "interrupted") == [
        {
            "scope": "tool_call",
            "call_id": "c1",
            "reason": None,
            "step": None,
            "unreachable": 1,
        }
    ]
    assert step.effects == (ClearCallTimer(CallId("c1")),)
    assert interrupts_of_calls(play) == {"c1": "unreachable"}
    assert play.session.phase is Phase.RUNNING


def test_an_unreachable_call_can_be_asked_again() -> None:
    play = with_call()
    play.tell(ev.InterruptRequested, call="c1")
    play.tell(agent_events.CallInterruptElapsed, turn="turn_2", call="c1")

    step = play.tell(ev.InterruptRequested, call="c1")

    assert CancelCall(TURN, CallId("c1")) in step.effects
    assert interrupts_of_calls(play) == {"c1": "asked"}


@pytest.mark.parametrize("turn", ["turn_2", "turn_old"])
def test_an_elapsed_time_without_an_interrupt_changes_nothing(turn: str) -> None:
    play = with_call()
    if turn == "turn_old":
        play.tell(ev.InterruptRequested, call="c1")
    before = play.session

    step = play.tell(agent_events.CallInterruptElapsed, turn=turn, call="c1")

    assert (step.state, step.facts, step.effects) == (before, (), ())


@pytest.mark.parametrize("end", ["call", "turn"])
def test_the_end_of_a_call_clears_the_timer_of_its_interrupt(end: str) -> None:
    play = with_call()
    play.tell(ev.InterruptRequested, call="c1")

    if end == "call":
        kind = agent_events.CallEnded
        step = play.tell(kind, turn="turn_2", call="c1", outcome="interrupted")
    else:
        step = play.end_turn()

    assert ClearCallTimer(CallId("c1")) in step.effects


def test_a_call_of_a_stopping_session_ends_with_its_turn_or_is_unreachable() -> None:
    play = with_call()
    play.tell(ev.StopRequested)

    step = play.tell(ev.InterruptRequested, call="c1")

    assert step.reply == Accepted(InterruptPending(TURN, CallId("c1")))
    assert step.effects == (SetCallTimer(CallId("c1"), 5.0),)
    play.tell(agent_events.CallInterruptElapsed, turn="turn_2", call="c1")
    assert interrupts_of_calls(play) == {"c1": "unreachable"}
    assert play.session.phase is Phase.STOPPING


def test_a_call_without_a_handle_is_unreachable() -> None:
    play = busy()
    play.tell(agent_events.CallStarted, turn="turn_2", call="c1", name="bash", cancellable=False)

    step = play.tell(ev.InterruptRequested, call="c1")

    assert step.reply == Accepted(InterruptReport("tool_call", matched=1, unreachable=1))
    assert step.effects == ()
    assert [body["unreachable"] for body in bodies(play, "interrupted")] == [1]
    again = play.tell(ev.InterruptRequested, call="c1")
    assert (again.reply, again.facts) == (step.reply, ())


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


# Trees -----------------------------------------------------------------------------------------


LEVELS = ((SessionId("s_3"),), (SessionId("s_2"), SessionId("s_4")))


def interrupt_tree(play: CoreSession, **words: Any) -> Step:  # noqa: ANN401 - fields of the event
    request = ev.InterruptRequested(at=play.now, fresh=TurnId("turn_own"), whole=True, **words)
    view = TreeView(levels=LEVELS)
    return play.tell(ev.TreeInterruptRequested, interrupt=request, tree_view=view)


@pytest.mark.parametrize("make", [CoreSession, idle, busy, suspended])
def test_the_interrupt_of_a_tree_replies_with_its_levels_and_changes_nothing(
    make: Callable[[], CoreSession],
) -> None:
    play = make()
    before = play.session

    step = interrupt_tree(play, replace_with="instead", replacement="r")

    assert step == Step(before, reply=Accepted(TreeInterrupt(LEVELS)))


@pytest.mark.parametrize("problem", ["text", "queue", "stopping"])
def test_the_interrupt_of_a_tree_refuses_a_replacement_first(problem: str) -> None:
    play = with_terms(busy(), queue_cap=1, max_text_bytes=10)
    match problem:
        case "queue":
            play.tell(ev.InputSubmitted, input="a", text="a")
        case "stopping":
            play.tell(ev.StopRequested)

    interrupt_tree(play, replacement="r", replace_with="x" * (20 if problem == "text" else 1))

    kinds = {"text": InputTooLarge, "queue": QueueFull, "stopping": SessionNotActive}
    assert isinstance(play.refusal(), kinds[problem])


def test_a_member_with_a_turn_is_interrupted_as_a_whole() -> None:
    play = busy()
    play.send("a")

    step = play.tell(ev.MemberInterruptRequested, reason="enough", queued="cancel")

    assert step.reply == Accepted(InterruptPending(TURN))
    assert CancelTurn(TURN, "ask") in step.effects
    assert EndBackground() in step.effects
    assert play.settled["a"] == "cancelled"
    assert [body["reason"] for body in bodies(play, "interrupted")] == ["enough"]


@pytest.mark.parametrize("queued", ["keep", "cancel"])
def test_a_starting_member_has_its_queue_cancelled_only_on_request(queued: str) -> None:
    play = CoreSession()
    play.send("a")

    step = play.tell(ev.MemberInterruptRequested, queued=queued)

    assert step.reply == Accepted(InterruptReport("tree"))
    assert play.queue == (["a"] if queued == "keep" else [])
    assert play.session.phase is Phase.STARTING


@pytest.mark.parametrize("scope", ["turn", "session"])
@pytest.mark.parametrize("queued", ["keep", "cancel"])
def test_without_a_turn_only_an_interrupt_of_the_session_cancels_the_queue(
    scope: str, queued: str
) -> None:
    play = CoreSession()
    play.send("a")
    before = play.session

    step = play.tell(ev.InterruptRequested, whole=scope == "session", queued=queued)

    assert step.reply == Accepted(InterruptReport("turn"))
    if (scope, queued) == ("session", "cancel"):
        assert (play.queue, play.settled["a"]) == ([], "cancelled")
        assert play.session.generation == before.generation + 1
    else:
        assert (step.state, step.facts) == (before, ())


@pytest.mark.parametrize("make", [CoreSession, idle, suspended])
def test_cancelling_an_empty_queue_without_a_turn_changes_nothing(
    make: Callable[[], CoreSession],
) -> None:
    play = make()
    before = play.session

    step = play.tell(ev.InterruptRequested, whole=True, queued="cancel")

    assert (step.state, step.facts) == (before, ())


def test_a_stopping_session_keeps_its_queue() -> None:
    play = busy()
    play.send("a")
    play.tell(ev.StopRequested)
    play.end_turn()

    step = play.tell(ev.InterruptRequested, whole=True, queued="cancel")

    assert (play.session.phase, play.session.turn) == (Phase.STOPPING, None)
    assert (play.queue, step.facts) == (["a"], ())


@pytest.mark.parametrize("make", [CoreSession, idle, suspended])
def test_a_member_without_turn_and_queue_is_not_changed(make: Callable[[], CoreSession]) -> None:
    play = make()
    before = play.session

    step = play.tell(ev.MemberInterruptRequested, queued="cancel")

    assert (step.state, step.facts) == (before, ())
    assert step.reply == Accepted(InterruptReport("tree"))


def test_a_stopping_member_is_waited_for() -> None:
    play = busy()
    play.tell(ev.StopRequested)

    step = play.tell(ev.MemberInterruptRequested, queued="cancel")

    assert step.reply == Accepted(InterruptPending(TURN))
    assert (step.facts, step.effects) == ((), ())


@pytest.mark.parametrize("make", [CoreSession, idle, busy, suspended])
def test_the_outcome_of_a_tree_interrupt_is_recorded_if_it_hit_something(
    make: Callable[[], CoreSession],
) -> None:
    play = make()
    before = play.session
    hit = InterruptReport("tree", matched=3, stopped=2, unreachable=1, ladder_step="kill")

    assert play.tell(ev.TreeInterruptEnded, report=InterruptReport("tree")).facts == ()
    play.tell(ev.TreeInterruptEnded, reason="enough", report=hit)

    (body,) = bodies(play, "interrupted")
    del body["request"]
    assert body == {
        "scope": "tree",
        "reason": "enough",
        "step": "kill",
        "matched": 3,
        "stopped": 2,
        "already_over": 0,
        "unreachable": 1,
    }
    assert play.session == before
