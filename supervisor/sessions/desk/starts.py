"""How many agents start at once: the others wait, and so does what they are told meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from supervisor.drivers.port import Driver

Order: TypeAlias = Callable[[Driver], None]


class Starts:
    """One for the house."""

    def __init__(self, most: int) -> None:
        self._most = most
        # Agents that are on their way up.
        self._starting: set[Driver] = set()
        # Those who wait for that, in their order, each with what it was told since.
        self._waiting: dict[Driver, deque[Order]] = {}

    def begin(self, driver: Driver) -> None:
        """Start the agent, now or when fewer are starting."""
        if len(self._starting) < self._most:
            self._starting.add(driver)
            driver.start()
        else:
            self._waiting[driver] = deque()

    def tell(self, driver: Driver, order: Order) -> None:
        """Give it the order, after those that it was given before."""
        waiting = self._waiting.get(driver) if self._waiting else None
        if waiting is None:
            order(driver)
        else:
            waiting.append(order)

    def is_up(self, driver: Driver) -> None:
        """It has started, or never will: the next one may."""
        if driver not in self._starting:
            return
        self._starting.discard(driver)
        while self._waiting and len(self._starting) < self._most:
            following = next(iter(self._waiting))
            orders = self._waiting.pop(following)
            self._starting.add(following)
            following.start()
            for order in orders:
                order(following)

    def give_up(self, driver: Driver) -> bool:
        """It is not wanted any more; gives whether it had not even begun to start."""
        if self._waiting.pop(driver, None) is not None:
            return True
        self.is_up(driver)
        return False
