"""Multi-step work that runs to completion even if its caller is cancelled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

import outcome
import trio
from trio_util import AsyncValue

from supervisor.drivers.port import DriverRuntime

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
