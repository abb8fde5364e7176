"""Rules for children, their news, slots and budgets."""

import pytest

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.effects import (
    CloseAgent,
    SetTimer,
    StartTurn,
)
from supervisor.core.errors import BudgetSpent, InputRefused, SpawnRefused
from supervisor.core.ids import SessionId
from supervisor.core.state import Phase, Spending
from supervisor.core.tree.admission import TreeView
from supervisor.core.tree.node import ExhaustedBudget
from tests.support.core_session import (
    EXHAUSTED,
    NO_CHILD_SLOT,
    NO_TURN_SLOT,
    TURN,
    TWO_CHILDREN,
    CoreSession,
    admit,
    bodies,
    busy,
    idle,
    news,
    phase_of,
    recheck,
    suspended,
    with_terms,
)

# Children ---------------------------------------------------------------------------------


def test_an_admitted_child_is_recorded_and_counted() -> None:
    play = busy()

    admit(play)

    assert play.kinds[-1] == "child_started"
    assert (play.session.family.open_children, play.session.family.news) == (1, 1)
    assert play.session.phase is Phase.RUNNING


@pytest.mark.parametrize("text", ["", "  ", "\ud800"])
def test_a_child_with_invalid_text_is_refused(text: str) -> None:
    play = idle()

    admit(play, text)

    assert isinstance(play.refusal(), InputRefused)
    assert play.session.family.open_children == 0


def test_a_suspended_session_wakes_to_spawn_a_child() -> None:
    play = suspended()

    admit(play)

    assert play.session.phase is Phase.IDLE
    assert play.kinds[-2:] == ["session_resumed", "child_started"]
    assert SetTimer("suspend", 900.0) in play.last.effects


def test_a_suspended_session_without_a_child_slot_cannot_spawn() -> None:
    play = suspended()

    admit(play, tree_view=NO_CHILD_SLOT)

    assert isinstance(play.refusal(), SpawnRefused)
    assert play.session.phase is Phase.SUSPENDED


def test_a_stopping_session_refuses_children() -> None:
    play = idle()
    play.tell(ev.StopRequested)
    admit(play)
    assert isinstance(play.refusal(), SpawnRefused)

    play.tell(agent_events.AgentClosed)
    admit(play)
    assert isinstance(play.refusal(), SpawnRefused)


def test_a_refused_child_is_only_recorded() -> None:
    play = idle()
    before = play.session

    play.tell(ev.ChildRefused, agent="tester", limit="max_children", used=5, allowed=5, detail="no")

    assert bodies(play, "spawn_refused")[0]["limit"] == "max_children"
    assert play.session == before


def test_the_spending_of_a_deleted_child_stays_counted() -> None:
    play = idle()
    spent = Spending(2, 30, 0.5, 1.0)

    for _ in range(2):
        play.tell(ev.ChildDeleted, child="s_9", spent=spent, spawns=3)

    assert play.session.family.deleted == spent + spent
    assert play.session.family.deleted_spawns == 6


# News -------------------------------------------------------------------------------------


def test_news_with_on_end_tell_starts_no_turn() -> None:
    play = idle()

    recheck(play, news(on_end="tell"), news("over", on_end="tell"))

    assert play.kinds[-2:] == ["child_ended", "child_ended"]
    assert play.session.phase is Phase.IDLE


def test_news_with_on_end_wake_starts_a_turn_with_its_text() -> None:
    play = idle()

    recheck(play, news(text="all green"))

    started = next(one for one in play.last.effects if isinstance(one, StartTurn))
    assert started.text == "tester s_9 ended: completed\nall green"
    assert play.session.turn is not None
    assert play.session.turn.source == "child"


def test_all_news_is_in_one_input_even_if_the_queue_is_full() -> None:
    play = with_terms(busy(), queue_cap=1)
    play.send("a")

    recheck(play, news(child="s_7"), news(child="s_8"))
    recheck(play, news(child="s_9"))

    assert len(play.queue) == 2
    text = play.session.inputs[1].text
    assert [name in text for name in ("s_7", "s_8", "s_9")] == [True] * 3


def test_news_does_not_count_against_the_queue_cap() -> None:
    play = with_terms(busy(), queue_cap=1)
    recheck(play, news())

    assert play.send("a").status == "queued"


def test_long_news_is_cut_to_max_text_bytes() -> None:
    play = with_terms(busy(), max_text_bytes=100)

    for _ in range(5):
        recheck(play, news(text="é" * 60))

    assert len(play.session.inputs) == 1
    assert 98 <= len(play.session.inputs[0].text.encode()) <= 100


def test_the_stop_of_a_finished_child_does_not_wake_its_parent() -> None:
    play = idle()

    recheck(play, news("over", was_reported_done=True))
    assert phase_of(play) is Phase.IDLE

    recheck(play, news("over", was_reported_done=True, failed=True))
    assert phase_of(play) is Phase.RUNNING


def test_a_child_that_stops_unfinished_wakes_its_parent() -> None:
    play = idle()

    recheck(play, news("over", outcome=None, reason="agent_crashed"))

    assert "agent_crashed" in next(e.text for e in play.last.effects if isinstance(e, StartTurn))


def test_a_done_child_is_open_until_it_has_stopped() -> None:
    play = idle()
    admit(play)

    recheck(play, news(on_end="tell"))
    assert play.session.family.open_children == 1
    recheck(play, news("over", on_end="tell", was_reported_done=True))
    assert play.session.family.open_children == 0
    recheck(play, news("started", on_end="tell"))
    assert play.session.family.open_children == 1


def test_news_wakes_a_suspended_session_when_a_child_slot_is_free() -> None:
    play = suspended()
    recheck(play, news(), tree_view=NO_CHILD_SLOT)
    assert (play.session.phase, len(play.queue)) == (Phase.SUSPENDED, 1)

    recheck(play)

    assert play.session.phase is Phase.RUNNING


def test_a_stopping_session_records_news_and_is_not_woken() -> None:
    play = idle()
    play.tell(ev.StopRequested)

    recheck(play, news())
    assert play.kinds[-1] == "child_ended"
    assert play.queue == []

    play.tell(agent_events.AgentClosed)
    recheck(play, news())
    assert (play.session.phase, play.queue) == (Phase.STOPPED, [])


def test_news_does_not_wake_a_session_with_an_exhausted_budget() -> None:
    play = idle()

    recheck(play, news(), tree_view=EXHAUSTED)

    assert play.kinds[-1] == "child_ended"
    assert (play.session.phase, play.queue) == (Phase.IDLE, [])


def test_read_news_is_counted_and_never_decreases() -> None:
    play = busy()
    recheck(play, news(on_end="tell"), news("over", on_end="tell"))

    for read in (2, 1):
        play.tell(agent_events.NewsRead, turn=TURN, read=read)
    play.tell(agent_events.NewsRead, turn="turn_of_old", read=9)

    assert play.session.family.news_read == 2


def test_news_has_one_input_though_the_first_was_promoted() -> None:
    play = busy()
    recheck(play, news(child="s_7"))
    play.tell(ev.InputPromoted, input=play.queue[0])
    recheck(play, news(child="s_8"))

    play.tell(agent_events.TurnEnded, turn=TURN, outcome="failed", tree_view=NO_TURN_SLOT)

    assert len(play.queue) <= 1


def test_reading_more_news_than_exists_counts_all() -> None:
    play = busy()
    recheck(play, news(on_end="tell"))

    play.tell(agent_events.NewsRead, turn=TURN, read=100)

    assert play.session.family.news_read == play.session.family.news


# Turn slots and child slots --------------------------------------------------------------


def test_an_input_waits_for_a_free_turn_slot() -> None:
    play = idle()
    assert play.send("a", tree_view=NO_TURN_SLOT).status == "queued"
    assert play.session.phase is Phase.IDLE

    recheck(play)

    assert play.running == "a"


def test_a_session_waits_after_its_turn_while_turn_slots_are_full() -> None:
    play = busy()
    play.send("a")

    play.tell(agent_events.TurnEnded, turn=TURN, outcome="completed", tree_view=NO_TURN_SLOT)

    assert (play.session.phase, play.queue) == (Phase.IDLE, ["a"])


def test_an_input_to_a_suspended_session_waits_for_a_child_slot() -> None:
    play = suspended()

    assert play.send("a", tree_view=NO_CHILD_SLOT).status == "queued"
    assert play.session.phase is Phase.SUSPENDED

    recheck(play)
    assert play.running == "a"


def test_a_suspended_session_does_not_wake_for_expired_inputs() -> None:
    play = suspended()
    play.send("a", expires_at=10.0, tree_view=NO_CHILD_SLOT)

    play.now = 10.0
    recheck(play)

    assert play.settled == {"a": "expired"}
    assert play.session.phase is Phase.SUSPENDED


def test_a_session_with_active_children_is_not_suspended() -> None:
    play = idle()

    play.tell(agent_events.IdleElapsed, tree_view=TWO_CHILDREN)
    assert phase_of(play) is Phase.IDLE
    assert play.last.effects == (SetTimer("suspend", 900.0),)

    play.tell(agent_events.IdleElapsed, tree_view=TreeView(dependents=2))
    assert phase_of(play) is Phase.SUSPENDED


# Budgets ----------------------------------------------------------------------------------


@pytest.mark.parametrize("play", [idle(), busy(), suspended()])
def test_an_input_on_an_exhausted_budget_is_refused_naming_its_owner(play: CoreSession) -> None:
    play.tell(ev.InputSubmitted, input="a", text="hello", tree_view=EXHAUSTED)

    assert isinstance(play.refusal(), BudgetSpent)
    assert play.refusal().hint == "raise limits.tokens of session s_root"


def test_a_session_stops_after_the_turn_that_exhausts_its_budget() -> None:
    play = busy()
    play.send("a")

    play.tell(agent_events.TurnEnded, turn=TURN, outcome="completed", tree_view=EXHAUSTED)
    assert play.session.phase is Phase.STOPPING
    play.tell(agent_events.AgentClosed)

    assert play.session.stop_reason == "budget_exceeded"
    assert play.session.stop_detail == "120 of 100 tokens used, in the budget of s_root"
    assert play.settled["a"] == "cancelled"


def test_an_exhausted_turns_budget_has_its_own_reason() -> None:
    play = busy()
    short = TreeView(exhausted_budget=ExhaustedBudget("turns", 1, 1, SessionId("s_1")))

    play.tell(agent_events.TurnEnded, turn=TURN, outcome="completed", tree_view=short)
    play.tell(agent_events.AgentClosed)

    assert play.session.stop_reason == "max_turns"


def test_an_idle_session_with_inputs_stops_on_an_exhausted_budget() -> None:
    play = idle()
    play.send("a", tree_view=NO_TURN_SLOT)

    recheck(play, tree_view=EXHAUSTED)

    assert play.session.phase is Phase.STOPPING
    assert CloseAgent() in play.last.effects
