"""Tasks of sessions: work that outlives its caller, and the limit of concurrent agent starts."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar, TypeVarTuple

import outcome
import trio
from trio_util import AsyncValue

from supervisor.drivers.port import Driver
from supervisor.drivers.runtime import DriverRuntime

from .refusals import supervisor_closed

T = TypeVar("T")
Args = TypeVarTuple("Args")


class DetachedTasks:
    """Runner of work that outlives its caller, with locks by name."""

    def __init__(self, tasks: DriverRuntime) -> None:
        self._tasks = tasks
        # Number of detached tasks that have not finished.
        self.count = AsyncValue(0)
        # Names under which exclusive work runs now, with the event that its end sets.
        self._in_progress: dict[str, trio.Event] = {}

    def refuse_if_closed(self) -> None:
        """Raise SessionNotActive if the supervisor is closed."""
        if self._tasks.is_closed:
            raise supervisor_closed()

    async def run_detached(self, work: Callable[[*Args], Awaitable[T]], *args: *Args) -> T:
        """Run the work in its own task and return its result.

        If the caller is cancelled, the work continues.
        """
        self.refuse_if_closed()
        self.count.value += 1
        done = trio.Event()
        result: list[outcome.Outcome[T]] = []

        async def do() -> None:
            try:
                result.append(outcome.Value(await work(*args)))
            except Exception as error:  # noqa: BLE001 - raised again in the waiting caller
                result.append(outcome.Error(error))
            finally:
                if not result:  # cancelled, because the supervisor closes
                    result.append(outcome.Error(supervisor_closed()))
                self.count.value -= 1
                done.set()

        self._tasks.start_soon(do)
        await done.wait()
        return result[0].unwrap()

    async def wait_for_change(self, name: str) -> None:
        """Wait until no exclusive work runs under the name."""
        while (changing := self._in_progress.get(name)) is not None:
            await changing.wait()

    async def exclusive(self, name: str, work: Callable[[*Args], Awaitable[T]], *args: *Args) -> T:
        """Run the work detached, after other exclusive work under the same name."""
        await self.wait_for_change(name)
        self.refuse_if_closed()  # otherwise the event below would never be set
        done = self._in_progress[name] = trio.Event()

        async def do() -> T:
            try:
                return await work(*args)
            finally:
                del self._in_progress[name]
                done.set()

        return await self.run_detached(do)


# A call of one method, with its return value: None, unless the driver is wrong.
DriverCall: TypeAlias = Callable[[Driver], object]


class StartLimiter:
    """Starts at most `limit` in-process agents at once, in the order of their requests."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # Drivers whose start has begun and not ended.
        self._starting: set[Driver] = set()
        # Drivers that wait to start, in order, each with the call that starts it and later ones.
        self._waiting: dict[Driver, deque[DriverCall]] = {}

    def set_limit(self, limit: int) -> None:
        """Replace the limit; it applies to the next start."""
        self._limit = limit

    def start(self, driver: Driver, start: DriverCall) -> None:
        """Start the driver by this call, now or when fewer drivers are starting."""
        if len(self._starting) < self._limit:
            self._starting.add(driver)
            start(driver)
        else:
            self._waiting[driver] = deque([start])

    def is_waiting(self, driver: Driver) -> bool:
        """Return True if the driver waits to start."""
        return driver in self._waiting

    def call_after_start(self, driver: Driver, call: DriverCall) -> None:
        """Make the call on a driver that waits to start, after earlier calls."""
        self._waiting[driver].append(call)

    def release(self, driver: Driver) -> None:
        """Record that the driver's start has ended, and start the next ones."""
        if driver not in self._starting:
            return
        self._starting.discard(driver)
        while self._waiting and len(self._starting) < self._limit:
            following = next(iter(self._waiting))
            calls = self._waiting.pop(following)
            self._starting.add(following)
            for call in calls:
                call(following)

    def cancel(self, driver: Driver) -> bool:
        """Withdraw the driver; return True if its start had not begun."""
        if self._waiting.pop(driver, None) is not None:
            return True
        self.release(driver)
        return False
