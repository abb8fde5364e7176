"""Rules for silence, deadlines and restarts of a turn."""
# ruff: noqa: ANN401 - the words of an event are passed on as they are

from typing import Any

import pytest

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.effects import (
    CancelTurn,
    ClearTimer,
    CloseAgent,
    SetTimer,
)
from supervisor.core.limits import Restart
from supervisor.core.state import Phase
from tests.support.core_session import TURN, CoreSession, bodies, busy, idle, with_terms


def silence(play: CoreSession, level: str = "stalled", **words: Any) -> None:
    given = {"turn": TURN, "level": level, "waits_for": "tool", "detail": "bash"}
    play.tell(agent_events.SilenceNoticed, **given, since=0.0, seconds=300.0, **words)


def stalled(on_stall: str, **terms: Any) -> CoreSession:
    play = with_terms(busy(), on_stall=on_stall, **terms)
    silence(play)
    return play


def test_a_quiet_turn_is_only_recorded() -> None:
    play = with_terms(busy(), on_stall="stop")

    silence(play, "quiet")

    assert play.kinds[-1] == "quiet"
    assert (play.session.phase, play.last.effects) == (Phase.RUNNING, ())


def test_a_stall_record_names_the_wait_of_the_turn() -> None:
    play = stalled("notify")

    said = bodies(play, "stalled")[0]
    assert (said["waits_for"], said["detail"], said["seconds"]) == ("tool", "bash", 300.0)
    assert play.session.phase is Phase.RUNNING


@pytest.mark.parametrize("on_stall", ["notify", "interrupt", "restart", "stop"])
def test_each_stall_is_recorded_and_acted_on_once(on_stall: str) -> None:
    play = stalled(on_stall)

    for level in ("stalled", "quiet"):
        silence(play, level)
        assert (play.last.facts, play.last.effects) == ((), ())


def test_progress_ends_a_silence_and_restarts_the_count() -> None:
    play = stalled("notify")

    play.tell(agent_events.ProgressMade, turn=TURN)
    assert SetTimer("silence", 120.0) in play.last.effects
    play.tell(agent_events.ProgressMade, turn=TURN)
    assert play.last.facts == ()
    silence(play)

    assert play.kinds[-3:] == ["stalled", "progress_resumed", "stalled"]


def test_the_silence_of_another_turn_is_ignored() -> None:
    play = with_terms(busy(), on_stall="stop")

    for kind in (agent_events.ProgressMade, agent_events.DeadlineElapsed):
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

    play.tell(agent_events.TurnEnded, turn=TURN, outcome="interrupted")

    assert play.running == "a"


def test_a_stalled_session_is_stopped_with_its_evidence_and_its_queue_held() -> None:
    play = stalled("stop")
    assert play.session.phase is Phase.STOPPING

    play.tell(agent_events.TurnEnded, turn=TURN, outcome="interrupted")
    play.tell(agent_events.AgentClosed)

    assert play.session.stop_reason == "timeout"
    assert play.session.stop_detail == "no progress for 300 s, waiting for tool bash"
    assert play.session.last_failure is not None
    assert play.session.last_failure.kind == "timeout"


def test_a_stalled_agent_is_restarted_when_its_turn_has_ended() -> None:
    play = stalled("restart")
    play.send("a")

    play.tell(agent_events.TurnEnded, turn=TURN, outcome="interrupted")

    assert play.session.phase is Phase.RESTARTING
    assert play.last.effects[-2:] == (CloseAgent(), SetTimer("backoff", 0.5))
    assert (play.session.restarts, play.queue) == (1, ["a"])


def test_stalls_that_are_restarted_count_with_crashes_and_end_as_a_timeout() -> None:
    play = stalled("restart", restart=Restart(max_restarts=0))

    play.tell(agent_events.TurnEnded, turn=TURN, outcome="interrupted")

    assert (play.session.phase, play.session.stop_reason) == (Phase.STOPPED, "timeout")
    assert CloseAgent() in play.last.effects


def test_a_user_stop_of_a_stalled_turn_is_not_a_restart() -> None:
    play = stalled("restart")
    play.tell(ev.StopRequested)

    play.tell(agent_events.TurnEnded, turn=TURN, outcome="interrupted")
    play.tell(agent_events.AgentClosed)

    assert (play.session.stop_reason, play.session.restarts) == ("user_cancelled", 0)


def test_an_interrupted_turn_is_not_acted_on_for_silence() -> None:
    play = with_terms(busy(), on_stall="stop")
    play.tell(ev.InterruptRequested)

    silence(play)

    assert (play.session.phase, play.last.facts) == (Phase.INTERRUPTING, ())


def test_a_turn_past_its_deadline_times_out_and_the_next_starts() -> None:
    play = with_terms(idle(), turn_deadline_seconds=60.0)
    play.send("a")
    assert SetTimer("deadline", 60.0) in play.last.effects
    play.send("b")

    play.tell(agent_events.DeadlineElapsed, turn=TURN)
    play.tell(agent_events.TurnEnded, turn=TURN, outcome="interrupted")

    assert bodies(play, "turn_ended")[0]["outcome"] == "timed_out"
    assert ClearTimer("deadline") in play.last.effects
    assert play.running == "b"


def test_a_turn_that_ends_at_its_deadline_is_completed() -> None:
    play = busy()
    play.tell(agent_events.DeadlineElapsed, turn=TURN)

    play.end_turn()

    assert bodies(play, "turn_ended")[0]["outcome"] == "completed"


def test_an_agent_that_ignores_its_deadline_is_abandoned_as_timed_out() -> None:
    play = busy()
    play.tell(agent_events.DeadlineElapsed, turn=TURN)

    play.tell(agent_events.LadderElapsed, turn=TURN, step="ask")

    assert bodies(play, "turn_ended")[0]["outcome"] == "timed_out"
    assert play.session.zombie == TURN


def test_a_turn_that_a_user_interrupted_first_is_interrupted() -> None:
    play = busy()
    play.tell(ev.InterruptRequested)
    play.tell(agent_events.DeadlineElapsed, turn=TURN)

    play.tell(agent_events.TurnEnded, turn=TURN, outcome="interrupted")

    assert bodies(play, "turn_ended")[0]["outcome"] == "interrupted"


def test_a_lost_turn_stays_lost_after_its_deadline() -> None:
    play = busy()
    play.tell(agent_events.DeadlineElapsed, turn=TURN)

    play.tell(agent_events.Claimed, epoch=2)

    assert bodies(play, "turn_ended")[0]["outcome"] == "lost"


def test_restart_pauses_double_and_jitter_only_shortens_a_pause() -> None:
    pauses = []
    play = with_terms(busy(), restart=Restart(max_restarts=9, backoff_seconds=1.0))
    for jitter in (0.0, 0.0, 1.0):
        play.tell(agent_events.AgentExited, jitter=jitter)
        pauses += [e.after_seconds for e in play.last.effects if isinstance(e, SetTimer)]

    assert pauses == [1.0, 2.0, 2.0]


def test_a_restarting_session_stops_at_once() -> None:
    play = busy()
    play.tell(agent_events.AgentExited)
    assert play.session.phase is Phase.RESTARTING

    play.tell(ev.StopRequested)
    assert ClearTimer("backoff") in play.last.effects
    play.tell(agent_events.AgentClosed)

    assert (play.session.stop_reason, play.session.restarts) == ("user_cancelled", 1)


def test_a_session_suspends_instead_of_restarting_during_shutdown() -> None:
    play = busy()
    play.tell(agent_events.ShutdownRequested)

    play.tell(agent_events.AgentExited)

    assert play.session.phase is Phase.SUSPENDED
    assert ClearTimer("backoff") in play.last.effects


def test_a_turn_is_watched_from_its_start() -> None:
    play = with_terms(idle(), quiet_after_seconds=50.0, stalled_after_seconds=40.0)

    play.send("a")

    assert SetTimer("silence", 40.0) in play.last.effects
