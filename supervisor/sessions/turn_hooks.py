"""Blocking hooks that a turn waits for before its driver receives it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import trio

from supervisor.core.agent_events import SteeringDeclined, TurnEnded
from supervisor.core.effects import OfferSteering, StartTurn
from supervisor.core.ids import InputId
from supervisor.core.state import Outcome, SessionState
from supervisor.drivers.port import Driver

from .driver_context import SessionDriverContext
from .hooks import Denied
from .hooks.blocking import BlockingHooks
from .tasks import DriverCall


def _offer_steering(offer: OfferSteering, driver: Driver) -> object:
    return driver.offer_steering(offer)  # type: ignore[func-returns-value] # of another author


class TurnHooks:
    """Hooks before one turn; they run outside the actor, then the driver receives the turn."""

    __slots__ = (
        "_call_driver",
        "_context",
        "_is_cancelled",
        "_offers",
        "_scope",
        "_session",
        "_start_turn",
    )

    def __init__(
        self,
        session: SessionState,
        order: StartTurn,
        context: SessionDriverContext,
        call_driver: Callable[[DriverCall], None],
    ) -> None:
        self._session = session
        self._start_turn = order
        self._context = context
        self._call_driver = call_driver
        self._scope = trio.CancelScope()
        self._is_cancelled = False
        # Steering that arrived while the hooks run.
        self._offers: list[OfferSteering] = []

    def offer_steering(self, offer: OfferSteering) -> None:
        """Keep steering for the turn until it starts."""
        self._offers.append(offer)

    def withdraw_steering(self, input_id: InputId) -> None:
        """Drop steering that was kept."""
        self._offers = [offer for offer in self._offers if offer.input != input_id]

    def cancel(self) -> None:
        """Cancel the hooks, because the turn was interrupted before the driver received it.

        The steering is declined at once: hooks may take longer to end than the interrupt waits.
        """
        self._is_cancelled = True
        handed = tuple(offer.input for offer in self._offers if offer.handed)
        self._offers = []
        if handed:
            self._context.report_eventually(
                SteeringDeclined(turn=self._start_turn.turn, inputs=handed, **self._context.stamp())
            )
        self._scope.cancel(reason="the turn was interrupted")

    async def run(self, gates: BlockingHooks) -> None:
        """Call the hooks, then start the turn; if a hook denies, report the end of the turn."""
        order: StartTurn | None = None
        try:
            with self._scope:
                order = await gates.before_turn(self._session, self._start_turn)
        except Denied as denied:
            self._report("failed", f"the hook {denied.hook} refuses the turn: {denied.reason}")
            return
        if self._is_cancelled or order is None:
            self._report("interrupted", None)
        elif not self._context.is_closed:
            begin = order
            self._call_driver(lambda driver: driver.start_turn(begin))
            for offer in self._offers:
                self._call_driver(partial(_offer_steering, offer))

    def _report(self, outcome: Outcome, error: str | None) -> None:
        self._context.report_eventually(
            TurnEnded(
                turn=self._start_turn.turn,
                outcome=outcome,
                stop_reason="cancelled" if outcome == "interrupted" else None,
                error=error,
                **self._context.stamp(),
            )
        )
