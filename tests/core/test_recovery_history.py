"""Ends that a parent has not recorded: the state before the last resume."""

import attrs
import pytest

from supervisor.core.creation import SessionSpec as CreationPlan
from supervisor.core.creation import create
from supervisor.core.facts import number_facts
from supervisor.core.fold import fold
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.core.recovery import (
    state_before_last_resume,
)
from supervisor.core.state import SessionState
from supervisor.core.table import decide
from tests.support.event_histories import Chance


def lived(seed: int) -> tuple[list[Record], SessionState | None]:
    """Return the records of a history, and the session at its last stop before a resume."""
    chance = Chance(seed)
    session, facts = create(SessionId("s_1"), CreationPlan(agent="echo"), at=chance.now)
    told = list(facts)
    stopped: SessionState | None = None
    end: SessionState | None = None
    for _ in range(3 * seed):
        for fact in decide(session, chance.event(session), len(told)).facts:
            session = fold(session, fact)
            told.append(fact)
            if fact.kind == "session_stopped":
                stopped = session
            elif fact.kind == "session_resumed" and not fact.body["woken"]:
                end = stopped
    return list(number_facts(session.id, told, after=0)), end


@pytest.mark.parametrize("seed", range(60))
def test_the_state_before_a_resume_is_the_stopped_state(seed: int) -> None:
    records, end = lived(seed)

    assert state_before_last_resume(records) == end


def test_histories_with_and_without_a_resume_occur() -> None:
    assert {lived(seed)[1] is None for seed in range(60)} == {True, False}


def test_incomplete_records_raise_value_error() -> None:
    records = next(records for records, end in map(lived, range(60)) if end is not None)
    returned = max(one.seq for one in records if one.kind == "session_resumed")

    with pytest.raises(ValueError, match="missing"):
        state_before_last_resume([one for one in records if one.seq != 2])
    for kind in ("session_resumed", "session_stopped"):
        spoilt = [attrs.evolve(one, body={}) if one.kind == kind else one for one in records]
        with pytest.raises(ValueError, match="fit"):
            state_before_last_resume(spoilt)
    assert state_before_last_resume(records[:returned]) == state_before_last_resume(records)
