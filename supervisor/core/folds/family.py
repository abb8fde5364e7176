"""What a session hears of its children."""

from __future__ import annotations

import attrs

from supervisor.core.facts import Body, Changes, Fact
from supervisor.core.session import Session


def child_started(session: Session, _: Body, __: Fact) -> Changes:
    family = session.family
    return {
        "family": attrs.evolve(family, open_children=family.open_children + 1, news=family.news + 1)
    }


def child_ended(session: Session, body: Body, _: Fact) -> Changes:
    family = session.family
    over = body["reason"] is not None
    return {
        "family": attrs.evolve(
            family, open_children=family.open_children - over, news=family.news + 1
        )
    }
