"""After the supervisor was killed: every stored session has one definite fate, once."""

import functools
import random
from collections.abc import Callable, Iterable
from itertools import permutations
from typing import Any

import attrs
import pytest

from supervisor.core import events as ev
from supervisor.core.creation import Plan as CreationPlan
from supervisor.core.creation import create
from supervisor.core.effects import StartAgent, StartTurn
from supervisor.core.folds import fold
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.limits import Restart
from supervisor.core.records import Record, numbered
from supervisor.core.recovery import Plan, Telling, before_its_return, plan, rests
from supervisor.core.session import (
    ENDINGS,
    Lineage,
    Phase,
    Session,
    Stopping,
    Terms,
    Turn,
    Waiting,
)
from supervisor.core.step import Step
from supervisor.core.table import decide
from tests.core.histories import Chance, history

AT = 100_000.0
LATER = AT + 10_000.0
# Those a supervisor leaves behind, and those it never does.
SETTLED = {Phase.STOPPED, Phase.SUSPENDED, Phase.RESTARTING}
SEEDS = range(150)

Rows = dict[SessionId, Session]


def everywhere(check: Callable[[random.Random], None]) -> Callable[[], None]:
    """Make one test of a check that must hold in every forest; it names the seed that failed."""

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


def forest(chance: random.Random) -> list[Session]:
    """Sessions in all phases, below one another, some expired, some left by a deleted parent."""
    rows: list[Session] = []
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
        # All begin by starting, and many end soon: in each life the other phases are likelier.
        rare = sorted({one.phase for one in lived} - {Phase.STARTING, Phase.STOPPED})
        wanted = chance.choice(rare) if rare and chance.random() < 0.8 else None
        row = chance.choice([one for one in lived if wanted in (None, one.phase)])
        created = float(number // 2)
        rows.append(row.changed(id=SessionId(f"s_{number}"), lineage=lineage, created_at=created))
    return rows


def carry_out(rows: Iterable[Session], tellings: Iterable[Telling]) -> tuple[Rows, list[Step]]:
    """Do as planned: tell each session, and keep what it then is."""
    told = {row.id: row for row in rows}
    steps = []
    for number, telling in enumerate(tellings):
        row = told[telling.session]
        assert telling.situation.dependents == len(dependents_of(row, told))
        event = telling.event(epoch=row.epoch + 1, fresh=TurnId(f"fresh_{number}"))
        steps.append(decide(row, event))
        told[row.id] = steps[-1].session
    return told, steps


def dependents_of(row: Session, rows: Rows) -> list[Session]:
    return [
        one
        for one in rows.values()
        if one.lineage.parent == row.id
        and one.lineage.lifetime == "with_parent"
        and one.phase is not Phase.STOPPED
    ]


def recovered(rows: Iterable[Session], at: float = AT) -> Rows:
    rows = list(rows)
    return carry_out(rows, plan(rows, at=at).tellings)[0]


def essence(rows: Rows) -> dict[SessionId, Session]:
    """All but how often it was claimed."""
    return {row.id: row.changed(epoch=0) for row in rows.values()}


def a_row(name: str, phase: Phase, **changes: Any) -> Session:  # noqa: ANN401 - fields of a session
    changes.setdefault("created_at", 0.0)
    return Session(id=SessionId(name), agent_name="agent", phase=phase, **changes)


def below(parent: str, **changes: Any) -> Lineage:  # noqa: ANN401 - fields of a lineage
    return Lineage(parent=SessionId(parent), **changes)


def running(name: str, **changes: Any) -> Session:  # noqa: ANN401 - fields of a session
    turn = Turn(TurnId("turn_1"), InputId("in_1"), "user", started_at=10.0)
    return a_row(name, Phase.RUNNING, turn=turn, updated_at=15.0, **changes)


def waiting(name: str, at: float = 0.0, **changes: Any) -> Waiting:  # noqa: ANN401
    return Waiting(InputId(name), 1, "hello", "queue", "user", at, generation=0, **changes)


def told(planned: Plan) -> list[tuple[str, str]]:
    return [(telling.session, telling.what) for telling in planned.tellings]


# Whatever was stored ----------------------------------------------------------------------


@everywhere
def test_every_stored_session_has_one_definite_fate(chance: random.Random) -> None:
    rows = forest(chance)

    planned = plan(rows, at=AT)

    after, _ = carry_out(rows, planned.tellings)
    assert planned.fates == {row.id: row.phase for row in after.values()}
    assert set(planned.fates.values()) <= SETTLED
    assert all(row.turn is None and row.agent is None for row in after.values())
    assert all(row.zombie is None and not row.leaving for row in after.values())


@everywhere
def test_a_recovery_that_is_killed_half_way_and_run_again_ends_the_same(
    chance: random.Random,
) -> None:
    rows = forest(chance)
    whole = recovered(rows)
    tellings = plan(rows, at=AT).tellings

    for death in range(len(tellings) + 1):
        half, _ = carry_out(rows, tellings[:death])
        again = recovered(half.values())
        assert essence(again) == essence(whole)


@everywhere
def test_a_recovery_that_is_killed_again_and_again_ends_the_same(chance: random.Random) -> None:
    rows = forest(chance)
    whole = recovered(rows)

    now: Iterable[Session] = rows
    for _ in range(5):
        tellings = plan(now, at=AT).tellings
        now = carry_out(now, tellings[: chance.randint(0, len(tellings))])[0].values()

    assert essence(recovered(now)) == essence(whole)


@everywhere
def test_who_ended_with_a_parent_has_one_that_ended_however_late_the_next_try(
    chance: random.Random,
) -> None:
    rows = {row.id: row for row in forest(chance)}
    tellings = plan(rows.values(), at=AT).tellings
    half, _ = carry_out(rows.values(), tellings[: chance.randint(0, len(tellings))])

    after = recovered(half.values(), at=LATER)

    for row in after.values():
        before = rows[row.id]
        is_new = before.phase is not Phase.STOPPED and before.stopping is None
        if row.stop_reason == "parent_stopped" and is_new:
            parent = after.get(row.lineage.parent or row.id)
            assert parent is None or parent.phase is Phase.STOPPED


@everywhere
def test_nothing_depends_on_what_clocks_said_when_sessions_were_made(
    chance: random.Random,
) -> None:
    rows = forest(chance)
    at_once = [row.changed(created_at=5.0) for row in rows]
    told = [(one.session, one.what) for one in plan(rows, at=AT).tellings]

    assert [(one.session, one.what) for one in plan(at_once, at=AT).tellings] == told


@everywhere
def test_nobody_lives_on_without_the_parent_it_lives_with(chance: random.Random) -> None:
    after = recovered(forest(chance))

    for row in after.values():
        parent = row.lineage.parent
        if row.phase is not Phase.STOPPED and parent and row.lineage.lifetime == "with_parent":
            assert after[parent].phase is not Phase.STOPPED


@everywhere
def test_children_end_before_their_parents_and_younger_before_older(chance: random.Random) -> None:
    rows = forest(chance)
    planned = plan(rows, at=AT)
    _, steps = carry_out(rows, planned.tellings)

    ends = [step.session for step in steps if "session_stopped" in {f.kind for f in step.facts}]
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
def test_whose_time_is_over_is_not_alive(chance: random.Random) -> None:
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
            kept = [one for one in before.inputs if one.status != "handed"]
            held = ENDINGS[row.stopping.cause].inputs == "held"
            assert [one.id for one in row.inputs] == [one.id for one in kept if held]


@everywhere
def test_what_waits_in_a_session_that_lives_is_kept_or_has_expired(chance: random.Random) -> None:
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
def test_nothing_begins_before_all_have_their_fate(chance: random.Random) -> None:
    rows = forest(chance)

    _, steps = carry_out(rows, plan(rows, at=AT).tellings)

    for step in steps:
        assert not [one for one in step.effects if isinstance(one, StartTurn | StartAgent)]
        assert not [fact for fact in step.facts if fact.kind == "session_resumed"]


@everywhere
def test_exactly_those_are_woken_who_sleep_on_inputs(chance: random.Random) -> None:
    rows = forest(chance)
    planned = plan(rows, at=AT)
    after, _ = carry_out(rows, planned.tellings)

    sleepers = {row.id for row in after.values() if row.phase is Phase.SUSPENDED and row.inputs}
    assert set(planned.wakes) == sleepers
    assert len(planned.wakes) == len(sleepers)


@everywhere
def test_whoever_was_recovered_and_is_at_rest_is_told_nothing_again(chance: random.Random) -> None:
    after = recovered(forest(chance))

    again = plan(after.values(), at=AT)

    left = {row.id for row in after.values() if row.phase is Phase.RESTARTING or row.inputs}
    assert {telling.session for telling in again.tellings} <= left


# One promise at a time --------------------------------------------------------------------


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
def test_each_phase_has_its_fate(row: Session, phase: Phase, reason: str | None) -> None:
    after = recovered([row])[row.id]

    assert (after.phase, after.stop_reason) == (phase, reason)


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.IDLE, Phase.SUSPENDED, Phase.RESTARTING])
def test_an_expiry_comes_before_everything_else(phase: Phase) -> None:
    row = a_row("a", phase, lineage=Lineage(expires_at=AT))

    planned = plan([row], at=AT)

    assert told(planned) == [("a", "stop"), ("a", "restarted")]
    assert recovered([row])[row.id].stop_reason == "ttl_expired"


def test_a_time_that_is_not_over_does_not_count() -> None:
    row = a_row("a", Phase.IDLE, lineage=Lineage(expires_at=AT + 0.001))

    assert plan([row], at=AT).fates == {"a": Phase.SUSPENDED}


def test_who_lives_with_a_session_that_ends_is_stopped_in_the_same_plan() -> None:
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
        ("child", "look"),
        ("root", "look"),
    ]
    reasons = [row.stop_reason for row in recovered(rows).values()]
    assert reasons == ["start_failed", "parent_stopped", "parent_stopped"]


def test_a_detached_child_outlives_its_parent() -> None:
    rows = [
        a_row("root", Phase.STARTING),
        a_row("child", Phase.IDLE, lineage=below("root", lifetime="detached")),
    ]

    assert plan(rows, at=AT).fates == {"root": Phase.STOPPED, "child": Phase.SUSPENDED}


def test_who_was_left_by_a_parent_of_which_nothing_is_left_is_stopped() -> None:
    row = a_row("a", Phase.SUSPENDED, lineage=below("gone"))

    assert recovered([row])[row.id].stop_reason == "parent_stopped"


def test_that_a_parent_ends_is_written_before_its_children_are_told() -> None:
    often_restarted = {"restarts": 3, "recent_restarts": (AT - 3, AT - 2, AT - 1)}
    rows = [running("root", **often_restarted), running("child", lineage=below("root"))]
    first = plan(rows, at=AT).tellings[:1]
    half, _ = carry_out(rows, first)

    # By then its restarts would be forgotten, but its end is on record.
    after = recovered(half.values(), at=LATER)

    assert after[SessionId("root")].stop_reason == "agent_crashed"
    assert after[SessionId("child")].stop_reason == "parent_stopped"


@pytest.mark.parametrize("expires_at", [None, AT])
def test_the_time_in_which_nobody_was_there_is_not_the_turns(expires_at: float | None) -> None:
    row = running("a", lineage=Lineage(expires_at=expires_at))

    assert recovered([row])[row.id].wall_seconds == 5.0


def test_what_a_lost_turn_has_said_is_on_record() -> None:
    row = running("a")
    telling = plan([row], at=AT).tellings[0]

    event = telling.event(epoch=2, fresh=TurnId("t"), said=ev.Said("half a word", 1))

    ended = next(fact for fact in decide(row, event).facts if fact.kind == "turn_ended")
    assert (ended.body["outcome"], ended.body["text"]) == ("lost", "half a word")


def test_who_has_waited_longest_is_woken_first() -> None:
    rows = [
        a_row("a", Phase.SUSPENDED, inputs=(waiting("in_1", at=5.0),)),
        a_row("b", Phase.IDLE, inputs=(waiting("in_2", at=3.0),)),
        a_row("c", Phase.SUSPENDED, inputs=(waiting("in_3", expires_at=AT),)),
    ]

    assert plan(rows, at=AT).wakes == ("b", "a")


def test_who_is_woken_begins_its_turn_when_it_looks_around() -> None:
    row = a_row("a", Phase.IDLE, inputs=(waiting("in_1"),))
    after = recovered([row])[row.id]

    look = ev.FamilyChanged(input=InputId("in_9"), at=AT, fresh=TurnId("t"))

    assert decide(after, look).session.phase is Phase.RUNNING


def test_a_clock_that_was_set_back_does_not_turn_time_around() -> None:
    row = running("a").changed(updated_at=AT + 500.0)

    assert recovered([row])[row.id].updated_at == AT + 500.0


def test_a_thousand_levels_are_no_problem() -> None:
    rows = [a_row("s_0", Phase.STARTING)]
    rows += [a_row(f"s_{n}", Phase.IDLE, lineage=below(f"s_{n - 1}")) for n in range(1, 2000)]

    assert set(plan(rows, at=AT).fates.values()) == {Phase.STOPPED}


# Whoever need not be read -------------------------------------------------------------------


@everywhere
def test_whoever_rests_beside_nobody_changes_nothing_in_the_plan(chance: random.Random) -> None:
    rows = forest(chance)
    above = {one for row in rows for one in (row.lineage.parent, row.lineage.root)}
    unread = {row.id: row.phase for row in rows if rests(row) and row.id not in above}

    whole = plan(rows, at=AT)
    rest = plan([row for row in rows if row.id not in unread], at=AT)

    assert (rest.tellings, rest.wakes) == (whole.tellings, whole.wakes)
    assert {**rest.fates, **unread} == whole.fates


def test_most_of_what_is_at_rest_need_not_be_read() -> None:
    assert rests(a_row("a", Phase.SUSPENDED))
    assert rests(a_row("a", Phase.STOPPED))


# Ends that a parent has not heard of ---------------------------------------------------------


def lived(seed: int) -> tuple[list[Record], Session | None]:
    """The records of a life, and the session at the end from which it came back last."""
    chance = Chance(seed)
    session, facts = create(SessionId("s_1"), CreationPlan(agent="echo"), at=chance.now)
    told = list(facts)
    stopped: Session | None = None
    end: Session | None = None
    for _ in range(3 * seed):
        for fact in decide(session, chance.event(session)).facts:
            session = fold(session, fact)
            told.append(fact)
            if fact.kind == "session_stopped":
                stopped = session
            elif fact.kind == "session_resumed" and not fact.body["woken"]:
                end = stopped
    return list(numbered(session.id, told, after=0)), end


@pytest.mark.parametrize("seed", range(60))
def test_an_end_is_as_it_was_before_the_return(seed: int) -> None:
    records, end = lived(seed)

    assert before_its_return(records) == end


def test_some_have_come_back_and_some_have_not() -> None:
    assert {lived(seed)[1] is None for seed in range(60)} == {True, False}


def test_no_end_is_told_of_records_that_are_not_whole() -> None:
    records = next(records for records, end in map(lived, range(60)) if end is not None)
    returned = max(one.seq for one in records if one.kind == "session_resumed")

    with pytest.raises(ValueError, match="missing"):
        before_its_return([one for one in records if one.seq != 2])
    for kind in ("session_resumed", "session_stopped"):
        spoilt = [attrs.evolve(one, body={}) if one.kind == kind else one for one in records]
        with pytest.raises(ValueError, match="fit"):
            before_its_return(spoilt)
    assert before_its_return(records[:returned]) == before_its_return(records)
