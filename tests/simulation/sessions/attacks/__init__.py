"""Programs that try to make a session break a promise, one a file."""

from collections.abc import Awaitable, Callable

from .asking import ask_people
from .dying import kill_agents
from .leaving import leave_in_the_middle
from .pointing import point_at_turns
from .sharing import share_a_key
from .stopping import stop_and_go
from .talking import talk_over_each_other
from .troubles import trouble_the_store
from .watching import watch_closely

Attack = Callable[[], Awaitable[None]]

ATTACKS: tuple[Attack, ...] = (
    talk_over_each_other,
    point_at_turns,
    ask_people,
    kill_agents,
    stop_and_go,
    trouble_the_store,
    watch_closely,
    leave_in_the_middle,
    share_a_key,
)

__all__ = [
    "ATTACKS",
    "Attack",
    "ask_people",
    "kill_agents",
    "leave_in_the_middle",
    "point_at_turns",
    "share_a_key",
    "stop_and_go",
    "talk_over_each_other",
    "trouble_the_store",
    "watch_closely",
]
