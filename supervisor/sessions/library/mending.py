"""Looking at what was written: whether it is whole, and how a session was at any moment."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from supervisor.core.errors import RecordNotFound, RepairRefused, shown
from supervisor.core.ids import SessionId
from supervisor.core.info import Info, info_of
from supervisor.core.session import Session
from supervisor.store.port import RawRow, Write
from supervisor.store.repair import RepairReport, mend, refusal
from supervisor.store.replaying import replay_from
from supervisor.store.threads import in_thread
from supervisor.store.writer import Claim

from .damage import look_at_row, make_row_anew, row_or_damage

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House


async def repair(
    house: House, session_id: SessionId, *, dry_run: bool, force: bool
) -> RepairReport:
    """See `Session.repair`."""
    if not dry_run:
        house.tree.refuse_if_leaving()
    row = await row_or_damage(house, session_id)
    if isinstance(row, RawRow):
        if dry_run:
            return (await look_at_row(house, row, dry_run=True, force=force)).report
        return await make_row_anew(house, session_id, force=force)
    _refuse_at_work(house, session_id, row)
    if dry_run:
        return await _examine(house, session_id, row, None, force=force)
    work = partial(_repair, house, session_id, force=force)
    return await house.register.alone(f"session {session_id}", work)


def _refuse_at_work(house: House, session_id: SessionId, row: Session) -> None:
    live = house.tree.is_awake(session_id) or not row.is_at_rest
    if live and house.is_still:
        raise RepairRefused(
            f"session {session_id} was at work when the file was left",
            hint="have a supervisor open the file once, which closes what was left open",
        )
    refused = refusal(session_id, (), live=live, dry_run=True, force=False)
    if refused is not None:
        raise refused


async def _repair(house: House, session_id: SessionId, *, force: bool) -> RepairReport:
    """Claimed first: whoever wakes it meanwhile begins after us, or we are told that it did."""
    row = (await house.tree.stored(session_id)).row
    _refuse_at_work(house, session_id, row)  # in the same step as the claim goes out
    stored = await house.writer.ask(Claim(session_id), timeout_seconds=math.inf)
    if stored is None:
        return RepairReport(session_id, dry_run=False, problems=(), appended=())
    return await _examine(house, session_id, stored.row, stored.epoch, force=force)


async def _examine(
    house: House,
    session_id: SessionId,
    row: Session,
    epoch: int | None,
    *,
    force: bool,
) -> RepairReport:
    """What is wrong, and with the epoch of a claim, what was appended because of it."""
    raw = await house.store.raw_records(session_id)
    last = max((one.seq for one in raw if isinstance(one.seq, int)), default=0)
    mended = await in_thread(
        partial(
            mend,
            session_id,
            raw,
            row,
            at=house.clock.now(),
            last_seq=last,
            epoch=epoch,
            dry_run=epoch is None,
            force=force,
        ),
        house.long_work,
    )
    if epoch is not None and mended.row is not None:
        await house.register.write(Write(session_id, epoch, mended.report.appended, mended.row))
    return mended.report


async def replay(house: House, session_id: SessionId, at: int) -> Info:
    """See `Session.replay`."""
    stored = await house.tree.stored(session_id)
    if type(at) is not int or not 1 <= at <= stored.last_seq:
        raise RecordNotFound(
            f"session {session_id} has no record {shown(at)}",
            hint=f"give a number from 1 to {stored.last_seq}",
        )
    snapshot = await house.store.snapshot(session_id, at=at)
    after = 0 if snapshot is None else snapshot[0]
    records = await house.store.records(session_id, after=after, limit=at - after)
    return info_of(replay_from(snapshot, records, at), last_seq=at)
