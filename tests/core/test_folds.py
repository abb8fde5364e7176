"""What facts make of sessions, and what these have in common."""

from __future__ import annotations

import attrs

from supervisor.core.creation import Plan, create
from supervisor.core.ids import SessionId
from supervisor.core.limits import Limits
from supervisor.core.session import Session


def made(name: str, plan: Plan) -> Session:
    return create(SessionId(name), plan, at=1.0)[0]


def test_those_who_may_do_the_same_share_what_says_so() -> None:
    plan = Plan(agent="echo")
    one, two = made("s_one", plan), made("s_two", attrs.evolve(plan, name="two"))

    assert one.terms is two.terms
    assert one.permissions is two.permissions
    assert one.lineage is two.lineage


def test_who_may_do_something_else_has_its_own() -> None:
    plan = Plan(agent="echo", limits=Limits(max_children=1))
    one, two = made("s_one", plan), made("s_two", attrs.evolve(plan, limits=Limits()))

    assert one.limits == Limits(max_children=1)
    assert two.limits == Limits()
