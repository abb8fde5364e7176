"""How a session from elsewhere becomes one of ours: its past stays, its rights do not."""

from __future__ import annotations

import functools
from typing import Any

import attrs
import pytest

from supervisor.core.creation import Plan, create
from supervisor.core.facts import Fact
from supervisor.core.folds import begin, fold
from supervisor.core.ids import SessionId
from supervisor.core.immigration import settle_in
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions, at_root
from supervisor.core.session import Lineage, Phase, Session, Terms
from tests.store.cast import PLAN, differences, life

HERE = SessionId("s_here")
AT = 10_000_000_000.0
OURS = Plan(
    agent="ours",
    terms=Terms(queue_cap=3),
    limits=Limits(max_children=1),
    permissions=Permissions(mode="deny_all", tools=["ls"]),
)


def lived(seed: int, length: int) -> tuple[Fact, ...]:
    """All facts of a session that lived elsewhere, up to any moment of its life."""
    return tuple(fact for _, facts, _ in life(seed, length) for fact in facts)


def settled(facts: tuple[Fact, ...], *, at: float = AT) -> tuple[Session, tuple[Fact, ...]]:
    return settle_in(HERE, facts[0], facts[1:], OURS, format="jsonl", at=at)


def folded(facts: tuple[Fact, ...]) -> Session:
    return functools.reduce(fold, facts[1:], begin(HERE, facts[0]))


LIVES = [(seed, length) for seed in range(12) for length in (0, 1, 5, 20, 60)]
with_lives = pytest.mark.parametrize(("seed", "length"), LIVES)


@with_lives
def test_all_that_was_is_kept_as_it_was(seed: int, length: int) -> None:
    facts = lived(seed, length)

    _, made = settled(facts)

    assert made[: len(facts)] == facts


@with_lives
def test_the_session_is_what_its_facts_give(seed: int, length: int) -> None:
    session, made = settled(lived(seed, length))

    assert differences(folded(made), session) == []


@with_lives
def test_it_is_stopped_and_nothing_of_it_is_open(seed: int, length: int) -> None:
    session, _ = settled(lived(seed, length))

    assert session.phase is Phase.STOPPED
    assert (session.turn, session.inputs, session.stopping, session.agent) == (None, (), None, None)
    assert (session.zombie, session.archived, session.epoch) == (None, False, 0)


@with_lives
def test_what_it_may_do_is_what_we_grant(seed: int, length: int) -> None:
    session, _ = settled(lived(seed, length))

    assert (session.terms, session.limits) == (OURS.terms, OURS.limits)
    assert session.permissions == at_root(OURS.permissions)
    assert (session.key, session.rules) == (None, ())
    assert session.lineage == attrs.evolve(Lineage(), role=session.lineage.role)


@with_lives
def test_every_turn_and_input_that_was_begun_has_one_end(seed: int, length: int) -> None:
    _, made = settled(lived(seed, length))

    def named(kind: str, field: str) -> list[Any]:
        return [fact.body[field] for fact in made if fact.kind == kind]

    assert sorted(named("turn_started", "turn_id")) == sorted(named("turn_ended", "turn_id"))
    accepted, ended = named("input_accepted", "input_id"), named("input_settled", "input_id")
    assert sorted(accepted) == sorted(ended)


@with_lives
def test_settling_in_again_changes_nothing_but_adds_that_it_did(seed: int, length: int) -> None:
    _, made = settled(lived(seed, length))

    session, again = settled(made, at=AT + 1.0)

    assert [fact.kind for fact in again[len(made) :]] == ["session_changed"]
    assert session.phase is Phase.STOPPED


def test_who_it_is_stays() -> None:
    _, facts = create(HERE, PLAN, at=1.0)

    session, _ = settled(facts)

    assert (session.agent_name, session.name, session.tags) == ("echo", "a name", ("x", "y"))
    assert (session.custom, session.workspace) == (PLAN.custom, None)  # which would be a right


def test_time_does_not_go_backwards_though_the_file_is_from_the_future() -> None:
    _, facts = create(HERE, PLAN, at=AT * 10)

    session, made = settled(facts)

    assert [fact.at for fact in made] == sorted(fact.at for fact in made)
    assert session.updated_at >= session.created_at == AT * 10


def test_the_last_fact_says_where_it_came_from() -> None:
    _, facts = create(HERE, PLAN, at=1.0)

    session, made = settled(facts)

    assert made[-1].body["imported"]["format"] == "jsonl"
    assert session.stop_detail == "imported"
