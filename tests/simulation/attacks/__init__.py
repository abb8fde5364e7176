"""Programs that try to make the real runtime break a promise, one a file."""

from collections.abc import Awaitable, Callable

from .from_above import restart_from_above
from .giving_up import spend_the_budget, spend_the_budget_of_a_tree
from .group import shake_a_group
from .mailbox import crowd_a_mailbox
from .nesting import shake_a_tree
from .starting import start_in_a_hurry
from .stopping import stop_everything
from .watching import watch_each_other

Attack = Callable[[], Awaitable[None]]

ATTACKS: tuple[Attack, ...] = (
    crowd_a_mailbox,
    start_in_a_hurry,
    stop_everything,
    watch_each_other,
    shake_a_group,
    shake_a_tree,
    restart_from_above,
    spend_the_budget,
    spend_the_budget_of_a_tree,
)

__all__ = [
    "ATTACKS",
    "Attack",
    "crowd_a_mailbox",
    "restart_from_above",
    "shake_a_group",
    "shake_a_tree",
    "spend_the_budget",
    "spend_the_budget_of_a_tree",
    "start_in_a_hurry",
    "stop_everything",
    "watch_each_other",
]
