"""Imports: the history stays, the rights do not."""

from __future__ import annotations

import functools
from typing import Any

import attrs
import pytest

from supervisor.core.creation import SessionSpec, create
from supervisor.core.facts import Fact
from supervisor.core.fold import fold, initial_state
from supervisor.core.ids import SessionId
from supervisor.core.imports import adopt_import
from supervisor.core.limits import Limits, Lineage, Terms
from supervisor.core.permissions import Permissions, root_permissions
from supervisor.core.state import Phase, SessionState
from tests.support.store_samples import PLAN, differences, random_session

HERE = SessionId("s_here")
AT = 10_000_000_000.0
OURS = SessionSpec(
    agent="ours",
    terms=Terms(queue_cap=3),
    limits=Limits(max_children=1),
    permissions=Permissions(mode="deny_all", tools=["ls"]),
)


def lived(seed: int, length: int) -> tuple[Fact, ...]:
    """Return all facts of a foreign session, up to any moment of its history."""
    return tuple(fact for _, facts, _ in random_session(seed, length) for fact in facts)


def settled(facts: tuple[Fact, ...], *, at: float = AT) -> tuple[SessionState, tuple[Fact, ...]]:
    return adopt_import(HERE, facts[0], facts[1:], OURS, format="jsonl", at=at)


def folded(facts: tuple[Fact, ...]) -> SessionState:
    return functools.reduce(fold, facts[1:], initial_state(HERE, facts[0]))


LIVES = [(seed, length) for seed in range(12) for length in (0, 1, 5, 20, 60)]
with_lives = pytest.mark.parametrize(("seed", "length"), LIVES)


@with_lives
def test_an_import_keeps_all_records(seed: int, length: int) -> None:
    facts = lived(seed, length)

    _, made = settled(facts)

    assert made[: len(facts)] == facts


@with_lives
def test_an_imported_session_is_the_fold_of_its_facts(seed: int, length: int) -> None:
    session, made = settled(lived(seed, length))

    assert differences(folded(made), session) == []


@with_lives
def test_an_imported_session_is_stopped_with_nothing_open(seed: int, length: int) -> None:
    session, _ = settled(lived(seed, length))

    assert session.phase is Phase.STOPPED
    assert (session.turn, session.inputs, session.stopping, session.agent) == (None, (), None, None)
    assert (session.zombie, session.archived, session.epoch) == (None, False, 0)


@with_lives
def test_an_imported_session_has_local_grants(seed: int, length: int) -> None:
    session, _ = settled(lived(seed, length))

    assert (session.terms, session.limits) == (OURS.terms, OURS.limits)
    assert session.permissions == root_permissions(OURS.permissions)
    assert (session.key, session.rules) == (None, ())
    assert session.lineage == attrs.evolve(Lineage(), role=session.lineage.role)


@with_lives
def test_every_imported_turn_and_input_has_one_end(seed: int, length: int) -> None:
    _, made = settled(lived(seed, length))

    def named(kind: str, field: str) -> list[Any]:
        return [fact.body[field] for fact in made if fact.kind == kind]

    assert sorted(named("turn_started", "turn_id")) == sorted(named("turn_ended", "turn_id"))
    accepted, ended = named("input_accepted", "input_id"), named("input_settled", "input_id")
    assert sorted(accepted) == sorted(ended)


@with_lives
def test_a_second_import_only_adds_its_own_record(seed: int, length: int) -> None:
    _, made = settled(lived(seed, length))

    session, again = settled(made, at=AT + 1.0)

    assert [fact.kind for fact in again[len(made) :]] == ["session_changed"]
    assert session.phase is Phase.STOPPED


def test_an_imported_session_keeps_its_identity() -> None:
    _, facts = create(HERE, PLAN, at=1.0)

    session, _ = settled(facts)

    assert (session.agent_name, session.name, session.tags) == ("echo", "a name", ("x", "y"))
    assert (session.custom, session.workspace) == (PLAN.custom, None)  # which would be a right


def test_imported_records_stay_in_time_order() -> None:
    _, facts = create(HERE, PLAN, at=AT * 10)

    session, made = settled(facts)

    assert [fact.at for fact in made] == sorted(fact.at for fact in made)
    assert session.updated_at >= session.created_at == AT * 10


def test_the_last_fact_of_an_import_names_the_format() -> None:
    _, facts = create(HERE, PLAN, at=1.0)

    session, made = settled(facts)

    assert made[-1].body["imported"]["format"] == "jsonl"
    assert session.stop_detail == "imported"
