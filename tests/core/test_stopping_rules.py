"""Rules for the session as a whole: stop, resume, clear, archive, suspend."""

from collections.abc import Callable

import pytest

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.effects import (
    CloseAgent,
    StartAgent,
    StopDependents,
)
from supervisor.core.errors import (
    BudgetSpent,
    SessionNotActive,
    SpawnRefused,
)
from supervisor.core.ids import InputId, SessionId
from supervisor.core.limits import Lineage, Restart
from supervisor.core.state import Phase
from supervisor.core.step import Accepted, Refused, ResumeNeedsHooks
from supervisor.core.tree.admission import TreeView
from tests.support.core_session import (
    CRASH,
    TWO_CHILDREN,
    CoreSession,
    busy,
    idle,
    news,
    phase_of,
    recheck,
    suspended,
    with_terms,
)


def test_a_stopping_session_waits_for_the_stop_of_its_children() -> None:
    play = idle()
    play.tell(ev.StopRequested, tree_view=TWO_CHILDREN)
    assert StopDependents() in play.last.effects

    play.tell(agent_events.AgentClosed, tree_view=TWO_CHILDREN)
    assert play.session.phase is Phase.STOPPING
    recheck(play, news("over"), tree_view=TreeView(dependents=1))
    assert play.session.phase is Phase.STOPPING
    recheck(play, news("over"))

    assert play.session.stop_reason == "user_cancelled"


def test_a_session_waits_for_its_agent_after_its_children_stopped() -> None:
    play = idle()
    play.tell(ev.StopRequested, tree_view=TWO_CHILDREN)

    recheck(play)
    assert phase_of(play) is Phase.STOPPING

    play.tell(agent_events.AgentClosed)
    assert phase_of(play) is Phase.STOPPED


def test_a_child_stopped_by_its_parent_waits_for_younger_siblings() -> None:
    play = idle()
    play.tell(ev.StopRequested, cause="parent_stopped")
    younger = TreeView(has_younger_sibling=True)

    play.tell(agent_events.AgentClosed, tree_view=younger)
    recheck(play, tree_view=younger)
    assert play.session.phase is Phase.STOPPING

    recheck(play)
    assert play.session.stop_reason == "parent_stopped"


def test_a_child_stopped_alone_waits_for_no_sibling() -> None:
    play = idle()
    play.tell(ev.StopRequested)

    play.tell(agent_events.AgentClosed, tree_view=TreeView(has_younger_sibling=True))

    assert play.session.phase is Phase.STOPPED


def test_a_suspended_session_waits_for_children_and_younger_siblings() -> None:
    play = suspended()
    waits = TreeView(dependents=1, has_younger_sibling=True)

    play.tell(ev.StopRequested, cause="parent_stopped", tree_view=waits)
    assert phase_of(play) is Phase.STOPPING
    recheck(play, tree_view=TreeView(has_younger_sibling=True))
    assert phase_of(play) is Phase.STOPPING

    recheck(play)
    assert phase_of(play) is Phase.STOPPED


def test_a_crashed_session_waits_for_its_children_and_stays_failed() -> None:
    play = with_terms(busy(), restart=Restart(policy="never"))
    play.send("a")

    play.tell(agent_events.AgentExited, tree_view=TWO_CHILDREN)
    assert play.session.phase is Phase.STOPPING
    assert StopDependents() in play.last.effects
    play.tell(ev.StopRequested, tree_view=TWO_CHILDREN)
    recheck(play)

    assert play.session.stop_reason == "agent_crashed"
    assert (play.queue, play.settled.get("a")) == (["a"], None)


def test_a_claimed_stopping_session_stops_its_children_again() -> None:
    play = idle()
    play.tell(ev.StopRequested, tree_view=TWO_CHILDREN)

    play.tell(agent_events.Claimed, epoch=2, tree_view=TWO_CHILDREN)

    assert play.last.effects == (CloseAgent(), StopDependents())


def test_recovery_stops_the_children_of_a_stopping_session() -> None:
    play = idle()
    play.tell(ev.StopRequested, tree_view=TWO_CHILDREN)

    play.tell(agent_events.SupervisorRestarted, epoch=2, tree_view=TWO_CHILDREN)

    assert play.session.phase is Phase.STOPPING
    assert StopDependents() in play.last.effects


@pytest.mark.parametrize("state", [idle, busy])
def test_a_stale_stop_of_a_resumed_parent_is_ignored(
    state: Callable[[], CoreSession],
) -> None:
    play = state()
    before = play.session
    play.tell(ev.StopRequested, cause="parent_stopped", tree_view=TreeView(is_parent_live=True))

    assert (play.session, play.last.reply) == (before, Accepted())


def test_a_user_may_stop_a_child_of_a_live_parent() -> None:
    play = idle()
    play.tell(ev.StopRequested, tree_view=TreeView(is_parent_live=True))

    assert play.session.phase is Phase.STOPPING


@pytest.mark.parametrize("kind", [ev.ResumeRequested, ev.InputSubmitted])
def test_a_refused_resume_says_why(kind: type[ev.Event]) -> None:
    play = idle()
    play.tell(ev.StopRequested)
    play.tell(agent_events.AgentClosed)
    full = SpawnRefused("full", hint="wait", limit="max_children", used=5, allowed=5)

    words = {"input": "a", "text": "hello"} if kind is ev.InputSubmitted else {}
    play.tell(kind, **words, tree_view=TreeView(refusal=full))

    assert play.last.reply == Refused(full)
    assert play.session.phase is Phase.STOPPED


@pytest.mark.parametrize("kind", [ev.ResumeRequested, ev.InputSubmitted])
def test_a_resume_needs_hooks_first(kind: type[ev.Event]) -> None:
    play = idle()
    play.tell(ev.StopRequested)
    play.tell(agent_events.AgentClosed)

    words = {"input": "a", "text": "hello"} if kind is ev.InputSubmitted else {}
    play.tell(kind, **words, resume_allowed=False)

    assert isinstance(play.last.reply, Refused)
    assert isinstance(play.last.reply.error, ResumeNeedsHooks)
    assert play.session.phase is Phase.STOPPED


def test_a_spawn_input_that_never_ran_ends_as_interrupted() -> None:
    play = CoreSession()
    lineage = Lineage(parent=SessionId("s_root"), depth=1, input=InputId("errand"))
    play.session = play.session.changed(lineage=lineage)
    play.send("errand")

    play.tell(ev.StopRequested)
    play.tell(agent_events.AgentClosed)

    assert play.session.family.outcome == "interrupted"


def test_a_stop_ends_when_the_agent_is_closed() -> None:
    play = idle()

    assert CloseAgent() in play.tell(ev.StopRequested).effects
    assert play.session.phase is Phase.STOPPING
    play.tell(agent_events.AgentClosed)

    assert (play.session.phase, play.session.stop_reason) == (Phase.STOPPED, "user_cancelled")


def test_a_stop_of_a_busy_session_cancels_its_queue() -> None:
    play = busy()
    play.send("a")

    play.tell(ev.StopRequested)
    play.end_turn()
    play.tell(agent_events.AgentClosed)

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
    play.tell(agent_events.AgentClosed)

    assert play.session.stop_reason == "ttl_expired"


def test_stopping_a_stopped_session_is_accepted() -> None:
    play = idle()
    play.tell(ev.StopRequested)
    play.tell(agent_events.AgentClosed)

    assert play.tell(ev.StopRequested).reply == Accepted()


def test_a_clean_exit_is_a_crash_only_during_a_turn() -> None:
    play = busy()
    play.tell(agent_events.AgentExited)
    assert play.session.phase is Phase.RESTARTING

    play = idle()
    play.tell(agent_events.AgentExited)
    assert play.session.stop_reason == "completed"


def test_a_crash_holds_the_queue_for_a_resume() -> None:
    play = with_terms(busy(), restart=Restart(policy="never"))
    play.send("a")
    play.tell(agent_events.AgentExited, failure=CRASH)
    assert (play.session.stop_reason, play.queue) == ("agent_crashed", ["a"])

    assert StartAgent() in play.tell(ev.ResumeRequested).effects
    play.attach()

    assert play.running == "a"
    assert play.session.last_failure == CRASH  # a crash stays visible after a resume


def test_crashes_beyond_the_intensity_end_the_session() -> None:
    play = with_terms(idle(), restart=Restart(max_restarts=2))
    for _ in range(2):
        play.tell(agent_events.AgentExited, failure=CRASH)
        assert play.session.phase is Phase.RESTARTING
        play.attach()

    play.tell(agent_events.AgentExited, failure=CRASH)

    assert (play.session.stop_reason, play.session.restarts) == ("agent_crashed", 2)


def test_crashes_spread_wider_than_the_window_do_not_add_up() -> None:
    play = with_terms(idle(), restart=Restart(max_restarts=1, within_seconds=60.0))
    for _ in range(5):
        play.now += 61.0
        play.tell(agent_events.AgentExited, failure=CRASH)
        play.attach()

    assert play.session.phase is Phase.IDLE


def test_an_input_resumes_a_session_and_held_inputs_run_first() -> None:
    play = with_terms(busy(), restart=Restart(policy="never"))
    play.send("a")
    play.tell(agent_events.AgentExited, failure=CRASH)

    assert play.send("b").status == "queued"
    play.attach()

    assert (play.running, play.queue) == ("a", ["b"])


@pytest.mark.parametrize("cause", ["budget", "ttl_expired", "fenced", "turns_limit"])
def test_an_input_does_not_undo_a_stop_by_limits(cause: str) -> None:
    play = idle()
    play.tell(ev.StopRequested, cause=cause)
    play.tell(agent_events.AgentClosed)

    play.tell(ev.InputSubmitted, input="a", text="hello")

    spent = cause in ("budget", "turns_limit")
    assert isinstance(play.refusal(), BudgetSpent if spent else SessionNotActive)


def test_an_archived_session_refuses_input_until_unarchived() -> None:
    play = idle()
    play.tell(ev.StopRequested)
    play.tell(agent_events.AgentClosed)
    play.tell(ev.ArchiveRequested)

    play.tell(ev.ResumeRequested)
    assert isinstance(play.refusal(), SessionNotActive)
    play.tell(ev.UnarchiveRequested)
    assert play.tell(ev.ResumeRequested).reply == Accepted()


def test_an_idle_session_is_suspended_and_wakes_on_the_next_input() -> None:
    play = idle()
    assert CloseAgent() in play.tell(agent_events.IdleElapsed).effects
    assert play.session.phase is Phase.SUSPENDED
    play.tell(agent_events.AgentClosed)

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


def test_a_requested_clear_happens_after_any_end_of_the_turn() -> None:
    play = busy()
    play.tell(ev.ClearRequested)

    play.tell(agent_events.Claimed, epoch=2)

    assert (play.session.chapter, play.session.phase) == (1, Phase.IDLE)


def test_clearing_a_stopped_session_cancels_held_inputs() -> None:
    play = with_terms(busy(), restart=Restart(policy="never"))
    play.send("a")
    play.tell(agent_events.AgentExited, failure=CRASH)

    play.tell(ev.ClearRequested)

    assert (play.settled["a"], play.queue) == ("cancelled", [])


def test_moving_an_input_to_its_own_position_writes_no_record() -> None:
    play = busy()
    play.send("a")

    assert play.tell(ev.InputMoved, input="a", position=0).facts == ()


def test_a_new_incarnation_closes_the_open_turn_as_lost() -> None:
    play = busy()
    play.send("a")

    step = play.tell(agent_events.Claimed, epoch=2)

    lost = next(fact for fact in step.facts if fact.kind == "turn_ended")
    assert (lost.body["turn_id"], lost.body["outcome"]) == ("turn_2", "lost")
    assert (play.running, play.session.epoch) == ("a", 2)
    assert play.settled["first"] == "delivered"  # stays delivered though its turn was lost
