"""Programs that try to make sessions with agent processes break a guarantee, one per file."""

from collections.abc import Awaitable, Callable

from .exiting import exit_with_processes
from .killing import kill_beside_bystander, kill_processes
from .process_slots import fill_process_slots
from .sending import send_to_processes
from .starting import fail_starts
from .steering import steer_processes
from .store_faults import fail_store_writes
from .turn_ends import interrupt_at_turn_ends, steer_at_turn_ends

Attack = Callable[[], Awaitable[None]]

ATTACKS: tuple[Attack, ...] = (
    send_to_processes,
    steer_processes,
    interrupt_at_turn_ends,
    steer_at_turn_ends,
    kill_processes,
    fail_starts,
    fill_process_slots,
    exit_with_processes,
    fail_store_writes,
    kill_beside_bystander,
)

# Attacks that need exact timeouts.
EXACT: tuple[Attack, ...] = (
    kill_beside_bystander,
    interrupt_at_turn_ends,
    steer_at_turn_ends,
)

__all__ = [
    "ATTACKS",
    "EXACT",
    "Attack",
    "exit_with_processes",
    "fail_starts",
    "fail_store_writes",
    "fill_process_slots",
    "interrupt_at_turn_ends",
    "kill_beside_bystander",
    "kill_processes",
    "send_to_processes",
    "steer_at_turn_ends",
    "steer_processes",
]
