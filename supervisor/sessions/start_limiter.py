"""Limit of agents that start at once. Calls to a waiting driver are queued in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from supervisor.drivers.port import Driver

DriverCall: TypeAlias = Callable[[Driver], None]


class StartLimiter:
    """Starts at most `limit` in-process agents at once, in the order of their requests."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # Drivers whose start has begun and not ended.
        self._starting: set[Driver] = set()
        # Drivers that wait to start, in order, each with the calls made since.
        self._waiting: dict[Driver, deque[DriverCall]] = {}

    def set_limit(self, limit: int) -> None:
        """Replace the limit; it applies to the next start."""
        self._limit = limit

    def start(self, driver: Driver) -> None:
        """Start the driver, now or when fewer are starting."""
        if len(self._starting) < self._limit:
            self._starting.add(driver)
            driver.start()
        else:
            self._waiting[driver] = deque()

    def call(self, driver: Driver, call: DriverCall) -> None:
        """Make the call on the driver, after those that were queued for it."""
        waiting = self._waiting.get(driver) if self._waiting else None
        if waiting is None:
            call(driver)
        else:
            waiting.append(call)

    def release(self, driver: Driver) -> None:
        """Record that the driver's start has ended, and start the next ones."""
        if driver not in self._starting:
            return
        self._starting.discard(driver)
        while self._waiting and len(self._starting) < self._limit:
            following = next(iter(self._waiting))
            calls = self._waiting.pop(following)
            self._starting.add(following)
            following.start()
            for call in calls:
                call(following)

    def cancel(self, driver: Driver) -> bool:
        """Withdraw the driver; return whether its start had not begun."""
        if self._waiting.pop(driver, None) is not None:
            return True
        self.release(driver)
        return False
