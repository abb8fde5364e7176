"""What a row shows that `Info` does not have, and when a row has to be sent."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from supervisor.core.ids import SessionId
from supervisor.core.state import Phase, SessionState
from supervisor.core.tree.node import TreeNode
from supervisor.sessions.clock import ActiveClock, Clock
from supervisor.sessions.slot import SessionSlot

from .session_rows import BudgetName, SessionRow, TightestBudget

_BUDGETS: Final[tuple[BudgetName, ...]] = ("turns", "tokens", "cost", "wall_seconds")
# Sums of fractions are not exact: ten tenths are a whole.
_DIGITS: Final = 9


def budgets_of(node: TreeNode, now: float) -> list[TightestBudget]:
    """Return the budgets that a session itself has, with what is used of each by now."""
    if node.limits is None or not node.limits.has_budget:
        return []
    return [
        TightestBudget(node.id, name, round(node.used(name, now), _DIGITS), allowed)
        for name in _BUDGETS
        if (allowed := getattr(node.limits, name)) is not None
    ]


def tightest_budget(node: TreeNode | None, now: float) -> TightestBudget | None:
    """Return the budget on the path to the root of which the largest share is used."""
    if node is None:
        return None
    found = [budget for one in node.path() for budget in budgets_of(one, now)]
    return max(found, key=lambda budget: budget.share, default=None)


def waiting_since(
    session: SessionState, slot: SessionSlot | None, clock: Clock, active_clock: ActiveClock
) -> float:
    """Return since when the session waits, as `why()` says it; a person, since the question."""
    turn = session.turn
    if turn is not None and turn.requests:
        return turn.requests[0].asked_at
    buffer = slot.log.turn_buffer if slot is not None and slot.log is not None else None
    if turn is not None and buffer is not None:
        return clock.now() - max(0.0, active_clock.now() - buffer.progress_at)
    return session.updated_at


# Fields that change with every piece of output, so a change of them alone can wait a little.
_MINOR_FIELDS: Final = frozenset({"last_seq", "last_active_at", "waiting_since", "budget"})
_major_fields = attrgetter(
    *(name for name in SessionRow.__annotations__ if name not in _MINOR_FIELDS)
)


def is_major_change(before: SessionRow, after: SessionRow) -> bool:
    """Return True if more differs than numbers that rise while a turn runs."""
    return _major_fields(before) != _major_fields(after) or (
        _budget_in_percent(before) != _budget_in_percent(after)
    )


def _budget_in_percent(row: SessionRow) -> tuple[SessionId, str, int] | None:
    budget = row.budget
    return None if budget is None else (budget.session_id, budget.name, int(100 * budget.share))


def needs_a_look(row: SessionRow) -> bool:
    """Return True for a session that a snapshot has: live, or one that a person should look at."""
    is_news = row.badge == "failed" or bool(row.attention)
    return row.phase is not Phase.STOPPED or (is_news and not row.archived)
