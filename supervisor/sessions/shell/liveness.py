"""Measures silence: since when nothing has come of a turn, or of those whom it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import trio

from supervisor.core import events as ev
from supervisor.core.ids import SessionId
from supervisor.core.liveness import Look, look_at, stall_limit
from supervisor.core.session import Silence

if TYPE_CHECKING:
    from supervisor.sessions.house import House

    from .seat import Seat


@attrs.frozen
class Evidence:
    """What a turn waits for: a model, a tool, a person, or another session."""

    waits_for: str
    detail: str | None = None


def notice(house: House, seat: Seat) -> ev.SilenceNoticed | None:
    """The news that a turn is silent, if it is and nobody has said so."""
    level = silence_of(house, seat)
    session, log = seat.session, seat.log
    if level is None or session is None or session.turn is None or log is None:
        return None
    if log.output is not None:
        log.output.is_silent = True
    evidence = evidence_of(seat)
    seconds = silent_seconds(house, seat)
    stamp = house.stamp()
    return ev.SilenceNoticed(
        turn=session.turn.id,
        level=level,
        waits_for=evidence.waits_for,
        detail=evidence.detail,
        since=stamp["at"] - seconds,
        seconds=seconds,
        **stamp,
    )


def silence_of(house: House, seat: Seat) -> Silence | None:
    """What is to be said of the session's turn now."""
    look = _look(house, seat)
    return None if look is None else look.level


def seconds_until_next_look(house: House, seat: Seat) -> float | None:
    """When there may be something to say again; None until there is progress."""
    look = _look(house, seat)
    return None if look is None else look.again_after_seconds


def _look(house: House, seat: Seat) -> Look | None:
    if seat.session is None:
        return None
    patience = max(
        (_patience_with(house, one, {seat.id}) for one in seat.awaits or ()), default=0.0
    )
    return look_at(seat.session, silent_seconds(house, seat), patience=patience)


def _patience_with(house: House, session_id: SessionId, seen: set[SessionId]) -> float:
    """How long somebody who is waited for, or whom that one waits for, may be silent."""
    seat = house.tree.find_seat(session_id)
    if session_id in seen or seat is None or seat.session is None or seat.session.turn is None:
        return 0.0
    seen.add(session_id)
    own = stall_limit(seat.session.terms, seat.session.turn)
    return max((own, *(_patience_with(house, one, seen) for one in seat.awaits or ())))


def silent_seconds(house: House, seat: Seat) -> float:
    """For how long nothing has come of its turn, nor of anyone it waits for."""
    now = trio.current_time()
    since = _progress_of(house, seat, now, set())
    return max(0.0, now - max(since, house.pulse.look(now)))


def own_silent_seconds(seat: Seat) -> float:
    """For how long nothing has come of its own turn, whatever others do."""
    output = seat.log.output if seat.log is not None else None
    return 0.0 if output is None else trio.current_time() - output.progress


def _progress_of(house: House, seat: Seat, now: float, seen: set[SessionId]) -> float:
    """When anything last came of its turn, or of those whom it waits for.

    Waiting for a person is no silence, so that counts as now.
    """
    seen.add(seat.id)
    session = seat.session
    if session is None or session.turn is None or seat.log is None or seat.log.output is None:
        return -float("inf")
    if session.turn.requests:
        return now
    since = seat.log.output.progress
    for awaited in seat.awaits or ():
        other = house.tree.find_seat(awaited)
        if other is not None and awaited not in seen:
            since = max(since, _progress_of(house, other, now, seen))
    return since


def evidence_of(seat: Seat) -> Evidence:
    """What the session's turn waits for, as far as anyone knows."""
    turn = seat.session.turn if seat.session is not None else None
    if turn is None:
        return Evidence("input")
    if turn.requests:
        return Evidence("person", turn.requests[0].question)
    if seat.awaits:
        return Evidence("child", seat.awaits[-1])
    if turn.calls:
        return Evidence("tool", turn.calls[-1].name)
    return Evidence("model")
