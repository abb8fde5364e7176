"""Recovery after the supervisor was killed: every stored session has one outcome, once."""

import functools
import random
from collections.abc import Callable, Iterable
from itertools import permutations
from typing import Any

import attrs
import pytest

from supervisor.core import agent_events, text
from supervisor.core.effects import StartAgent, StartTurn
from supervisor.core.endings import ENDINGS
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.limits import Lineage, Restart, Terms
from supervisor.core.recovery import RecoveryPlan, RecoveryStep, needs_no_recovery, plan
from supervisor.core.state import OpenTurn, PendingInput, Phase, SessionState, Stopping
from supervisor.core.step import Step
from supervisor.core.table import decide
from tests.support.event_histories import history

AT = 100_000.0
LATER = AT + 10_000.0
# Phases after a recovery.
SETTLED = {Phase.STOPPED, Phase.SUSPENDED, Phase.RESTARTING}
SEEDS = range(150)

Rows = dict[SessionId, SessionState]


def everywhere(check: Callable[[random.Random], None]) -> Callable[[], None]:
    """Turn a check that must hold in every forest into a test that names the failing seed."""

    @functools.wraps(check)
    def test() -> None:
        for seed in SEEDS:
            try:
                check(random.Random(seed))
            except AssertionError as problem:
                problem.add_note(f"in the forest of seed {seed}")
                raise

    del test.__wrapped__  # pytest would ask for a fixture `chance`
    return test


def forest(chance: random.Random) -> list[SessionState]:
    """Return sessions in all phases, in trees, some expired, some with a deleted parent."""
    rows: list[SessionState] = []
    for number in range(chance.randint(1, 9)):
        lived = [session for session, _ in history(chance, chance.randint(1, 40))]
        above = chance.choice([None, *(row.id for row in rows)])
        if chance.random() < 0.05:
            above = SessionId("s_gone")
        lineage = Lineage(
            parent=above,
            lifetime=chance.choice(["with_parent", "with_parent", "detached"]),
            expires_at=chance.choice([None] * 9 + [AT - 1.0, AT, LATER + 1.0]),
        )
        # All begin in starting, and many stop soon, so the other phases are made likelier.
        rare = sorted({one.phase for one in lived} - {Phase.STARTING, Phase.STOPPED})
        wanted = chance.choice(rare) if rare and chance.random() < 0.8 else None
        row = chance.choice([one for one in lived if wanted in (None, one.phase)])
        created = float(number // 2)
        rows.append(row.changed(id=SessionId(f"s_{number}"), lineage=lineage, created_at=created))
    return rows


def carry_out(
    rows: Iterable[SessionState], tellings: Iterable[RecoveryStep]
) -> tuple[Rows, list[Step]]:
    """Apply the plan: decide each event and keep the new state."""
    told = {row.id: row for row in rows}
    steps = []
    for number, telling in enumerate(tellings):
        row = told[telling.session]
        assert telling.tree_view.dependents == len(dependents_of(row, told))
        event = telling.event(epoch=row.epoch + 1, fresh=TurnId(f"fresh_{number}"))
        steps.append(decide(row, event))
        told[row.id] = steps[-1].state
    return told, steps


def dependents_of(row: SessionState, rows: Rows) -> list[SessionState]:
    return [
        one
        for one in rows.values()
        if one.lineage.parent == row.id
        and one.lineage.lifetime == "with_parent"
        and one.phase is not Phase.STOPPED
    ]


def recovered(rows: Iterable[SessionState], at: float = AT) -> Rows:
    rows = list(rows)
    return carry_out(rows, plan(rows, at=at).steps)[0]


def essence(rows: Rows) -> dict[SessionId, SessionState]:
    """Return the rows without the marks of their claims, and without record numbers."""
    claimed = [row.changed(epoch=0, keeps_attention=False) for row in rows.values()]
    return {row.id: _without_numbers(row) for row in claimed}


def _without_numbers(row: SessionState) -> SessionState:
    ended = row.last_turn and (*row.last_turn[:-1], 0)
    items = tuple(attrs.evolve(item, seq=0) for item in row.attention)
    return row.changed(last_turn=ended, attention=items)


def a_row(name: str, phase: Phase, **changes: Any) -> SessionState:  # noqa: ANN401 - fields of a session
    changes.setdefault("created_at", 0.0)
    return SessionState(id=SessionId(name), agent_name="agent", phase=phase, **changes)


def below(parent: str, **changes: Any) -> Lineage:  # noqa: ANN401 - fields of a lineage
    return Lineage(parent=SessionId(parent), **changes)


def running(name: str, **changes: Any) -> SessionState:  # noqa: ANN401 - fields of a session
    turn = OpenTurn(TurnId("turn_1"), InputId("in_1"), "user", started_at=10.0)
    return a_row(name, Phase.RUNNING, turn=turn, updated_at=15.0, **changes)


def waiting(name: str, at: float = 0.0, **changes: Any) -> PendingInput:  # noqa: ANN401
    return PendingInput(InputId(name), 1, "hello", "queue", "user", at, generation=0, **changes)


def told(planned: RecoveryPlan) -> list[tuple[str, str]]:
    return [(telling.session, telling.kind) for telling in planned.steps]


# Properties ------------------------------------------------------------------------------


@everywhere
def test_every_stored_session_has_one_outcome(chance: random.Random) -> None:
    rows = forest(chance)

    planned = plan(rows, at=AT)

    after, _ = carry_out(rows, planned.steps)
    assert planned.outcomes == {row.id: row.phase for row in after.values()}
    assert set(planned.outcomes.values()) <= SETTLED
    assert all(row.turn is None and row.agent is None for row in after.values())
    assert all(row.zombie is None and not row.leaving for row in after.values())


@everywhere
def test_a_killed_and_repeated_recovery_has_the_same_outcome(
    chance: random.Random,
) -> None:
    rows = forest(chance)
    whole = recovered(rows)
    tellings = plan(rows, at=AT).steps

    for death in range(len(tellings) + 1):
        half, _ = carry_out(rows, tellings[:death])
        again = recovered(half.values())
        assert essence(again) == essence(whole)


@everywhere
def test_a_recovery_that_is_killed_again_and_again_ends_the_same(chance: random.Random) -> None:
    rows = forest(chance)
    whole = recovered(rows)

    now: Iterable[SessionState] = rows
    for _ in range(5):
        tellings = plan(now, at=AT).steps
        now = carry_out(now, tellings[: chance.randint(0, len(tellings))])[0].values()

    assert essence(recovered(now)) == essence(whole)


@everywhere
def test_a_child_stopped_with_its_parent_has_a_stopped_parent(
    chance: random.Random,
) -> None:
    rows = {row.id: row for row in forest(chance)}
    tellings = plan(rows.values(), at=AT).steps
    half, _ = carry_out(rows.values(), tellings[: chance.randint(0, len(tellings))])

    after = recovered(half.values(), at=LATER)

    for row in after.values():
        before = rows[row.id]
        is_new = before.phase is not Phase.STOPPED and before.stopping is None
        if row.stop_reason == "parent_stopped" and is_new:
            parent = after.get(row.lineage.parent or row.id)
            assert parent is None or parent.phase is Phase.STOPPED


@everywhere
def test_the_plan_does_not_depend_on_creation_times(
    chance: random.Random,
) -> None:
    rows = forest(chance)
    at_once = [row.changed(created_at=5.0) for row in rows]
    told = [(one.session, one.kind) for one in plan(rows, at=AT).steps]

    assert [(one.session, one.kind) for one in plan(at_once, at=AT).steps] == told


@everywhere
def test_no_dependent_outlives_its_parent(chance: random.Random) -> None:
    after = recovered(forest(chance))

    for row in after.values():
        parent = row.lineage.parent
        if row.phase is not Phase.STOPPED and parent and row.lineage.lifetime == "with_parent":
            assert after[parent].phase is not Phase.STOPPED


@everywhere
def test_children_stop_before_parents_and_younger_before_older(chance: random.Random) -> None:
    rows = forest(chance)
    planned = plan(rows, at=AT)
    _, steps = carry_out(rows, planned.steps)

    ends = [step.state for step in steps if "session_stopped" in {f.kind for f in step.facts}]
    place = {row.id: number for number, row in enumerate(ends)}
    for row in ends:
        above = row.lineage.parent
        if above in place and row.lineage.lifetime == "with_parent":
            assert place[row.id] < place[above]
    for one, other in permutations(ends, 2):
        siblings = one.lineage.parent == other.lineage.parent in place
        both = one.stop_reason == other.stop_reason == "parent_stopped"
        bound = one.lineage.lifetime == other.lineage.lifetime == "with_parent"
        if siblings and both and bound and one.created_at < other.created_at:
            assert place[one.id] > place[other.id]


@everywhere
def test_an_expired_session_is_stopped(chance: random.Random) -> None:
    rows = {row.id: row for row in forest(chance)}

    for row in recovered(rows.values()).values():
        expires_at = row.lineage.expires_at
        if expires_at is not None and expires_at <= AT:
            assert row.phase is Phase.STOPPED
            if rows[row.id].stopping is None and rows[row.id].phase is not Phase.STOPPED:
                assert row.stop_reason == "ttl_expired"


@everywhere
def test_a_queue_is_held_or_cancelled_as_its_ending_says(chance: random.Random) -> None:
    rows = {row.id: row for row in forest(chance)}

    for row in recovered(rows.values()).values():
        before = rows[row.id]
        if row.phase is Phase.STOPPED and before.phase is not Phase.STOPPED:
            assert row.stopping is not None
            # Steering that was not taken returns to the queue, and expires then.
            kept = [
                one
                for one in before.inputs
                if one.status == "queued"
                or (one.status == "staged" and (one.expires_at is None or one.expires_at > AT))
            ]
            held = ENDINGS[row.stopping.cause].inputs == "held"
            assert [one.id for one in row.inputs] == [one.id for one in kept if held]


@everywhere
def test_inputs_of_a_live_session_are_kept_or_expired(chance: random.Random) -> None:
    rows = {row.id: row for row in forest(chance)}

    for row in recovered(rows.values()).values():
        if row.phase is not Phase.STOPPED:
            before = [one for one in rows[row.id].inputs if one.status != "handed"]
            fresh = [one.id for one in before if one.expires_at is None or one.expires_at > AT]
            assert set(fresh) <= {one.id for one in row.inputs}


@everywhere
def test_restarts_are_counted_once_and_within_their_budget(chance: random.Random) -> None:
    rows = {row.id: row for row in forest(chance)}
    after = recovered(rows.values())
    again = recovered(after.values(), at=LATER)

    for row in after.values():
        assert row.restarts - rows[row.id].restarts in (0, 1)
        assert again[row.id].restarts == row.restarts
        if row.restarts > rows[row.id].restarts:
            assert len(row.recent_restarts) <= row.terms.restart.max_restarts
            assert row.terms.restart.policy != "never"


@everywhere
def test_nothing_starts_before_all_sessions_have_their_outcome(chance: random.Random) -> None:
    rows = forest(chance)

    _, steps = carry_out(rows, plan(rows, at=AT).steps)

    for step in steps:
        assert not [one for one in step.effects if isinstance(one, StartTurn | StartAgent)]
        assert not [fact for fact in step.facts if fact.kind == "session_resumed"]


@everywhere
def test_exactly_suspended_sessions_with_inputs_are_woken(chance: random.Random) -> None:
    rows = forest(chance)
    planned = plan(rows, at=AT)
    after, _ = carry_out(rows, planned.steps)

    sleepers = {row.id for row in after.values() if row.phase is Phase.SUSPENDED and row.inputs}
    assert set(planned.to_wake) == sleepers
    assert len(planned.to_wake) == len(sleepers)


@everywhere
def test_a_recovered_inactive_session_gets_no_second_event(chance: random.Random) -> None:
    after = recovered(forest(chance))

    again = plan(after.values(), at=AT)

    left = {row.id for row in after.values() if row.phase is Phase.RESTARTING or row.inputs}
    assert {telling.session for telling in again.steps} <= left


# Examples --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "phase", "reason"),
    [
        (a_row("a", Phase.STARTING), Phase.STOPPED, "start_failed"),
        (a_row("a", Phase.IDLE), Phase.SUSPENDED, None),
        (a_row("a", Phase.SUSPENDED), Phase.SUSPENDED, None),
        (a_row("a", Phase.RESTARTING), Phase.RESTARTING, None),
        (running("a"), Phase.RESTARTING, None),
        (
            running("a", terms=Terms(restart=Restart(policy="never"))),
            Phase.STOPPED,
            "agent_crashed",
        ),
        (running("a", stopping=Stopping("user", after_turn=True)), Phase.STOPPED, "user_cancelled"),
        (a_row("a", Phase.STOPPING, stopping=Stopping("budget")), Phase.STOPPED, "budget_exceeded"),
        (a_row("a", Phase.STOPPED, stop_reason="error"), Phase.STOPPED, "error"),
    ],
)
def test_each_phase_has_its_outcome(row: SessionState, phase: Phase, reason: str | None) -> None:
    after = recovered([row])[row.id]

    assert (after.phase, after.stop_reason) == (phase, reason)


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.IDLE, Phase.SUSPENDED, Phase.RESTARTING])
def test_an_expiry_comes_before_everything_else(phase: Phase) -> None:
    row = a_row("a", phase, lineage=Lineage(expires_at=AT))

    planned = plan([row], at=AT)

    assert told(planned) == [("a", "stop"), ("a", "restarted")]
    assert recovered([row])[row.id].stop_reason == "ttl_expired"


def test_a_future_expiry_does_not_stop_a_session() -> None:
    row = a_row("a", Phase.IDLE, lineage=Lineage(expires_at=AT + 0.001))

    assert plan([row], at=AT).outcomes == {"a": Phase.SUSPENDED}


def test_dependents_of_a_stopped_session_stop_in_the_same_plan() -> None:
    rows = [
        a_row("root", Phase.STARTING),
        a_row("child", Phase.IDLE, lineage=below("root")),
        a_row("grandchild", Phase.SUSPENDED, lineage=below("child")),
    ]

    assert told(plan(rows, at=AT)) == [
        ("root", "restarted"),
        ("child", "stop"),
        ("child", "restarted"),
        ("grandchild", "stop"),
        ("grandchild", "restarted"),
        ("child", "recheck"),
        ("root", "recheck"),
    ]
    reasons = [row.stop_reason for row in recovered(rows).values()]
    assert reasons == ["start_failed", "parent_stopped", "parent_stopped"]


def test_a_detached_child_outlives_its_parent() -> None:
    rows = [
        a_row("root", Phase.STARTING),
        a_row("child", Phase.IDLE, lineage=below("root", lifetime="detached")),
    ]

    assert plan(rows, at=AT).outcomes == {"root": Phase.STOPPED, "child": Phase.SUSPENDED}


def test_a_dependent_of_a_deleted_parent_is_stopped() -> None:
    row = a_row("a", Phase.SUSPENDED, lineage=below("gone"))

    assert recovered([row])[row.id].stop_reason == "parent_stopped"


def test_the_end_of_a_parent_is_written_before_its_children_stop() -> None:
    often_restarted = {"restarts": 3, "recent_restarts": (AT - 3, AT - 2, AT - 1)}
    rows = [running("root", **often_restarted), running("child", lineage=below("root"))]
    first = plan(rows, at=AT).steps[:1]
    half, _ = carry_out(rows, first)

    # By then its restarts would be forgotten, but its end is recorded.
    after = recovered(half.values(), at=LATER)

    assert after[SessionId("root")].stop_reason == "agent_crashed"
    assert after[SessionId("child")].stop_reason == "parent_stopped"


@pytest.mark.parametrize("expires_at", [None, AT])
def test_the_time_without_a_supervisor_is_not_the_turns(expires_at: float | None) -> None:
    row = running("a", lineage=Lineage(expires_at=expires_at))

    assert recovered([row])[row.id].wall_seconds == 5.0


def test_the_output_of_a_lost_turn_is_recorded() -> None:
    row = running("a")
    telling = plan([row], at=AT).steps[0]

    event = telling.event(epoch=2, fresh=TurnId("t"), output=text.TurnOutput("half a word", 1))

    ended = next(fact for fact in decide(row, event).facts if fact.kind == "turn_ended")
    assert (ended.body["outcome"], ended.body["text"]) == ("lost", "half a word")


def test_the_longest_waiting_session_is_woken_first() -> None:
    rows = [
        a_row("a", Phase.SUSPENDED, inputs=(waiting("in_1", at=5.0),)),
        a_row("b", Phase.IDLE, inputs=(waiting("in_2", at=3.0),)),
        a_row("c", Phase.SUSPENDED, inputs=(waiting("in_3", expires_at=AT),)),
    ]

    assert plan(rows, at=AT).to_wake == ("b", "a")


def test_a_woken_session_starts_its_turn_on_recheck() -> None:
    row = a_row("a", Phase.IDLE, inputs=(waiting("in_1"),))
    after = recovered([row])[row.id]

    look = agent_events.TreeChanged(input=InputId("in_9"), at=AT, fresh=TurnId("t"))

    assert decide(after, look).state.phase is Phase.RUNNING


def test_recovery_has_true_stamps_after_the_clock_was_set_back() -> None:
    row = running("a").changed(updated_at=AT + 500.0)

    assert recovered([row])[row.id].updated_at == AT


@pytest.mark.parametrize(("steady_at", "phase"), [(AT, Phase.SUSPENDED), (AT + 2, Phase.STOPPED)])
def test_recovery_compares_expiries_with_steady_time(steady_at: float, phase: Phase) -> None:
    row = a_row("a", Phase.IDLE, lineage=Lineage(expires_at=AT + 1.0))

    assert plan([row], at=AT + 1e6, steady_at=steady_at).outcomes == {row.id: phase}


def test_recovery_counts_restarts_by_steady_time() -> None:
    recent = (AT - 1.0, AT - 2.0, AT - 3.0)
    row = running("a").changed(recent_restarts=recent)

    assert plan([row], at=AT + 1e6, steady_at=AT).outcomes == {row.id: Phase.STOPPED}
    assert plan([row], at=AT, steady_at=AT + 61.0).outcomes == {row.id: Phase.RESTARTING}


def test_a_tree_of_a_thousand_levels_is_recovered() -> None:
    rows = [a_row("s_0", Phase.STARTING)]
    rows += [a_row(f"s_{n}", Phase.IDLE, lineage=below(f"s_{n - 1}")) for n in range(1, 2000)]

    assert set(plan(rows, at=AT).outcomes.values()) == {Phase.STOPPED}


# Sessions that need no recovery ----------------------------------------------------------


@everywhere
def test_a_session_that_needs_no_recovery_does_not_change_the_plan(chance: random.Random) -> None:
    rows = forest(chance)
    above = {one for row in rows for one in (row.lineage.parent, row.lineage.root)}
    unread = {row.id: row.phase for row in rows if needs_no_recovery(row) and row.id not in above}

    whole = plan(rows, at=AT)
    rest = plan([row for row in rows if row.id not in unread], at=AT)

    assert (rest.steps, rest.to_wake) == (whole.steps, whole.to_wake)
    assert {**rest.outcomes, **unread} == whole.outcomes


def test_most_inactive_sessions_need_not_be_read() -> None:
    assert needs_no_recovery(a_row("a", Phase.SUSPENDED))
    assert needs_no_recovery(a_row("a", Phase.STOPPED))
