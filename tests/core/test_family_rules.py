"""What a session does about those below it, about silence, and about what others have left it."""

# ruff: noqa: ANN401 - the words of an event are passed on as they are

from collections.abc import Callable
from typing import Any

import pytest

from supervisor.core import events as ev
from supervisor.core.effects import (
    CancelTurn,
    ClearTimer,
    CloseAgent,
    SetTimer,
    StartTurn,
    StopDependents,
)
from supervisor.core.errors import BudgetSpent, InputRefused, SpawnRefused
from supervisor.core.ids import InputId, SessionId
from supervisor.core.limits import Restart
from supervisor.core.session import Lineage, Phase, Spending
from supervisor.core.step import Accepted, HooksFirst, Refused
from supervisor.core.tree.situation import Shortage, Situation
from tests.core.play import Play, busy, idle
from tests.core.test_rules import TURN, with_terms

SPENT = Situation(shortage=Shortage("tokens", 120, 100, SessionId("s_root")))
NO_PLACE = Situation(no_place=True)
NO_TURN = Situation(no_turn=True)
FAMILY = Situation(dependents=2, has_company=True)


def news(what: ev.NewsKind = "done", child: str = "s_9", **words: Any) -> ev.ChildNews:
    words.setdefault("on_end", "wake")
    words.setdefault("outcome", "completed")
    words.setdefault("reason", "completed" if what == "over" else None)
    return ev.ChildNews(
        what=what, child=SessionId(child), agent="tester", name=None, role="worker", **words
    )


def hear(play: Play, *heard: ev.ChildNews, **words: Any) -> None:
    play.tell(ev.FamilyChanged, input=InputId(f"news_{play.told}"), news=heard, **words)


def admit(play: Play, text: str = "go", **words: Any) -> None:
    play.tell(ev.ChildAdmitted, child="s_9", agent="tester", text=text, **words)


def asleep() -> Play:
    play = idle()
    play.tell(ev.IdleElapsed)
    assert play.session.phase is Phase.SUSPENDED
    return play


def silence(play: Play, level: str = "stalled", **words: Any) -> None:
    given = {"turn": TURN, "level": level, "waits_for": "tool", "detail": "bash"}
    play.tell(ev.SilenceNoticed, **given, since=0.0, seconds=300.0, **words)


def stalled(on_stall: str, **terms: Any) -> Play:
    play = with_terms(busy(), on_stall=on_stall, **terms)
    silence(play)
    return play


def phase_of(play: Play) -> Phase:
    return play.session.phase


def bodies(play: Play, kind: str) -> list[dict[str, Any]]:
    return [dict(fact.body) for fact in play.last.facts if fact.kind == kind]


# Children ---------------------------------------------------------------------------------


def test_a_child_that_is_admitted_is_on_record_and_counted() -> None:
    play = busy()

    admit(play)

    assert play.kinds[-1] == "child_started"
    assert (play.session.family.open_children, play.session.family.news) == (1, 1)
    assert play.session.phase is Phase.RUNNING


@pytest.mark.parametrize("text", ["", "  ", "\ud800"])
def test_a_child_is_not_given_what_is_no_text(text: str) -> None:
    play = idle()

    admit(play, text)

    assert isinstance(play.refusal(), InputRefused)
    assert play.session.family.open_children == 0


def test_a_suspended_session_gets_up_to_have_a_child() -> None:
    play = asleep()

    admit(play)

    assert play.session.phase is Phase.IDLE
    assert play.kinds[-2:] == ["session_resumed", "child_started"]
    assert SetTimer("suspend", 900.0) in play.last.effects


def test_a_suspended_session_that_has_no_place_has_no_child() -> None:
    play = asleep()

    admit(play, situation=NO_PLACE)

    assert isinstance(play.refusal(), SpawnRefused)
    assert play.session.phase is Phase.SUSPENDED


def test_no_child_begins_below_a_session_that_is_about_to_end() -> None:
    play = idle()
    play.tell(ev.StopRequested)
    admit(play)
    assert isinstance(play.refusal(), SpawnRefused)

    play.tell(ev.AgentClosed)
    admit(play)
    assert isinstance(play.refusal(), SpawnRefused)


def test_a_refused_child_is_on_record_and_changes_nothing_else() -> None:
    play = idle()
    before = play.session

    play.tell(ev.ChildRefused, agent="tester", limit="max_children", used=5, allowed=5, detail="no")

    assert bodies(play, "spawn_refused")[0]["limit"] == "max_children"
    assert play.session == before


def test_a_deleted_child_was_paid_for() -> None:
    play = idle()
    spent = Spending(2, 30, 0.5, 1.0)

    for _ in range(2):
        play.tell(ev.ChildDeleted, child="s_9", spent=spent, spawns=3)

    assert play.session.family.deleted == spent + spent
    assert play.session.family.deleted_spawns == 6


# News -------------------------------------------------------------------------------------


def test_news_that_only_tells_begins_no_turn() -> None:
    play = idle()

    hear(play, news(on_end="tell"), news("over", on_end="tell"))

    assert play.kinds[-2:] == ["child_ended", "child_ended"]
    assert play.session.phase is Phase.IDLE


def test_news_that_wakes_begins_a_turn_which_says_what_happened() -> None:
    play = idle()

    hear(play, news(text="all green"))

    started = next(one for one in play.last.effects if isinstance(one, StartTurn))
    assert started.text == "tester s_9 ended: completed\nall green"
    assert play.session.turn is not None
    assert play.session.turn.source == "child"


def test_all_the_news_there_is_comes_in_one_input_however_full_the_queue() -> None:
    play = with_terms(busy(), queue_cap=1)
    play.send("a")

    hear(play, news(child="s_7"), news(child="s_8"))
    hear(play, news(child="s_9"))

    assert len(play.queue) == 2
    text = play.session.inputs[1].text
    assert [name in text for name in ("s_7", "s_8", "s_9")] == [True] * 3


def test_news_does_not_take_a_place_from_other_inputs() -> None:
    play = with_terms(busy(), queue_cap=1)
    hear(play, news())

    assert play.send("a").status == "queued"


def test_so_much_news_is_cut_to_what_an_input_may_have() -> None:
    play = with_terms(busy(), max_text_bytes=100)

    for _ in range(5):
        hear(play, news(text="é" * 60))

    assert len(play.session.inputs) == 1
    assert 98 <= len(play.session.inputs[0].text.encode()) <= 100


def test_that_a_child_ended_whose_errand_was_told_is_nothing_to_wake_for() -> None:
    play = idle()

    hear(play, news("over", was_done=True))
    assert phase_of(play) is Phase.IDLE

    hear(play, news("over", was_done=True, failed=True))
    assert phase_of(play) is Phase.RUNNING


def test_a_child_that_ends_without_its_errand_done_wakes() -> None:
    play = idle()

    hear(play, news("over", outcome=None, reason="agent_crashed"))

    assert "agent_crashed" in next(e.text for e in play.last.effects if isinstance(e, StartTurn))


def test_a_child_that_is_done_is_still_open_and_one_that_is_over_is_not() -> None:
    play = idle()
    admit(play)

    hear(play, news(on_end="tell"))
    assert play.session.family.open_children == 1
    hear(play, news("over", on_end="tell", was_done=True))
    assert play.session.family.open_children == 0
    hear(play, news("started", on_end="tell"))
    assert play.session.family.open_children == 1


def test_news_wakes_a_suspended_session_and_waits_for_a_place_if_there_is_none() -> None:
    play = asleep()
    hear(play, news(), situation=NO_PLACE)
    assert (play.session.phase, len(play.queue)) == (Phase.SUSPENDED, 1)

    hear(play)

    assert play.session.phase is Phase.RUNNING


def test_a_session_that_stops_writes_news_down_and_is_not_woken_by_it() -> None:
    play = idle()
    play.tell(ev.StopRequested)

    hear(play, news())
    assert play.kinds[-1] == "child_ended"
    assert play.queue == []

    play.tell(ev.AgentClosed)
    hear(play, news())
    assert (play.session.phase, play.queue) == (Phase.STOPPED, [])


def test_news_wakes_nobody_who_has_nothing_left_to_spend() -> None:
    play = idle()

    hear(play, news(), situation=SPENT)

    assert play.kinds[-1] == "child_ended"
    assert (play.session.phase, play.queue) == (Phase.IDLE, [])


def test_news_that_was_read_is_counted_and_never_backwards() -> None:
    play = busy()
    hear(play, news(on_end="tell"), news("over", on_end="tell"))

    for read in (2, 1):
        play.tell(ev.NewsTaken, turn=TURN, read=read)
    play.tell(ev.NewsTaken, turn="turn_of_old", read=9)

    assert play.session.family.news_read == 2


def test_there_is_one_input_of_news_though_the_first_was_promoted() -> None:
    play = busy()
    hear(play, news(child="s_7"))
    play.tell(ev.InputPromoted, input=play.queue[0])
    hear(play, news(child="s_8"))

    play.tell(ev.TurnEnded, turn=TURN, outcome="failed", situation=NO_TURN)

    assert len(play.queue) <= 1


def test_who_reads_more_news_than_there_was_has_read_all_there_was() -> None:
    play = busy()
    hear(play, news(on_end="tell"))

    play.tell(ev.NewsTaken, turn=TURN, read=100)

    assert play.session.family.news_read == play.session.family.news


# Turns and places that others have --------------------------------------------------------


def test_an_input_waits_while_all_turns_are_taken_and_begins_when_one_is_free() -> None:
    play = idle()
    assert play.send("a", situation=NO_TURN).status == "queued"
    assert play.session.phase is Phase.IDLE

    hear(play)

    assert play.running == "a"


def test_after_a_turn_a_session_gives_way_while_all_turns_are_taken() -> None:
    play = busy()
    play.send("a")

    play.tell(ev.TurnEnded, turn=TURN, outcome="completed", situation=NO_TURN)

    assert (play.session.phase, play.queue) == (Phase.IDLE, ["a"])


def test_an_input_to_a_suspended_session_without_a_place_is_kept() -> None:
    play = asleep()

    assert play.send("a", situation=NO_PLACE).status == "queued"
    assert play.session.phase is Phase.SUSPENDED

    hear(play)
    assert play.running == "a"


def test_a_suspended_session_does_not_get_up_for_what_has_expired() -> None:
    play = asleep()
    play.send("a", expires_at=10.0, situation=NO_PLACE)

    play.now = 10.0
    hear(play)

    assert play.settled == {"a": "expired"}
    assert play.session.phase is Phase.SUSPENDED


def test_a_session_with_children_up_is_not_suspended() -> None:
    play = idle()

    play.tell(ev.IdleElapsed, situation=FAMILY)
    assert phase_of(play) is Phase.IDLE
    assert play.last.effects == (SetTimer("suspend", 900.0),)

    play.tell(ev.IdleElapsed, situation=Situation(dependents=2))
    assert phase_of(play) is Phase.SUSPENDED


# Budgets ----------------------------------------------------------------------------------


@pytest.mark.parametrize("play", [idle(), busy(), asleep()])
def test_what_would_spend_from_an_empty_budget_is_refused_saying_whose(play: Play) -> None:
    play.tell(ev.InputSubmitted, input="a", text="hello", situation=SPENT)

    assert isinstance(play.refusal(), BudgetSpent)
    assert play.refusal().hint == "raise limits.tokens of session s_root"


def test_a_session_ends_with_the_turn_that_spent_the_rest() -> None:
    play = busy()
    play.send("a")

    play.tell(ev.TurnEnded, turn=TURN, outcome="completed", situation=SPENT)
    assert play.session.phase is Phase.STOPPING
    play.tell(ev.AgentClosed)

    assert play.session.stop_reason == "budget_exceeded"
    assert play.session.stop_detail == "120 of 100 tokens used, in the budget of s_root"
    assert play.settled["a"] == "cancelled"


def test_the_end_of_turns_has_a_reason_of_its_own() -> None:
    play = busy()
    short = Situation(shortage=Shortage("turns", 1, 1, SessionId("s_1")))

    play.tell(ev.TurnEnded, turn=TURN, outcome="completed", situation=short)
    play.tell(ev.AgentClosed)

    assert play.session.stop_reason == "max_turns"


def test_what_waits_in_an_idle_session_ends_it_when_nothing_is_left() -> None:
    play = idle()
    play.send("a", situation=NO_TURN)

    hear(play, situation=SPENT)

    assert play.session.phase is Phase.STOPPING
    assert CloseAgent() in play.last.effects


# Ends -------------------------------------------------------------------------------------


def test_a_session_that_stops_has_its_children_stopped_and_waits_for_them() -> None:
    play = idle()
    play.tell(ev.StopRequested, situation=FAMILY)
    assert StopDependents() in play.last.effects

    play.tell(ev.AgentClosed, situation=FAMILY)
    assert play.session.phase is Phase.STOPPING
    hear(play, news("over"), situation=Situation(dependents=1))
    assert play.session.phase is Phase.STOPPING
    hear(play, news("over"))

    assert play.session.stop_reason == "user_cancelled"


def test_children_that_are_gone_first_do_not_end_a_session_whose_agent_is_there() -> None:
    play = idle()
    play.tell(ev.StopRequested, situation=FAMILY)

    hear(play)
    assert phase_of(play) is Phase.STOPPING

    play.tell(ev.AgentClosed)
    assert phase_of(play) is Phase.STOPPED


def test_who_stops_with_its_parent_lets_younger_ones_go_first() -> None:
    play = idle()
    play.tell(ev.StopRequested, cause="parent_stopped")
    younger = Situation(has_younger=True)

    play.tell(ev.AgentClosed, situation=younger)
    hear(play, situation=younger)
    assert play.session.phase is Phase.STOPPING

    hear(play)
    assert play.session.stop_reason == "parent_stopped"


def test_who_stops_for_itself_waits_for_no_sibling() -> None:
    play = idle()
    play.tell(ev.StopRequested)

    play.tell(ev.AgentClosed, situation=Situation(has_younger=True))

    assert play.session.phase is Phase.STOPPED


def test_a_suspended_session_waits_for_its_children_and_for_younger_ones_too() -> None:
    play = asleep()
    waits = Situation(dependents=1, has_younger=True)

    play.tell(ev.StopRequested, cause="parent_stopped", situation=waits)
    assert phase_of(play) is Phase.STOPPING
    hear(play, situation=Situation(has_younger=True))
    assert phase_of(play) is Phase.STOPPING

    hear(play)
    assert phase_of(play) is Phase.STOPPED


def test_a_crash_that_ends_a_session_waits_for_its_children_and_stays_a_crash() -> None:
    play = with_terms(busy(), restart=Restart(policy="never"))
    play.send("a")

    play.tell(ev.AgentExited, situation=FAMILY)
    assert play.session.phase is Phase.STOPPING
    assert StopDependents() in play.last.effects
    play.tell(ev.StopRequested, situation=FAMILY)
    hear(play)

    assert play.session.stop_reason == "agent_crashed"
    assert (play.queue, play.settled.get("a")) == (["a"], None)


def test_a_new_incarnation_of_a_session_that_stops_has_its_children_stopped_again() -> None:
    play = idle()
    play.tell(ev.StopRequested, situation=FAMILY)

    play.tell(ev.Claimed, epoch=2, situation=FAMILY)

    assert play.last.effects == (CloseAgent(), StopDependents())


def test_a_supervisor_that_is_back_has_the_children_stopped_of_who_was_stopping() -> None:
    play = idle()
    play.tell(ev.StopRequested, situation=FAMILY)

    play.tell(ev.SupervisorRestarted, epoch=2, situation=FAMILY)

    assert play.session.phase is Phase.STOPPING
    assert StopDependents() in play.last.effects


@pytest.mark.parametrize("state", [idle, busy])
def test_an_order_of_a_parent_that_has_come_back_since_is_not_obeyed(
    state: Callable[[], Play],
) -> None:
    play = state()
    before = play.session
    play.tell(ev.StopRequested, cause="parent_stopped", situation=Situation(parent_lives=True))

    assert (play.session, play.last.reply) == (before, Accepted())


def test_a_person_may_stop_one_whose_parent_lives() -> None:
    play = idle()
    play.tell(ev.StopRequested, situation=Situation(parent_lives=True))

    assert play.session.phase is Phase.STOPPING


# Coming back ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ev.ResumeRequested, ev.InputSubmitted])
def test_who_may_not_come_back_is_told_why(kind: type[ev.Event]) -> None:
    play = idle()
    play.tell(ev.StopRequested)
    play.tell(ev.AgentClosed)
    full = SpawnRefused("full", hint="wait", limit="max_children", used=5, allowed=5)

    words = {"input": "a", "text": "hello"} if kind is ev.InputSubmitted else {}
    play.tell(kind, **words, situation=Situation(refusal=full))

    assert play.last.reply == Refused(full)
    assert play.session.phase is Phase.STOPPED


@pytest.mark.parametrize("kind", [ev.ResumeRequested, ev.InputSubmitted])
def test_nobody_comes_back_before_hooks_were_asked(kind: type[ev.Event]) -> None:
    play = idle()
    play.tell(ev.StopRequested)
    play.tell(ev.AgentClosed)

    words = {"input": "a", "text": "hello"} if kind is ev.InputSubmitted else {}
    play.tell(kind, **words, may_return=False)

    assert isinstance(play.last.reply, Refused)
    assert isinstance(play.last.reply.error, HooksFirst)
    assert play.session.phase is Phase.STOPPED


def test_a_childs_errand_that_never_ran_has_ended_as_interrupted() -> None:
    play = Play()
    lineage = Lineage(parent=SessionId("s_root"), depth=1, input=InputId("errand"))
    play.session = play.session.changed(lineage=lineage)
    play.send("errand")

    play.tell(ev.StopRequested)
    play.tell(ev.AgentClosed)

    assert play.session.family.outcome == "interrupted"


# Silence ----------------------------------------------------------------------------------


def test_quiet_is_said_and_nothing_is_done() -> None:
    play = with_terms(busy(), on_stall="stop")

    silence(play, "quiet")

    assert play.kinds[-1] == "quiet"
    assert (play.session.phase, play.last.effects) == (Phase.RUNNING, ())


def test_a_stall_says_what_the_turn_waits_for_and_since_when() -> None:
    play = stalled("notify")

    said = bodies(play, "stalled")[0]
    assert (said["waits_for"], said["detail"], said["seconds"]) == ("tool", "bash", 300.0)
    assert play.session.phase is Phase.RUNNING


@pytest.mark.parametrize("on_stall", ["notify", "interrupt", "restart", "stop"])
def test_each_stall_is_said_and_acted_on_once(on_stall: str) -> None:
    play = stalled(on_stall)

    for level in ("stalled", "quiet"):
        silence(play, level)
        assert (play.last.facts, play.last.effects) == ((), ())


def test_progress_ends_a_silence_and_the_next_one_counts_anew() -> None:
    play = stalled("notify")

    play.tell(ev.ProgressMade, turn=TURN)
    assert SetTimer("silence", 120.0) in play.last.effects
    play.tell(ev.ProgressMade, turn=TURN)
    assert play.last.facts == ()
    silence(play)

    assert play.kinds[-3:] == ["stalled", "progress_resumed", "stalled"]


def test_the_silence_of_another_turn_is_not_this_ones() -> None:
    play = with_terms(busy(), on_stall="stop")

    for kind in (ev.ProgressMade, ev.DeadlineElapsed):
        play.tell(kind, turn="turn_of_old")
        assert play.last.facts == ()
    play.end_turn()
    silence(play)

    assert play.session.phase is Phase.IDLE


def test_a_stalled_turn_is_interrupted_and_the_next_begins() -> None:
    play = stalled("interrupt")
    play.send("a")
    assert CancelTurn(TURN, "ask") not in play.last.effects
    assert play.session.phase is Phase.INTERRUPTING

    play.tell(ev.TurnEnded, turn=TURN, outcome="interrupted")

    assert play.running == "a"


def test_a_stalled_session_is_stopped_with_its_evidence_and_its_queue_held() -> None:
    play = stalled("stop")
    assert play.session.phase is Phase.STOPPING

    play.tell(ev.TurnEnded, turn=TURN, outcome="interrupted")
    play.tell(ev.AgentClosed)

    assert play.session.stop_reason == "timeout"
    assert play.session.stop_detail == "no progress for 300 s, waiting for tool bash"
    assert play.session.last_failure is not None
    assert play.session.last_failure.kind == "timeout"


def test_a_stalled_agent_is_restarted_when_its_turn_is_over() -> None:
    play = stalled("restart")
    play.send("a")

    play.tell(ev.TurnEnded, turn=TURN, outcome="interrupted")

    assert play.session.phase is Phase.RESTARTING
    assert play.last.effects[-2:] == (CloseAgent(), SetTimer("backoff", 0.5))
    assert (play.session.restarts, play.queue) == (1, ["a"])


def test_stalls_that_are_restarted_count_with_crashes_and_end_as_a_timeout() -> None:
    play = stalled("restart", restart=Restart(max_restarts=0))

    play.tell(ev.TurnEnded, turn=TURN, outcome="interrupted")

    assert (play.session.phase, play.session.stop_reason) == (Phase.STOPPED, "timeout")
    assert CloseAgent() in play.last.effects


def test_a_users_stop_of_a_stalled_turn_is_no_restart() -> None:
    play = stalled("restart")
    play.tell(ev.StopRequested)

    play.tell(ev.TurnEnded, turn=TURN, outcome="interrupted")
    play.tell(ev.AgentClosed)

    assert (play.session.stop_reason, play.session.restarts) == ("user_cancelled", 0)


def test_a_turn_that_somebody_is_interrupting_is_not_acted_on_for_its_silence() -> None:
    play = with_terms(busy(), on_stall="stop")
    play.tell(ev.InterruptRequested)

    silence(play)

    assert (play.session.phase, play.last.facts) == (Phase.INTERRUPTING, ())


# Deadlines --------------------------------------------------------------------------------


def test_a_turn_whose_time_is_over_ends_as_timed_out_and_the_next_begins() -> None:
    play = with_terms(idle(), turn_deadline_seconds=60.0)
    play.send("a")
    assert SetTimer("deadline", 60.0) in play.last.effects
    play.send("b")

    play.tell(ev.DeadlineElapsed, turn=TURN)
    play.tell(ev.TurnEnded, turn=TURN, outcome="interrupted")

    assert bodies(play, "turn_ended")[0]["outcome"] == "timed_out"
    assert ClearTimer("deadline") in play.last.effects
    assert play.running == "b"


def test_a_turn_that_was_done_in_the_last_moment_is_completed() -> None:
    play = busy()
    play.tell(ev.DeadlineElapsed, turn=TURN)

    play.end_turn()

    assert bodies(play, "turn_ended")[0]["outcome"] == "completed"


def test_an_agent_that_ignores_its_deadline_is_abandoned_as_timed_out() -> None:
    play = busy()
    play.tell(ev.DeadlineElapsed, turn=TURN)

    play.tell(ev.LadderElapsed, turn=TURN, step="ask")

    assert bodies(play, "turn_ended")[0]["outcome"] == "timed_out"
    assert play.session.zombie == TURN


def test_a_turn_that_a_user_interrupted_first_is_interrupted() -> None:
    play = busy()
    play.tell(ev.InterruptRequested)
    play.tell(ev.DeadlineElapsed, turn=TURN)

    play.tell(ev.TurnEnded, turn=TURN, outcome="interrupted")

    assert bodies(play, "turn_ended")[0]["outcome"] == "interrupted"


def test_a_turn_that_is_lost_is_lost_though_its_time_was_over() -> None:
    play = busy()
    play.tell(ev.DeadlineElapsed, turn=TURN)

    play.tell(ev.Claimed, epoch=2)

    assert bodies(play, "turn_ended")[0]["outcome"] == "lost"


# Restarts ---------------------------------------------------------------------------------


def test_the_pause_before_a_restart_doubles_and_jitter_only_shortens_it() -> None:
    pauses = []
    play = with_terms(busy(), restart=Restart(max_restarts=9, backoff_seconds=1.0))
    for jitter in (0.0, 0.0, 1.0):
        play.tell(ev.AgentExited, jitter=jitter)
        pauses += [e.after_seconds for e in play.last.effects if isinstance(e, SetTimer)]

    assert pauses == [1.0, 2.0, 2.0]


def test_a_session_that_restarts_stops_at_once() -> None:
    play = busy()
    play.tell(ev.AgentExited)
    assert play.session.phase is Phase.RESTARTING

    play.tell(ev.StopRequested)
    assert ClearTimer("backoff") in play.last.effects
    play.tell(ev.AgentClosed)

    assert (play.session.stop_reason, play.session.restarts) == ("user_cancelled", 1)


def test_a_session_that_is_left_rests_instead_of_restarting() -> None:
    play = busy()
    play.tell(ev.LeaveRequested)

    play.tell(ev.AgentExited)

    assert play.session.phase is Phase.SUSPENDED
    assert ClearTimer("backoff") in play.last.effects


def test_a_turn_that_begins_is_watched_from_its_beginning() -> None:
    play = with_terms(idle(), quiet_after_seconds=50.0, stalled_after_seconds=40.0)

    play.send("a")

    assert SetTimer("silence", 40.0) in play.last.effects
