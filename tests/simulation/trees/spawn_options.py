"""Random options of spawns, allowed or not."""

from __future__ import annotations

import random
from typing import Any, Final

from supervisor import Limits, Permissions, Restart

TOOLS: Final = ("bash", "edit", "web")
ROOT_PERMISSIONS: Final = Permissions(tools=TOOLS, skills=("cook",), mode="approve_reads")
# Actions of agents in a turn; a repeated action is more probable.
CALM: Final = ("say", "use", "news", "pause", "allowed")
BUSY: Final = (*CALM, "spawn", "spawn", "spawn_two", "await", "control_child", "get_descendant")
ROUGH: Final = (*BUSY, "raise", "crash", "hang", "sleep")
SPENDING: Final = (*BUSY, "spend", "spend", "spend", "sleep")


def random_actions(actions: tuple[str, ...], most: int = 3) -> list[str]:
    return random.choices(actions, k=random.randrange(most + 1))


def random_spawn_options() -> dict[str, Any]:
    """Return options of a spawn; most are left out."""
    options: dict[str, Any] = {
        "lifetime": random.choice(("with_parent", "with_parent", "with_parent", "detached")),
        "on_end": random.choice(("tell", "tell", "wake")),
    }
    for name, chance, make in (
        ("ttl_seconds", 0.15, lambda: random.choice((0.25, 1.0, 4.0))),
        ("limits", 0.2, random_limits),
        ("permissions", 0.25, random_permissions),
        ("restart", 0.05, random_restart),
        ("suspend_after_seconds", 0.3, lambda: 0.25),
        ("idempotency_key", 0.15, lambda: random.choice("ab")),
        ("workspace", 0.1, lambda: random.choice(("/w", "/w/in", "/elsewhere"))),
    ):
        if random.random() < chance:
            options[name] = make()
    return options


def random_limits() -> Limits:
    return Limits(
        max_depth=random.choice((1, 2, 3, 9)),
        max_children=random.choice((0, 1, 2, 9)),
        max_descendants=random.choice((1, 2, 4, 9)),
        max_spawns=random.choice((1, 3, 9, 99)),
        turns=random.choice((None, None, 1, 3)),
        tokens=random.choice((None, None, 4, 9)),
    )


def random_permissions() -> Permissions:
    return Permissions(
        tools=random.choice((None, (), ("bash",), ("bash", "edit"), ("bash", "rockets"))),
        skills=random.choice((None, None, (), ("cook",), ("fly",))),
        network_channels=random.choice((None, None, ("lan",))),
        mode=random.choice((None, None, "deny_all", "approve_reads", "approve_all")),
    )


def random_restart() -> Restart:
    return Restart(
        policy=random.choice(("never", "on_crash", "always")),
        max_restarts=random.choice((0, 1, 2)),
        within_seconds=random.choice((1.0, 10.0)),
        backoff_seconds=random.choice((0.0, 0.25, 2.0)),
    )
