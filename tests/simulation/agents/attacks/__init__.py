"""Programs that try to make sessions of processes break a promise, one a file."""

from collections.abc import Awaitable, Callable

from .crowding import crowd
from .killing import kill_processes, spare_bystanders
from .leaving import leave_processes
from .starting import start_badly
from .steering import steer_processes
from .talking import talk_to_processes
from .troubles import trouble_the_store

Attack = Callable[[], Awaitable[None]]

ATTACKS: tuple[Attack, ...] = (
    talk_to_processes,
    steer_processes,
    kill_processes,
    start_badly,
    crowd,
    leave_processes,
    trouble_the_store,
    spare_bystanders,
)

# Those in which every time-out that fires is one that was due.
EXACT: tuple[Attack, ...] = (spare_bystanders,)

__all__ = [
    "ATTACKS",
    "EXACT",
    "Attack",
    "crowd",
    "kill_processes",
    "leave_processes",
    "spare_bystanders",
    "start_badly",
    "steer_processes",
    "talk_to_processes",
    "trouble_the_store",
]
