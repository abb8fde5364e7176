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
    from supervisor.sessions.house.house import House


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
    seen = {row.id: row.updated_at for row in known}
    for tree in goes:
        if tree.root not in seen and await house.tree.exists(tree.root):
            continue  # it is there and cannot be read: nothing is deleted because of that
        # From here on nothing brings any of them back, so that a tree goes whole or stays whole.
        house.tree.ending.update(tree.sessions)
        try:
            if dry_run or await _is_as_it_was(house, tree, seen):
                for session_id in tree.sessions:
                    if dry_run or await _delete(house, session_id, failed):
                        deleted[session_id] = tree.reason
                        size += sizes.get(session_id, 0)
                    if session_id in failed:
                        break
        finally:
            house.tree.ending.difference_update(tree.sessions)
    return CleanupReport(dry_run, deleted, size, failed)


async def _is_as_it_was(house: House, tree: Goes, seen: Mapping[SessionId, float]) -> bool:
    """Whether nothing has happened in it since it was looked at."""
    for session_id in tree.sessions:
        stored = await house.store.read(session_id)
        if stored is None:
            continue  # somebody else was faster
        if stored.row.phase is not Phase.STOPPED or stored.row.updated_at != seen[session_id]:
            return False
    return True


async def _delete(house: House, session_id: SessionId, failed: dict[SessionId, str]) -> bool:
    """Whether it is gone by us."""
    try:
        return await house.register.delete(session_id, only_if_over=True)
    except SessionNotFound:
        return False
    except SupervisorError as error:
        failed[session_id] = str(error)
        return False
