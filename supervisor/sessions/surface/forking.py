"""A new session that begins with what another one has heard and said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.core.creation import plan_of
from supervisor.core.errors import InputRefused, shown
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.sessions.shell.past import messages_of

from .checks import some_text

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House


async def fork(house: House, session_id: SessionId, at_turn: str | None) -> SessionId:
    """The id of the new session; see `Session.fork`."""
    if at_turn is not None:
        some_text("at_turn", at_turn)
    stored = await house.tree.stored(session_id)
    records = await house.tree.all_records(session_id)
    if at_turn is not None:
        records = _up_to_turn(records, at_turn)
    else:
        over = {None, *(record.turn_id for record in records if record.kind == "turn_ended")}
        records = [record for record in records if record.turn_id in over]
    limits = house.desk.info(stored.row, last_seq=0).limits
    return await house.register.create(plan_of(stored.row, limits), messages_of(records))


def _up_to_turn(records: list[Record], at_turn: str) -> list[Record]:
    for place, record in enumerate(records):
        if record.kind == "turn_ended" and record.turn_id == at_turn:
            return records[: place + 1]
    raise InputRefused(
        f"no turn {shown(at_turn)} has ended in this session",
        hint="its history has the turns; name none to fork at the end",
    )
