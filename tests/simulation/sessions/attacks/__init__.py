"""Programs that try to make a session break a guarantee, one per file."""

from collections.abc import Awaitable, Callable

from .crashing import crash_agents
from .exiting import exit_during_work
from .interrupting import interrupt_scopes
from .keys import contend_for_key
from .permissions import answer_permissions
from .questions import answer_questions
from .sending import send_concurrently
from .stopping import stop_and_resume
from .store_faults import fail_store_writes
from .watching import watch_records

Attack = Callable[[], Awaitable[None]]

ATTACKS: tuple[Attack, ...] = (
    send_concurrently,
    interrupt_scopes,
    answer_permissions,
    answer_questions,
    crash_agents,
    stop_and_resume,
    fail_store_writes,
    watch_records,
    exit_during_work,
    contend_for_key,
)

__all__ = [
    "ATTACKS",
    "Attack",
    "answer_permissions",
    "answer_questions",
    "contend_for_key",
    "crash_agents",
    "exit_during_work",
    "fail_store_writes",
    "interrupt_scopes",
    "send_concurrently",
    "stop_and_resume",
    "watch_records",
]
