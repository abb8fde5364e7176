"""Silence of a turn: reported in time, once, and never while it waits for a person."""
# ruff: noqa: ANN401 - the terms of a session are passed on as they are

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.effects import SetTimer
from supervisor.core.ids import CallId, InputId, RequestId, SessionId, TurnId
from supervisor.core.limits import Terms
from supervisor.core.liveness import SilenceCheck, check_silence, first_check_seconds, stall_limit
from supervisor.core.state import OpenCall, OpenRequest, OpenTurn, Phase, SessionState, Silence
from supervisor.core.table import decide

DEFAULTS = Terms()
TURN = TurnId("turn_1")
CALL = OpenCall(CallId("call_1"), "bash")
REQUEST = OpenRequest(RequestId("req_1"), "bash", "may I?", ("allow_once",), asked_at=0.0)


def session(terms: Terms = DEFAULTS, **turn: Any) -> SessionState:
    opened = OpenTurn(TURN, InputId("in_1"), "user", 0.0, **turn)
    return SessionState(
        id=SessionId("s_1"), agent_name="agent", phase=Phase.RUNNING, terms=terms, turn=opened
    )


class Watch:
    """A session that is checked when its timer is due, on its own clock."""

    def __init__(self, terms: Terms) -> None:
        self.session = session(terms)
        self.now = self.progress_at = 0.0
        # When the next check is due; the first is set as the turn starts.
        self.due: float | None = first_check_seconds(terms)
        self.said: list[tuple[Silence, float]] = []
        self.looks = 0

    def tell(self, kind: type[Any], **words: Any) -> None:
        event = kind(at=self.now, fresh=TurnId("turn_9"), **words)
        step = decide(self.session, event)
        self.session = step.state
        for effect in step.effects:
            if isinstance(effect, SetTimer) and effect.name == "silence":
                self.due = self.now + effect.after_seconds

    def wait(self, seconds: float) -> None:
        """Let time pass, and check whenever it is due."""
        until = self.now + seconds
        while self.due is not None and self.due <= until:
            self.now = max(self.now, self.due)
            self.look()
        self.now = until

    def look(self) -> None:
        self.looks += 1
        assert self.looks < 10_000, "it looks and looks and nothing comes of it"
        silent = self.now - self.progress_at
        look = check_silence(self.session, silent)
        if look.level is not None:
            self.said.append((look.level, silent))
            words = {"waits_for": "model", "detail": None, "since": 0.0, "seconds": silent}
            self.tell(agent_events.SilenceNoticed, turn=TURN, level=look.level, **words)
            look = check_silence(self.session, silent)
        again = look.next_check_seconds
        # A clock advances at least by its resolution.
        self.due = (
            None if again is None else max(self.now + again, math.nextafter(self.now, math.inf))
        )

    def progress(self) -> None:
        self.progress_at = self.now
        turn = self.session.turn
        if turn is not None and turn.silence is not None:
            self.tell(agent_events.ProgressMade, turn=TURN)

    def start_call(self) -> None:
        self.tell(agent_events.CallStarted, turn=TURN, call=CALL.id, name=CALL.name)
        self.progress()

    def end_call(self) -> None:
        self.tell(agent_events.CallEnded, turn=TURN, call=CALL.id, outcome="completed")
        self.progress()

    def ask(self) -> None:
        words = {"tool": "bash", "question": "may I?"}
        self.tell(agent_events.PermissionAsked, turn=TURN, request=REQUEST.id, **words)
        self.progress()

    def answer(self) -> None:
        self.tell(ev.RequestAnswered, request=REQUEST.id, decision="allow_once")
        self.progress()

    @property
    def stalls(self) -> list[float]:
        return [silent for level, silent in self.said if level == "stalled"]


def latest(limit: float) -> float:
    return max(1.1 * limit, limit + 1.0)


SECONDS = st.floats(0.01, 2000.0)
LIMITS = st.floats(20.0, 2000.0)
# A tool limit may be longer than the others, or equal.
TERMS = st.builds(
    lambda quiet, stalled, more: Terms(
        quiet_after_seconds=quiet,
        stalled_after_seconds=stalled,
        tool_stalled_after_seconds=stalled + more,
    ),
    *(LIMITS, LIMITS, st.floats(0.0, 2000.0)),
)
MOVES = st.lists(
    st.tuples(SECONDS, st.sampled_from(["progress", "start_call", "end_call", "ask", "answer"])),
    max_size=12,
)


# Properties ------------------------------------------------------------------------------


@given(TERMS, MOVES)
def test_a_stall_is_reported_in_time_and_never_too_early(
    terms: Terms, moves: list[tuple[float, str]]
) -> None:
    watch = Watch(terms)
    for seconds, move in moves:
        watch.wait(seconds)
        getattr(watch, move)()
    assert watch.session.turn is not None
    if watch.session.turn.requests:
        watch.answer()
    before = len(watch.stalls)

    watch.wait(latest(stall_limit(terms, watch.session.turn)) * 1.001)

    shortest = terms.stalled_after_seconds
    assert len(watch.stalls) == before + 1
    for silent in watch.stalls:
        assert silent >= shortest
        assert silent <= latest(terms.tool_stalled_after_seconds)
    assert watch.stalls[-1] <= latest(stall_limit(terms, watch.session.turn))


@given(TERMS, MOVES)
def test_each_silence_is_reported_once(terms: Terms, moves: list[tuple[float, str]]) -> None:
    watch = Watch(terms)
    for seconds, move in moves:
        before = len(watch.said)
        watch.wait(seconds)
        said = [level for level, _ in watch.said[before:]]
        assert said in ([], ["quiet"], ["stalled"], ["quiet", "stalled"])
        getattr(watch, move)()


@given(TERMS, st.floats(0.0, 1e6), st.sampled_from(["quiet", "stalled", None]))
def test_a_turn_that_waits_for_a_person_is_not_silent(
    terms: Terms, silent: float, was: Silence | None
) -> None:
    look = check_silence(session(terms, requests=(REQUEST,), silence=was), silent)

    assert look.level is None
    assert look.next_check_seconds is not None


@given(TERMS, st.floats(0.0, 1e4), st.booleans())
def test_the_next_check_is_ahead_and_never_after_the_limit(
    terms: Terms,
    silent: float,
    in_call: bool,  # noqa: FBT001 - drawn, not written
) -> None:
    now = session(terms, calls=(CALL,) if in_call else ())
    assert now.turn is not None

    look = check_silence(now, silent)

    if look.next_check_seconds is not None:
        assert look.next_check_seconds > 0.0
        left = stall_limit(terms, now.turn) - silent
        assert look.next_check_seconds <= max(left, 0.001)


# Examples --------------------------------------------------------------------------------


def test_a_session_without_turn_is_not_checked() -> None:
    resting = SessionState(id=SessionId("s_1"), agent_name="agent", phase=Phase.IDLE)

    assert check_silence(resting, math.inf) == SilenceCheck(None, None)


@pytest.mark.parametrize(
    ("silent", "level"),
    [(0.0, None), (119.9, None), (120.0, "quiet"), (299.9, "quiet"), (300.0, "stalled")],
)
def test_a_silent_turn_is_quiet_then_stalled(silent: float, level: Silence | None) -> None:
    assert check_silence(session(), silent).level == level


@pytest.mark.parametrize(
    ("silent", "level"), [(300.0, "quiet"), (899.0, "quiet"), (900.0, "stalled")]
)
def test_a_tool_call_has_a_longer_limit(silent: float, level: Silence | None) -> None:
    assert check_silence(session(calls=(CALL,)), silent).level == level


def test_quiet_and_stalled_are_reported_once() -> None:
    assert check_silence(session(silence="quiet"), 299.0).level is None
    assert check_silence(session(silence="quiet"), 300.0).level == "stalled"
    assert check_silence(session(silence="stalled"), 1e6) == SilenceCheck(None, None)


def test_the_shorter_limit_applies_when_a_call_has_ended() -> None:
    watch = Watch(Terms())
    watch.wait(10.0)
    watch.start_call()
    watch.wait(800.0)
    watch.end_call()

    watch.wait(330.0)

    assert watch.stalls == [300.0]


def test_silence_is_measured_from_the_answer() -> None:
    watch = Watch(Terms())
    watch.wait(100.0)
    watch.ask()
    watch.wait(100_000.0)
    assert watch.said == []
    watch.answer()

    watch.wait(330.0)

    assert [level for level, _ in watch.said] == ["quiet", "stalled"]
    assert watch.stalls == [300.0]


def test_progress_resets_the_timer() -> None:
    watch = Watch(Terms())
    watch.wait(1000.0)
    watch.progress()
    watch.wait(1000.0)

    assert [level for level, _ in watch.said] == ["quiet", "stalled", "quiet", "stalled"]


def test_a_tool_limit_below_the_other_limits_applies() -> None:
    watch = Watch(Terms(tool_stalled_after_seconds=60.0))
    watch.wait(1.0)
    watch.start_call()

    watch.wait(200.0)

    assert 60.0 <= watch.stalls[0] <= latest(60.0)


@pytest.mark.parametrize("progress_at", [212.3, 212.8, 213.3])
def test_a_next_check_is_always_later(progress_at: float) -> None:
    now = progress_at + 300.0
    look = check_silence(session(silence="quiet"), now - progress_at)

    assert look.next_check_seconds is None or now + look.next_check_seconds > now


def test_a_turn_is_checked_rarely() -> None:
    watch = Watch(Terms())
    for _ in range(1000):
        watch.wait(10.0)
        watch.progress()

    assert watch.looks <= 100
