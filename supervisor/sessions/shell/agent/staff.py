"""The agent that works in a session, and those who are on their way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.core import events as ev
from supervisor.core.effects import OfferSteering, StartTurn, WithdrawSteering
from supervisor.core.session import Failure
from supervisor.drivers.port import Driver
from supervisor.drivers.python import PythonDriver
from supervisor.sessions.desk.starts import Order

from .office import Office
from .preparation import Preparation

if TYPE_CHECKING:
    from supervisor.sessions.shell.actor import SessionActor


class Staff:
    """One for each incarnation."""

    __slots__ = ("_actor", "_closing", "_driver", "_office", "_preparation")

    def __init__(self, actor: SessionActor) -> None:
        self._actor = actor
        # Invariant: the agent at work, from StartAgent until it left or was told to close.
        self._driver: Driver | None = None
        self._office: Office | None = None
        # Agents that were told to close and have not said that they have.
        self._closing: tuple[Office, ...] = ()
        # What a turn waits for before its agent gets it: the say of hooks.
        self._preparation: Preparation | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nobody works, and nobody is on the way out."""
        return self._driver is None and not self._closing

    # Coming ---------------------------------------------------------------------------------

    def bring_up(self) -> None:
        """Have an agent, if there is none."""
        if self._driver is not None:
            return
        house = self._actor.seat.house
        name = self._actor.session.agent_name
        kind = house.agents.get(name)
        if kind is None:
            failure = Failure("startup", f"no agent {name!r} is known")
            self._tell_actor(ev.AgentStartFailed(failure=failure, **house.stamp()))
            return
        self._office = Office(self._actor, self._actor.ref)
        self._driver = kind.make_driver(self._office, house.workshop)
        if not isinstance(self._driver, PythonDriver):  # which is never hindered by anything
            self._actor.seat.hindrance = self._driver.hindrance
        if kind.runs_process:
            self._driver.start()  # it waits for its turn by itself
        else:
            house.starts.begin(self._driver)

    def is_up(self, office: Office) -> None:
        """The agent has said that it is up."""
        if office is self._office and self._driver is not None:
            self._actor.seat.house.starts.is_up(self._driver)

    # At work --------------------------------------------------------------------------------

    def tell(self, order: Order) -> None:
        """Give the agent an order; if there is none, nobody needs it."""
        if self._driver is not None:
            self._actor.seat.house.starts.tell(self._driver, order)

    def start_turn(self, order: StartTurn) -> None:
        """Give the turn to the agent, at once or when hooks have had their say."""
        self.bring_up()
        if self._driver is None or self._office is None:
            return  # there is no such agent, and that is said
        house = self._actor.seat.house
        if not house.gates.asks_before_turns():
            self.tell(lambda driver: driver.start_turn(order))
            return
        preparation = Preparation(self._actor.session, order, self._office, self.tell)
        self._preparation = preparation
        self._actor.seat.asks_hooks = True
        house.workshop.start_soon(self._prepare, preparation)

    async def _prepare(self, preparation: Preparation) -> None:
        try:
            await preparation.run(self._actor.seat.house.gates)
        finally:
            if self._preparation is preparation:
                self._preparation = None
                self._actor.seat.asks_hooks = False

    def offer(self, offer: OfferSteering) -> None:
        """Guidance for the turn, which may not have begun yet."""
        if self._preparation is not None:
            self._preparation.offer(offer)
        else:
            self.tell(lambda driver: driver.offer_steering(offer))

    def withdraw(self, effect: WithdrawSteering) -> None:
        """Not any more."""
        if self._preparation is not None:
            self._preparation.withdraw(effect.input)
        self.tell(lambda driver: driver.withdraw_steering(effect.turn, effect.input))

    def cancel_preparation(self) -> None:
        """If hooks are asked about a turn, it does not begin."""
        if self._preparation is not None:
            self._preparation.cancel()

    # Going ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Let the agent go, gently; the actor hears when nothing is left of it."""
        driver, office = self._driver, self._office
        if driver is None or office is None:
            if not self._closing:
                self._tell_closed()
            return
        has_not_begun = self._actor.seat.house.starts.give_up(driver)
        self.lose(office)
        if has_not_begun:
            self._tell_closed()
        else:
            self._closing += (office,)
            driver.close()

    def lose(self, office: Office) -> None:
        """The agent has left, or is about to."""
        office.is_closed = True
        if office is self._office and self._driver is not None:
            self._actor.seat.house.starts.give_up(self._driver)
            self._actor.seat.hindrance = None
            self._driver = self._office = None

    def is_last(self, office: Office) -> bool:
        """One that was told to close has: whether nobody is left of those who were."""
        if office not in self._closing:
            return False
        self._closing = tuple(one for one in self._closing if one is not office)
        return not self._closing

    def drop(self) -> None:
        """The incarnation has ended: nothing of its agent goes on."""
        self.cancel_preparation()
        driver, office = self._driver, self._office
        self._actor.seat.hindrance = None
        if driver is not None and office is not None:
            office.is_closed = True
            if not self._actor.seat.house.starts.give_up(driver):
                driver.drop()

    def _tell_closed(self) -> None:
        self._tell_actor(ev.AgentClosed(**self._actor.seat.house.stamp()))

    def _tell_actor(self, event: ev.Event) -> None:
        """As if an agent had said it."""
        office = Office(self._actor, self._actor.ref)
        if type(event) is ev.AgentClosed:
            self._closing += (office,)
        office.report_surely(event)
