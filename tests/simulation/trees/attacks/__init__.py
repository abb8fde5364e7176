"""Programs that try to make a tree of sessions break a promise, one a file."""

from collections.abc import Awaitable, Callable

from .changing import change_in_mid_turn
from .coming_back import come_back
from .crowding import crowd_the_house
from .dying import lose_children
from .hanging_hooks import hang_at_the_doors
from .leaving import leave_a_tree
from .sleeping import spawn_below_a_sleeper
from .spawning import spawn_in_loops
from .spending import spend_together
from .stalling import stall
from .stopping import stop_in_mid_spawn
from .troubles import trouble_a_tree
from .waking import wake_up_into_a_full_house

Attack = Callable[[], Awaitable[None]]

ATTACKS: tuple[Attack, ...] = (
    spawn_in_loops,
    stop_in_mid_spawn,
    come_back,
    lose_children,
    spend_together,
    crowd_the_house,
    wake_up_into_a_full_house,
    stall,
    trouble_a_tree,
    leave_a_tree,
    hang_at_the_doors,
    change_in_mid_turn,
    spawn_below_a_sleeper,
)

__all__ = [
    "ATTACKS",
    "Attack",
    "change_in_mid_turn",
    "come_back",
    "crowd_the_house",
    "hang_at_the_doors",
    "leave_a_tree",
    "lose_children",
    "spawn_below_a_sleeper",
    "spawn_in_loops",
    "spend_together",
    "stall",
    "stop_in_mid_spawn",
    "trouble_a_tree",
    "wake_up_into_a_full_house",
]
