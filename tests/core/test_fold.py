"""Folds: the state that facts make, and the objects that states share."""

from __future__ import annotations

import attrs

from supervisor.core.agent_events import CallStarted
from supervisor.core.creation import SessionSpec, create
from supervisor.core.facts import Fact
from supervisor.core.fold import fold
from supervisor.core.ids import SessionId
from supervisor.core.limits import Limits
from supervisor.core.state import SessionState
from tests.support.core_session import TURN, busy


def made(name: str, plan: SessionSpec) -> SessionState:
    return create(SessionId(name), plan, at=1.0)[0]


def test_sessions_with_equal_grants_share_the_objects() -> None:
    plan = SessionSpec(agent="echo")
    one, two = made("s_one", plan), made("s_two", attrs.evolve(plan, name="two"))

    assert one.terms is two.terms
    assert one.permissions is two.permissions
    assert one.lineage is two.lineage


def test_a_session_with_other_grants_has_its_own_objects() -> None:
    plan = SessionSpec(agent="echo", limits=Limits(max_children=1))
    one, two = made("s_one", plan), made("s_two", attrs.evolve(plan, limits=Limits()))

    assert one.limits == Limits(max_children=1)
    assert two.limits == Limits()


def test_the_interrupt_of_a_call_in_a_record_of_an_early_version_changes_nothing() -> None:
    play = busy()
    play.tell(CallStarted, turn=TURN, call="c1", name="bash")
    body = {"scope": "tool_call", "call_id": "c1", "reason": None, "step": None}

    after = fold(play.session, Fact("interrupted", 9.0, body, TURN))

    assert after == play.session
