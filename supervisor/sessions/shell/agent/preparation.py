"""A turn that is about to begin, while hooks have their say."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from supervisor.core.effects import OfferSteering, StartTurn
from supervisor.core.events import TurnEnded
from supervisor.core.ids import InputId
from supervisor.core.session import Outcome, Session
from supervisor.drivers.port import Driver
from supervisor.sessions.desk.starts import Order
from supervisor.sessions.hooks import Denied

from .office import Office

if TYPE_CHECKING:
    from supervisor.sessions.hooks.gates import Gates


def _offer(offer: OfferSteering, driver: Driver) -> None:
    driver.offer_steering(offer)


class Preparation:
    """Runs apart from the session's actor; gives the turn to the agent, or says how it ended."""

    __slots__ = ("_is_cancelled", "_offers", "_office", "_order", "_scope", "_session", "_tell")

    def __init__(
        self, session: Session, order: StartTurn, office: Office, tell: Callable[[Order], None]
    ) -> None:
        self._session = session
        self._order = order
        self._office = office
        # Gives the agent an order.
        self._tell = tell
        self._scope = trio.CancelScope()
        self._is_cancelled = False
        # Guidance that came meanwhile.
        self._offers: list[OfferSteering] = []

    def offer(self, offer: OfferSteering) -> None:
        """Have this for the turn when it begins."""
        self._offers.append(offer)

    def withdraw(self, input_id: InputId) -> None:
        """Not any more."""
        self._offers = [offer for offer in self._offers if offer.input != input_id]

    def cancel(self) -> None:
        """The turn was interrupted before its agent got it."""
        self._is_cancelled = True
        self._scope.cancel(reason="the turn was interrupted")

    async def run(self, gates: Gates) -> None:
        """Ask, then begin; the end is reported as a driver reports it."""
        order: StartTurn | None = None
        try:
            with self._scope:
                order = await gates.starting(self._session, self._order)
        except Denied as denied:
            self._report("failed", f"the hook {denied.hook} refuses the turn: {denied.reason}")
            return
        if self._is_cancelled or order is None:
            self._report("interrupted", None)
        elif not self._office.is_closed:
            begin = order
            self._tell(lambda driver: driver.start_turn(begin))
            for offer in self._offers:
                self._tell(partial(_offer, offer))

    def _report(self, outcome: Outcome, error: str | None) -> None:
        self._office.report_surely(
            TurnEnded(
                turn=self._order.turn,
                outcome=outcome,
                stop_reason="cancelled" if outcome == "interrupted" else None,
                error=error,
                **self._office.stamp(),
            )
        )
