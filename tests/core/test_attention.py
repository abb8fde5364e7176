"""What a person should look at: what adds it, and the three things that remove it."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.attention import attention_of
from supervisor.core.info import Need, make_info, need_of
from supervisor.core.limits import Restart
from supervisor.core.session_values import LastOutcome, Phase
from tests.support.core_session import CRASH, EXHAUSTED, CoreSession

NEVER = Restart(policy="never")


def claimed() -> CoreSession:
    play = CoreSession()
    play.tell(agent_events.Claimed, epoch=1)
    return play.attach()


def in_turn(name: str = "first") -> CoreSession:
    play = claimed()
    play.send(name)
    return play


def end(play: CoreSession, outcome: str, **words: Any) -> None:  # noqa: ANN401 - fields of the event
    assert play.session.turn is not None
    play.now += 1.0
    play.tell(agent_events.TurnEnded, turn=play.session.turn.id, outcome=outcome, **words)


def ask(play: CoreSession) -> None:
    assert play.session.turn is not None
    play.tell(
        agent_events.PermissionAsked,
        turn=play.session.turn.id,
        request="req_1",
        tool="bash",
        question="may I?",
        options=("allow_once", "reject_once"),
    )


def shown(play: CoreSession) -> list[tuple[str, str | None]]:
    return [(item.kind, item.detail) for item in attention_of(play.session)]


def need(play: CoreSession) -> Need:
    return need_of(make_info(play.session, last_seq=len(play.kinds)))


def see(play: CoreSession, seq: int | None = None) -> None:
    play.tell(ev.RecordsSeen, seq=len(play.kinds) if seq is None else seq)


def failed() -> CoreSession:
    play = in_turn()
    end(play, "failed", error="no disk")
    return play


@pytest.mark.parametrize(
    ("outcome", "items"),
    [
        ("completed", []),
        ("interrupted", []),
        ("failed", [("failed_turn", "no disk")]),
        ("timed_out", [("failed_turn", "no disk")]),
        ("lost", [("lost_turn", "no disk")]),
    ],
)
def test_the_end_of_a_turn_is_kept_with_its_reason(
    outcome: str, items: list[tuple[str, str]]
) -> None:
    play = in_turn()

    end(play, outcome, error="no disk")

    info = make_info(play.session, last_seq=len(play.kinds))
    assert play.kinds[-1] == "turn_ended"
    assert info.last_outcome == LastOutcome(outcome, "no disk", 1.0, "turn_3", len(play.kinds))  # type: ignore[arg-type]
    assert shown(play) == items
    assert need(play) == ("failed" if items else "finished")


def test_seen_removes_only_what_was_seen() -> None:
    play = failed()
    (item,) = attention_of(play.session)

    see(play, item.seq - 1)
    assert need(play) == "failed"

    see(play, item.seq)
    assert shown(play) == []
    assert need(play) == "idle"


def test_a_second_look_adds_no_record() -> None:
    play = failed()

    see(play)
    see(play)
    see(play, 3)

    assert play.kinds.count("seen") == 1
    assert play.session.seen_seq == len(play.kinds)


def test_a_later_completed_turn_removes_a_failure() -> None:
    play = failed()

    play.send("second")
    assert need(play) == "running"
    end(play, "completed")

    assert shown(play) == []


@pytest.mark.parametrize(
    ("outcomes", "kinds"),
    [
        (("lost", "failed"), ["failed_turn", "lost_turn"]),
        (("failed", "lost"), ["lost_turn", "failed_turn"]),
    ],
)
def test_the_newest_failure_of_a_turn_comes_first(
    outcomes: tuple[str, str], kinds: list[str]
) -> None:
    play = in_turn()
    end(play, outcomes[0])
    play.send("again")
    end(play, outcomes[1])

    assert [kind for kind, _ in shown(play)] == kinds


def test_a_refused_spawn_outlives_its_own_turn_only() -> None:
    play = in_turn()
    play.now += 1.0
    play.tell(
        ev.ChildRefused, agent="a", limit="max_children", used=5, allowed=5, detail="it is full"
    )

    end(play, "completed")
    assert shown(play) == [("refused_spawn", "max_children: it is full")]

    play.send("second")
    end(play, "completed")
    assert shown(play) == []


def test_an_open_request_is_shown_until_it_is_answered() -> None:
    play = in_turn()
    ask(play)
    see(play)

    assert shown(play) == [("permission", "bash: may I?")]
    assert need(play) == "waiting"

    play.tell(ev.RequestAnswered, request="req_1", decision="allow_once")
    assert shown(play) == []


def test_a_request_that_timed_out_is_shown_after_a_good_turn() -> None:
    play = in_turn()
    ask(play)
    play.now += 1.0
    play.tell(agent_events.RequestTimedOut, request="req_1")
    end(play, "completed")

    assert shown(play) == [("permission_timeout", "bash: may I?")]


def test_a_question_is_shown_until_it_is_answered_or_times_out() -> None:
    play = in_turn()
    assert play.session.turn is not None
    for name in ("req_1", "req_2"):
        play.tell(
            ev.QuestionAsked, turn=play.session.turn.id, question_id=name, question=f"{name}?"
        )
    assert shown(play) == [("question", "req_1?"), ("question", "req_2?")]
    assert need(play) == "waiting"

    play.tell(agent_events.RequestTimedOut, request="req_1")
    assert shown(play) == [("question", "req_2?"), ("permission_timeout", "req_1?")]

    play.tell(ev.QuestionAnswered, request="req_2", text="yes")
    assert shown(play) == []


def test_a_stall_and_a_login_are_shown_while_they_last() -> None:
    play = in_turn()
    assert play.session.turn is not None
    turn = play.session.turn.id
    play.tell(
        agent_events.SilenceNoticed,
        turn=turn,
        level="stalled",
        waits_for="tool",
        detail="bash",
        since=0.0,
        seconds=300.0,
    )
    play.tell(agent_events.AuthenticationRequested, method="oauth")
    see(play)
    assert shown(play) == [("login", "oauth"), ("stall", "waits for tool bash")]

    play.tell(agent_events.ProgressMade, turn=turn)
    play.tell(agent_events.AuthenticationRequested, method=None)
    assert shown(play) == []
    assert play.session.attention == ()


def test_a_stop_by_a_budget_and_a_crash_stay_until_seen() -> None:
    spent = claimed()
    spent.send("first")
    end(spent, "completed", tree_view=EXHAUSTED)
    spent.tell(agent_events.AgentClosed)
    crashed = claimed()
    crashed.session = attrs.evolve(
        crashed.session, terms=attrs.evolve(crashed.session.terms, restart=NEVER)
    )
    crashed.tell(agent_events.AgentExited, failure=CRASH)

    assert [kind for kind, _ in shown(spent)] == ["budget"]
    assert [kind for kind, _ in shown(crashed)] == ["failed_session"]
    assert (spent.session.phase, crashed.session.phase) == (Phase.STOPPED, Phase.STOPPED)
    for play in (spent, crashed):
        assert need(play) == "failed"
        see(play)
        assert need(play) == "resting"


def test_an_archived_session_needs_nothing_and_is_read_only() -> None:
    play = failed()
    play.tell(ev.StopRequested)
    play.tell(agent_events.AgentClosed)
    play.tell(ev.ArchiveRequested)

    assert (shown(play), need(play)) == ([], "resting")
    records = len(play.kinds)
    see(play)
    assert len(play.kinds) == records
    play.tell(ev.UnarchiveRequested)
    assert shown(play) == []


def test_records_before_the_first_claim_of_this_version_change_nothing() -> None:
    play = CoreSession().attach()
    play.send("first")
    end(play, "failed", error="no disk")

    assert make_info(play.session, last_seq=9).last_outcome is None
    assert play.session.attention == ()


def test_a_turn_after_a_failure_runs_until_it_fails_too() -> None:
    play = failed()
    assert need(play) == "failed"

    play.send("again")
    assert need(play) == "running"
    assert shown(play) == [("failed_turn", "no disk")]

    end(play, "interrupted")
    assert need(play) == "failed"
