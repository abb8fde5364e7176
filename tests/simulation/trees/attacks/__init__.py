"""Programs that try to make a tree of sessions break a guarantee, one per file."""

from collections.abc import Awaitable, Callable

from .budgets import spend_shared_budget
from .changing import change_during_turns
from .crashing import crash_children
from .exiting import exit_with_tree
from .hanging_hooks import hang_in_hooks
from .process_caps import fill_process_caps
from .resuming import resume_below_stopping
from .spawning import spawn_concurrently
from .stalling import stall
from .stopping import stop_during_spawn
from .store_faults import fail_tree_writes
from .suspended_parent import spawn_below_suspended
from .waking import wake_into_full_slots

Attack = Callable[[], Awaitable[None]]

ATTACKS: tuple[Attack, ...] = (
    spawn_concurrently,
    stop_during_spawn,
    resume_below_stopping,
    crash_children,
    spend_shared_budget,
    fill_process_caps,
    wake_into_full_slots,
    stall,
    fail_tree_writes,
    exit_with_tree,
    hang_in_hooks,
    change_during_turns,
    spawn_below_suspended,
)

__all__ = [
    "ATTACKS",
    "Attack",
    "change_during_turns",
    "crash_children",
    "exit_with_tree",
    "fail_tree_writes",
    "fill_process_caps",
    "hang_in_hooks",
    "resume_below_stopping",
    "spawn_below_suspended",
    "spawn_concurrently",
    "spend_shared_budget",
    "stall",
    "stop_during_spawn",
    "wake_into_full_slots",
]
