"""Measures silence: since when nothing has come of a turn, or of those whom it waits for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs

from supervisor.core import events as ev
from supervisor.core.liveness import Look, look_at, stall_limit
from supervisor.core.session import Session, Silence

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House
    from supervisor.sessions.shell.seat import Seat


# How much longer than those it waits for a session may be silent, for each step between them: the
# deepest is dealt with first, and all of it stays within what is promised.
MARGIN: Final = 0.015
MOST_MARGIN: Final = 0.09


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
    patience = 0.0
    for other, distance in _awaited(house, seat):
        session = other.session
        if session is not None and session.turn is not None:
            # Whoever is waited for is looked at first, and what is done about it is progress here.
            limit = stall_limit(session.terms, session.turn)
            patience = max(patience, limit * (1.0 + min(MARGIN * distance, MOST_MARGIN)))
    return look_at(seat.session, silent_seconds(house, seat), patience=patience)


def _awaited(house: House, seat: Seat) -> Iterator[tuple[Seat, int]]:
    """All whom the session waits for, and whom those wait for, with how far away they are.

    Each once, however they are tied.
    """
    seen = {seat.id}
    waiting = [(session_id, 1) for session_id in seat.awaits or ()]
    for session_id, distance in waiting:  # it grows meanwhile
        other = house.tree.find_seat(session_id)
        if session_id not in seen and other is not None:
            seen.add(session_id)
            waiting += [(further, distance + 1) for further in other.awaits or ()]
            yield other, distance


def silent_seconds(house: House, seat: Seat) -> float:
    """For how long nothing has come of its turn, nor of anyone it waits for."""
    now = house.pulse.running_time()
    since = _progress_of(seat, now)
    for other, _ in _awaited(house, seat):
        since = max(since, _progress_of(other, now))
    return 0.0 if since == -math.inf else now - since


def own_silent_seconds(seat: Seat) -> float:
    """For how long nothing has come of its own turn, whatever others do."""
    output = seat.log.output if seat.log is not None else None
    return 0.0 if output is None else seat.house.pulse.running_time() - output.progress


def _progress_of(seat: Seat, now: float) -> float:
    """When anything last came of its turn; to wait for a person is no silence, so that is now."""
    session = seat.session
    if session is None or session.turn is None or seat.log is None or seat.log.output is None:
        return seat.turn_over
    if session.turn.requests or session.waits_for_auth or seat.log.is_full:
        return now  # it waits for a person, or for us
    return max(seat.turn_over, seat.log.output.progress)


def login_wanted(session: Session) -> str | None:
    """What is to be done about an agent that waits to be told who we are; None if it does not."""
    method = session.remembered.auth if session.remembered is not None else None
    if method is None:
        return None
    return f"the agent waits to be told who we are, by {method!r}: log in where it asks for that"


def process_trouble(seat: Seat | None) -> str | None:
    """What has happened to the process of its agent, if anything has; a turn may run or not."""
    hindrance = seat.hindrance() if seat is not None and seat.hindrance is not None else None
    return hindrance.detail if hindrance is not None and hindrance.waits_for == "process" else None


def evidence_of(seat: Seat) -> Evidence:  # noqa: PLR0911 - one for each thing to wait for
    """What the session's turn waits for, as far as anyone knows."""
    turn = seat.session.turn if seat.session is not None else None
    if turn is None:
        return Evidence("input")
    if turn.step is not None:
        return Evidence("end", f"of the turn, asked for by {turn.step}")
    if seat.asks_hooks:
        return Evidence("hook")
    hindrance = seat.hindrance() if seat.hindrance is not None else None
    if hindrance is not None:
        return Evidence(hindrance.waits_for, hindrance.detail)
    if turn.requests:
        return Evidence("person", turn.requests[0].question)
    if seat.session is not None and seat.session.waits_for_auth:
        return Evidence("person", login_wanted(seat.session))
    if seat.awaits:
        return Evidence("child", seat.awaits[-1])
    if turn.calls:
        return Evidence("tool", turn.calls[-1].name)
    return Evidence("model")
