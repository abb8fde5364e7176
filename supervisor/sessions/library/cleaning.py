"""Clearing up: what is over and old, too much or too large, goes for good."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

import attrs

from supervisor.core.errors import SessionNotFound, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.core.session import Phase
from supervisor.store.retention import Goes, Reason, Rules, plan

if TYPE_CHECKING:
    from supervisor.sessions.house import House


@attrs.frozen
class CleanupReport:
    """What has gone, or would: each session with its tree's reason; and what could not go."""

    dry_run: bool
    deleted: Mapping[SessionId, Reason]
    bytes: int
    failed: Mapping[SessionId, str]


async def clean_up(house: House, rules: Rules, *, dry_run: bool) -> CleanupReport:
    """See `Supervisor.cleanup`."""
    if not dry_run:
        house.tree.refuse_if_leaving()
    async with aclosing(house.store.rows()) as rows:
        known = [stored.row async for stored in rows]
    sizes = await house.store.sizes()
    goes = plan(known, sizes, rules, at=house.clock.now())
    deleted: dict[SessionId, Reason] = {}
    failed: dict[SessionId, str] = {}
    size = 0
    for tree in goes:
        if not dry_run and not await _is_still_over(house, tree):
            continue  # somebody has brought it back since it was looked at
        for session_id in tree.sessions:
            try:
                if not dry_run and not await _delete(house, session_id):
                    break  # in the very last moment
            except SessionNotFound:
                continue  # somebody else was faster
            except SupervisorError as error:
                failed[session_id] = str(error)
                break
            deleted[session_id] = tree.reason
            size += sizes.get(session_id, 0)
    return CleanupReport(dry_run, deleted, size, failed)


async def _is_still_over(house: House, tree: Goes) -> bool:
    stored = [await house.store.read(session_id) for session_id in tree.sessions]
    return all(one is None or one.row.phase is Phase.STOPPED for one in stored)


async def _delete(house: House, session_id: SessionId) -> bool:
    """Whether it is gone: only if it is still over."""
    return await house.register.delete(session_id, only_if_over=True)
