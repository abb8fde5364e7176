"""What the tree around a session is like at the instant at which the session is told something."""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.core.errors import SupervisorError
from supervisor.core.ids import SessionId
from supervisor.core.session import Cause


@attrs.frozen
class Shortage:
    """A budget of which nothing is left: whose it is, and what was used of what was allowed."""

    limit: str
    used: float
    allowed: float
    owner: SessionId

    @property
    def cause(self) -> Cause:
        """Why a session stops that draws on it."""
        return "turns_limit" if self.limit == "turns" else "budget"

    def __str__(self) -> str:
        return f"{self.used:g} of {self.allowed:g} {self.limit} used, in the budget of {self.owner}"


@attrs.frozen(kw_only=True)
class Situation:
    """Known at the desk and not to the session itself; so it comes with every event."""

    # with_parent children that are not over: admitted, starting, alive or suspended.
    dependents: int = 0
    # Whether any of them is up, and not merely suspended.
    has_company: bool = False
    # Whether all places are taken: for one more running turn, for one more child of its parent.
    no_turn: bool = False
    no_place: bool = False
    # Somebody is interrupting the whole tree that it stands in.
    closed: bool = False
    # The supervisor is about to leave: nothing begins, what waits is kept.
    leaving: bool = False
    # Whether a sibling that was started later is still to be stopped before it.
    has_younger: bool = False
    # Whether it is told to end with a parent that does not end, or not any more.
    parent_lives: bool = False
    shortage: Shortage | None = None
    # Why a session that is stopped may not come back.
    refusal: SupervisorError | None = None
    # For how long the open turn has run, as far as that was measured.
    ran_seconds: float | None = None


ALONE: Final = Situation()
