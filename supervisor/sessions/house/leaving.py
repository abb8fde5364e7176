"""How a supervisor leaves: turns may end, then they are interrupted; sessions rest; agents let go.

Rule 1: every wait here is bounded, but for the last: a task that shields itself cannot be left
        behind, so we say whose it is.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final

import trio

from actors import ActorStopped, MailboxFull, Ref
from supervisor.core import events as ev
from supervisor.core.errors import SupervisorError

if TYPE_CHECKING:
    from supervisor.sessions.shell.seat import Seat

    from .house import House

logger = logging.getLogger("supervisor")

# Beyond the ladder itself, for the commits on the way.
_MARGIN_SECONDS: Final = 5.0
_LOOK_AGAIN_SECONDS: Final = 0.05


async def leave(house: House, *, patience_seconds: float) -> None:
    """Refuse new work, let turns end within a bound, interrupt the rest, and rest."""
    house.tree.is_leaving = True
    with trio.move_on_after(patience_seconds):
        await _have_all_rest(house)
        return
    for seat in house.tree.live():
        _tell(seat, ev.InterruptRequested(reason="shutdown", **house.stamp()))
    with trio.move_on_after(_longest_ladder(house) + _MARGIN_SECONDS):
        await _have_all_rest(house)


async def wait_for_zombies(house: House) -> None:
    """Wait for the tasks of abandoned turns, and say whose they are when that takes long."""
    house.workshop.closing.set()
    with trio.move_on_after(house.settings.exit_seconds):
        await _wait_until_no_zombies(house)
        return
    for turn, whose in house.workshop.zombies.items():
        logger.error("leaving is held by %s: %s will not end", whose, turn)


def _tell(seat: Seat, event: ev.Event) -> None:
    assert seat.ref is not None
    # If it is over, good; if it is too busy to hear us, it will be cut short.
    with contextlib.suppress(ActorStopped, MailboxFull):
        seat.ref.tell(event, urgent=True)


async def _have_all_rest(house: House) -> None:
    """Tell all to rest, also those who come up meanwhile, and wait until they do.

    In rounds, in each of which everybody takes one step: up, at rest, gone. Those who come up in
    one are told in the next; so nobody is looked at more often than there are steps.
    """
    told: set[Ref] = set()
    await trio.lowlevel.checkpoint()
    while True:
        awake = [seat for seat in house.tree.awake() if not _is_held(seat)]
        if not awake and not house.works.count:
            return
        for seat in awake:
            if seat.ref is not None and seat.ref not in told:
                told.add(seat.ref)
                _tell(seat, ev.LeaveRequested(**house.stamp()))
        if not await _take_a_step(house, awake):
            await trio.sleep(_LOOK_AGAIN_SECONDS)


async def _take_a_step(house: House, seats: list[Seat]) -> bool:
    """Wait until each is one step further; whether it was so with all of them."""
    waited = bool(seats)
    for seat in seats:
        if _is_held(seat):  # since it was listed: nothing comes of waiting for it
            continue
        try:
            await house.tree.wait_for_rest(seat)
        except SupervisorError:  # it is gone, or is somebody else's now: nobody waits for it here
            waited = False
    return waited


def _is_held(seat: Seat) -> bool:
    """Whether only a task that will not end keeps it awake."""
    session = seat.session
    return session is not None and session.zombie is not None and session.is_at_rest


async def _wait_until_no_zombies(house: House) -> None:
    while house.workshop.zombies:  # noqa: ASYNC110 - asked rarely, and only on the way out
        await trio.sleep(_LOOK_AGAIN_SECONDS)
    await trio.lowlevel.checkpoint()


def _longest_ladder(house: House) -> float:
    ladders = [seat.session.terms.ladder for seat in house.tree.live() if seat.session is not None]
    return max((ladder.total_seconds for ladder in ladders), default=0.0)
