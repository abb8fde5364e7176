"""Hypothesis sweeps the core: the same promises as in `test_histories`, found and made small."""

import json
import random
from collections import Counter

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor.core import events as ev
from supervisor.core.folds import fold
from supervisor.core.session import Phase, Session
from supervisor.core.step import Refused, Step
from supervisor.core.table import decide
from tests.core.histories import history

Told = tuple[Session, ev.Event, Step]


def check_one_step(session: Session, event: ev.Event, step: Step) -> None:
    after = step.session
    # 39: folding the records, as they come back from a store, gives the row.
    folded = session
    for fact in step.facts:
        folded = fold(folded, attrs.evolve(fact, body=json.loads(json.dumps(fact.body))))
    assert folded == after
    # 3: who is refused has changed nothing.
    if isinstance(step.reply, Refused):
        assert (after, step.effects) == (session, ())
    # 1, 25: a turn is open exactly when the phase says so.
    busy = after.phase in (Phase.RUNNING, Phase.INTERRUPTING)
    assert (after.turn is not None) == busy or after.phase is Phase.STOPPING
    # 4, 5: what waits is in order, within its bound, and of this generation.
    orders = [waiting.order for waiting in after.inputs]
    assert orders == sorted(set(orders))
    assert len([w for w in after.inputs if w.source != "child"]) <= after.terms.queue_cap
    assert all(waiting.generation == after.generation for waiting in after.inputs)
    # 7: what only grows only grows.
    for name in ("accepted", "generation", "epoch", "chapter", "turns", "restarts"):
        assert getattr(session, name) <= getattr(after, name)
    # 19: a stop that was asked for is no crash, and a crash that waits for children stays one.
    if session.phase is Phase.STOPPING and after.phase is Phase.STOPPED:
        assert session.stopping is not None
        crashed = session.stopping.cause == "process_exited"
        assert (after.stop_reason == "agent_crashed") == crashed
    # 12, 13: nobody ends before those who live with it.
    if after.phase is Phase.STOPPED and session.phase is not Phase.STOPPED:
        assert event.situation.dependents == 0
    # 8: nobody wakes where there is no place, nor runs where there is none.
    if session.phase is Phase.SUSPENDED and event.situation.no_place:
        assert after.phase in (Phase.SUSPENDED, Phase.STOPPING, Phase.STOPPED)
    has_begun = isinstance(event, ev.SteeringBeganTurn)  # by itself, in the place of its last turn
    if (event.situation.no_turn or event.situation.shortage) and not has_begun:
        assert after.turns == session.turns


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(chance=st.randoms(use_true_random=False), length=st.integers(1, 120))
def test_no_history_breaks_a_promise(chance: random.Random, length: int) -> None:
    accepted: Counter[str] = Counter()
    settled: Counter[str] = Counter()
    for session, event in history(chance, length):
        step = decide(session, event)
        check_one_step(session, event, step)
        accepted.update(f.body["input_id"] for f in step.facts if f.kind == "input_accepted")
        settled.update(f.body["input_id"] for f in step.facts if f.kind == "input_settled")
        # 2: every accepted input is settled once, or waits.
        assert accepted == settled + Counter(waiting.id for waiting in step.session.inputs)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(chance=st.randoms(use_true_random=False), length=st.integers(1, 60))
def test_a_recovery_that_is_told_again_ends_the_same(chance: random.Random, length: int) -> None:
    for session, event in history(chance, length):
        told = ev.SupervisorRestarted(at=event.at, fresh=event.fresh, epoch=session.epoch + 1)
        once = decide(session, told).session

        again = attrs.evolve(told, epoch=once.epoch + 1)
        twice = decide(once, again).session

        # 24, 25: what it began to run meanwhile is lost by the second death; all else stays.
        if once.phase is not Phase.RUNNING:
            assert (twice.phase, twice.turn, twice.inputs) == (once.phase, None, once.inputs)
            assert twice.restarts == once.restarts
