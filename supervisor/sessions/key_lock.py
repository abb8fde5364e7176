"""Exclusive work on a session that may change the holder of its key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from supervisor.core.ids import SessionId, SessionKey

from .registry import SessionRegistry
from .services import Services


async def exclusive_by_key(
    services: Services,
    registry: SessionRegistry,
    session_id: SessionId,
    work: Callable[[SessionId, SessionKey | None], Awaitable[None]],
) -> None:
    """Run the work to completion while no other work changes the holder of the session's key."""
    key = (await registry.stored(session_id)).row.key
    name = f"session {session_id}" if key is None else str(key)
    await services.detached_tasks.exclusive(name, work, session_id, key)
