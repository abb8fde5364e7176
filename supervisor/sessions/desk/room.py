"""Room for one more agent process: who does nothing gives way to who has something to do."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import trio

from actors import ActorStopped, MailboxFull
from supervisor.core.events import IdleElapsed
from supervisor.core.session import Phase

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House
    from supervisor.sessions.shell.seat import Seat


async def wait_for_room(house: House, agent: str) -> None:
    """If that agent is a process, and all places are taken, have an idle one give way first.

    Bounded, and no promise: who is admitted is decided at the desk.
    """
    ledger, most = house.desk.ledger, house.settings.max_agent_processes
    if agent not in ledger.process_agents or len(ledger.processes) < most:
        return
    if make_room(house):
        with trio.move_on_after(house.settings.ladder.total_seconds):
            while len(ledger.processes) >= most:  # noqa: ASYNC110 - whoever ends, it is room
                await trio.sleep(_LOOK_AGAIN_SECONDS)


def make_room(house: House) -> bool:
    """Have the session rest that has been idle longest and is an agent process, if there is one.

    It decides itself whether it may; if not, whoever waits for room waits for somebody to end.
    """
    idle = [seat for seat in house.tree.live() if _gives_way(seat, house)]
    if idle:
        seat = min(idle, key=_last_active)
        assert seat.ref is not None
        with contextlib.suppress(ActorStopped, MailboxFull):
            seat.ref.tell(IdleElapsed(**house.stamp()), urgent=True)
            return True
    return False


_LOOK_AGAIN_SECONDS: Final = 0.05


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
