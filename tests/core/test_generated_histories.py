"""Hypothesis histories of the core: the invariants of `test_histories`, with shrinking."""

import json
import random
from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.fold import fold
from supervisor.core.state import Phase, SessionState
from supervisor.core.step import Refused, Step
from supervisor.core.table import decide
from tests.support.event_histories import history

Told = tuple[SessionState, ev.Event, Step]


def check_one_step(session: SessionState, event: ev.Event, step: Step) -> None:
    after = step.state
    # 39: the fold of the records, as read from a store, is the row.
    folded = session
    for fact in step.facts:
        folded = fold(folded, fact.changed(body=json.loads(json.dumps(fact.body))))
    assert folded == after
    # 3: a refused request changes nothing.
    if isinstance(step.reply, Refused):
        assert (after, step.effects) == (session, ())
    # 1, 25: a turn is open exactly when the phase says so.
    busy = after.phase in (Phase.RUNNING, Phase.INTERRUPTING)
    assert (after.turn is not None) == busy or after.phase is Phase.STOPPING
    # 4, 5: waiting inputs are in order, bounded, and of this generation.
    orders = [waiting.order for waiting in after.inputs]
    assert orders == sorted(set(orders))
    assert len([w for w in after.inputs if w.source != "child"]) <= after.terms.queue_cap
    assert all(waiting.generation == after.generation for waiting in after.inputs)
    # 7: counters never decrease.
    for name in ("accepted", "generation", "epoch", "chapter", "turns", "restarts"):
        assert getattr(session, name) <= getattr(after, name)
    # 19: a requested stop is not a crash, and a crash that waits for children stays one.
    if session.phase is Phase.STOPPING and after.phase is Phase.STOPPED:
        assert session.stopping is not None
        crashed = session.stopping.cause == "process_exited"
        assert (after.stop_reason == "agent_crashed") == crashed
    # 12, 13: no session stops before its dependents.
    if after.phase is Phase.STOPPED and session.phase is not Phase.STOPPED:
        assert event.tree_view.dependents == 0
    # 8: no session wakes without a child slot, nor runs without a turn slot.
    if session.phase is Phase.SUSPENDED and event.tree_view.child_slots_full:
        assert after.phase in (Phase.SUSPENDED, Phase.STOPPING, Phase.STOPPED)
    has_begun = isinstance(
        event, agent_events.SteeringBeganTurn
    )  # by itself, in the slot of its last turn
    if (event.tree_view.turn_slots_full or event.tree_view.exhausted_budget) and not has_begun:
        assert after.turns == session.turns


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(chance=st.randoms(use_true_random=False), length=st.integers(1, 120))
def test_no_history_breaks_an_invariant(chance: random.Random, length: int) -> None:
    accepted: Counter[str] = Counter()
    settled: Counter[str] = Counter()
    for session, event in history(chance, length):
        step = decide(session, event)
        check_one_step(session, event, step)
        accepted.update(f.body["input_id"] for f in step.facts if f.kind == "input_accepted")
        settled.update(f.body["input_id"] for f in step.facts if f.kind == "input_settled")
        # 2: every accepted input is settled once, or waits.
        assert accepted == settled + Counter(waiting.id for waiting in step.state.inputs)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(chance=st.randoms(use_true_random=False), length=st.integers(1, 60))
def test_a_repeated_recovery_has_the_same_result(chance: random.Random, length: int) -> None:
    for session, event in history(chance, length):
        told = agent_events.SupervisorRestarted(
            at=event.at, fresh=event.fresh, epoch=session.epoch + 1
        )
        once = decide(session, told).state

        again = told.changed(epoch=once.epoch + 1)
        twice = decide(once, again).state

        # 24, 25: a turn started meanwhile is lost by the second exit; all else stays.
        if once.phase is not Phase.RUNNING:
            assert (twice.phase, twice.turn, twice.inputs) == (once.phase, None, once.inputs)
            assert twice.restarts == once.restarts
