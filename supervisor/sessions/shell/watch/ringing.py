"""What it means that a timer of a session is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.core import events as ev
from supervisor.core.ids import RequestId

from .liveness import notice

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House
    from supervisor.sessions.shell.seat import Seat


def meaning_of(name: str, house: House, seat: Seat) -> ev.Event | None:  # noqa: PLR0911 - one each
    """The news that the session is told, or None if the timer no longer means anything."""
    turn = seat.session.turn if seat.session is not None else None
    match name:
        case "silence":
            return notice(house, seat)
        case "ladder":
            if turn is None or turn.step is None:
                return None
            return ev.LadderElapsed(turn=turn.id, step=turn.step, **house.stamp())
        case "deadline":
            return None if turn is None else ev.DeadlineElapsed(turn=turn.id, **house.stamp())
        case "suspend":
            return ev.IdleElapsed(**house.stamp())
        case "backoff":
            return ev.BackoffElapsed(**house.stamp())
        case "expiry":
            return ev.InputsExpired(**house.stamp())
        case _:
            return ev.RequestTimedOut(request=RequestId(name), **house.stamp())
