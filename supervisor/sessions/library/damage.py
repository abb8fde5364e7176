"""Sessions whose rows cannot be read: looked at, made anew from their records, or let go.

Rule 1: nobody moves such a session until somebody asks for a repair. What bears its key is it.
Rule 2: one that is made anew gets the fate that the start could not give it, in the same commit;
        from then on the house knows it as if it had been read when it was opened.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from supervisor.core.errors import NotStorable, SessionNotFound
from supervisor.core.ids import SessionId
from supervisor.core.limits import LARGEST
from supervisor.core.session import Phase, Session
from supervisor.sessions.house.recovery import find_unheard, know
from supervisor.store.port import RawRow, Write
from supervisor.store.repair import Mended, RepairReport, damage_of, mend_row, refusal
from supervisor.store.threads import in_thread

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House


async def row_or_damage(house: House, session_id: SessionId) -> Session | RawRow:
    """The session's row, or what lies in its place; raises `SessionNotFound`."""
    while True:
        try:
            return (await house.tree.stored(session_id)).row
        except NotStorable:
            raw = await house.store.raw_row(session_id)
        if raw is not None and damage_of(raw) is not None:  # and not mended meanwhile
            return raw


async def look_at_row(house: House, damaged: RawRow, *, dry_run: bool, force: bool) -> Mended:
    """What is wrong, and the row that its records give; raises `RepairRefused`."""
    session_id = damaged.session_id
    refused = refusal(
        session_id, (), live=house.tree.is_awake(session_id), dry_run=dry_run, force=force
    )
    if refused is not None:
        raise refused  # its actor knows its row, and writes it with the next thing that happens
    raw = await house.store.raw_records(session_id)
    last = max((one.seq for one in raw if isinstance(one.seq, int)), default=0)
    snapshot = await house.store.snapshot(session_id, at=LARGEST)
    look = partial(
        mend_row,
        damaged,
        raw,
        snapshot,
        at=house.clock.now(),
        last_seq=last,
        dry_run=dry_run,
        force=force,
    )
    return await in_thread(look, house.long_work)


async def make_row_anew(house: House, session_id: SessionId, *, force: bool) -> RepairReport:
    """Have the session again; raises `RepairRefused`, and `KeyTaken` if its key is another's."""
    work = partial(_make_anew, house, session_id, force=force)
    return await house.register.alone(f"session {session_id}", work)


async def _make_anew(house: House, session_id: SessionId, *, force: bool) -> RepairReport:
    damaged = await row_or_damage(house, session_id)
    if isinstance(damaged, Session):
        return RepairReport(session_id, dry_run=False, problems=())  # somebody was faster
    mended = await look_at_row(house, damaged, dry_run=False, force=force)
    row = mended.row
    assert row is not None  # or it was refused
    if not row.archived:
        house.register.refuse_if_taken(row)
    await _enter_those_above(house, row)
    unheard = await find_unheard(house, [row])
    await house.register.write(Write(session_id, damaged.epoch, mended.report.appended, row))
    # In one step from here: whoever wants it now is about to claim it, and comes after us.
    if house.desk.ledger.is_missed(session_id):
        house.desk.ledger.enter(row)
    know(house, [row], (), unheard)
    house.rouse_readers()
    if not house.is_still and session_id not in house.tree.ending:
        _set_in_motion(house, row)
    return mended.report


async def _enter_those_above(house: House, row: Session) -> None:
    """Have them in the ledger, the root first: without children they had no page."""
    ledger = house.desk.ledger
    for above in row.lineage.above or ():
        with contextlib.suppress(NotStorable, SessionNotFound):
            if ledger.find(above) is None:
                found = await house.tree.row(above)
                ledger.remember(found.lineage.above or ())
                ledger.enter(found)


def _set_in_motion(house: House, row: Session) -> None:
    """Have it go on as it would have when the house was opened."""
    if row.phase is not Phase.STOPPED and house.desk.has_lost_its_parent(row):
        house.desk.stop_soon(row.id, "parent_stopped")
    elif row.phase is Phase.RESTARTING or (row.phase is Phase.SUSPENDED and row.inputs):
        house.desk.bell.call(row.id)
