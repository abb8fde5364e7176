"""Programs that try to make the actor runtime break a guarantee, one per file."""

from collections.abc import Awaitable, Callable

from .group import disturb_group
from .mailbox import fill_mailbox
from .nesting import disturb_nested_groups
from .restart_limits import exhaust_nested_restarts, exhaust_restarts
from .restarting import restart_from_above
from .starting import race_starts
from .stopping import stop_concurrently
from .watching import watch_ending_actors

Attack = Callable[[], Awaitable[None]]

ATTACKS: tuple[Attack, ...] = (
    fill_mailbox,
    race_starts,
    stop_concurrently,
    watch_ending_actors,
    disturb_group,
    disturb_nested_groups,
    restart_from_above,
    exhaust_restarts,
    exhaust_nested_restarts,
)

__all__ = [
    "ATTACKS",
    "Attack",
    "disturb_group",
    "disturb_nested_groups",
    "exhaust_nested_restarts",
    "exhaust_restarts",
    "fill_mailbox",
    "race_starts",
    "restart_from_above",
    "stop_concurrently",
    "watch_ending_actors",
]
