"""The causes of a stop, and what each means for users and for waiting inputs.

A cause is internal; users see its reason and its badge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import attrs

Cause: TypeAlias = Literal[
    "completed",
    "user",
    "cleared",
    "replaced",
    "deleted",
    "hook_denied",
    "ttl_expired",
    "parent_stopped",
    "turns_limit",
    "budget",
    "failed",
    "process_exited",
    "stalled",
    "start_failed",
    "fenced",
]

# Nothing stops a session for these yet, so the reference does not list them.
UNUSED_CAUSES: Final = frozenset[Cause]({"cleared", "failed", "fenced"})


@attrs.frozen
class Ending:
    """The public form of a stop cause: reason, badge, and the outcome of queued inputs."""

    reason: str
    badge: Literal["stopped", "failed"]
    inputs: Literal["cancelled", "held"]


ENDINGS: Final[Mapping[Cause, Ending]] = {
    "completed": Ending("completed", "stopped", "cancelled"),
    "user": Ending("user_cancelled", "stopped", "cancelled"),
    "cleared": Ending("user_cancelled", "stopped", "cancelled"),
    "replaced": Ending("user_cancelled", "stopped", "cancelled"),
    "deleted": Ending("user_cancelled", "stopped", "cancelled"),
    "hook_denied": Ending("hook_stopped", "stopped", "cancelled"),
    "ttl_expired": Ending("ttl_expired", "stopped", "cancelled"),
    "parent_stopped": Ending("parent_stopped", "stopped", "cancelled"),
    "turns_limit": Ending("max_turns", "stopped", "cancelled"),
    "budget": Ending("budget_exceeded", "stopped", "cancelled"),
    "failed": Ending("error", "failed", "held"),
    "process_exited": Ending("agent_crashed", "failed", "held"),
    "stalled": Ending("timeout", "failed", "held"),
    "start_failed": Ending("start_failed", "failed", "held"),
    "fenced": Ending("fenced", "failed", "held"),
}

FAILED_REASONS: Final = frozenset(
    ending.reason for ending in ENDINGS.values() if ending.badge == "failed"
)

# After these an input does not resume a session; a user must change something first.
BUDGET_REASONS: Final = frozenset({"max_turns", "budget_exceeded"})

NOT_RESUMED_BY_INPUT: Final = BUDGET_REASONS | {"fenced", "ttl_expired"}
