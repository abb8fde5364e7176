"""Room for one more agent process: who does nothing gives way to who has something to do."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from actors import ActorStopped, MailboxFull
from supervisor.core.events import IdleElapsed
from supervisor.core.session import Phase

if TYPE_CHECKING:
    from .house import House
    from .shell.seat import Seat


def make_room(house: House) -> None:
    """Have the session rest that has been idle longest and is an agent process, if there is one.

    It decides itself whether it may; if not, whoever waits for room waits for somebody to end.
    """
    idle = [seat for seat in house.tree.live() if _gives_way(seat, house)]
    if idle:
        seat = min(idle, key=_last_active)
        assert seat.ref is not None
        with contextlib.suppress(ActorStopped, MailboxFull):
            seat.ref.tell(IdleElapsed(**house.stamp()), urgent=True)


def _gives_way(seat: Seat, house: House) -> bool:
    session = seat.session
    if session is None or session.phase is not Phase.IDLE or session.inputs or seat.ref is None:
        return False
    member = house.desk.ledger.find(session.id)
    has_company = member is not None and member.company > 0
    return session.id in house.desk.ledger.processes and not has_company


def _last_active(seat: Seat) -> float:
    assert seat.session is not None
    return seat.session.last_active_at
