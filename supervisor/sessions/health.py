"""Reaction to a change of the store's health."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from supervisor.store.pending import StoreState
from supervisor.store.writer import retry_until_healthy

from .services import Services

logger = logging.getLogger("supervisor")


def on_health_change(
    services: Services, order_postponed_stops: Callable[[], Awaitable[None]], state: StoreState
) -> None:
    """Log the change, notify observers, and retry the store or order the postponed stops."""
    if state.degraded:
        logger.error("%s (hint: %s)", state.problem, state.hint)
        services.tasks.start_soon(retry_until_healthy, services.writer, services.health)
    else:
        logger.warning("store recovered")
        services.tasks.start_soon(order_postponed_stops)
    services.hooks.notify(
        "health_changed",
        session_id=None,
        badge="unhealthy" if state.degraded else "healthy",
        before="healthy" if state.degraded else "unhealthy",
        detail=state.problem,
    )
