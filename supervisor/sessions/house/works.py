"""Work of several steps, carried through even if whoever asked for it gives up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

import outcome
import trio

from supervisor.drivers.port import Workshop
from supervisor.sessions.refusals import has_left

T = TypeVar("T")
Args = TypeVarTuple("Args")


class Works:
    """What is being carried through just now."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self.count = 0

    def refuse_if_closed(self) -> None:
        """Raise if no work is begun any more."""
        if self._workshop.is_closed:
            raise has_left()

    async def carry_through(self, work: Callable[[*Args], Awaitable[T]], *args: *Args) -> T:
        """Do the work in a task of its own and wait for it: giving up the wait does not undo it."""
        self.refuse_if_closed()
        self.count += 1
        done = trio.Event()
        result: list[outcome.Outcome[T]] = []

        async def do() -> None:
            try:
                result.append(outcome.Value(await work(*args)))
            except Exception as error:  # noqa: BLE001 - handed to whoever waits
                result.append(outcome.Error(error))
            finally:
                if not result:  # the house is being closed around it
                    result.append(outcome.Error(has_left()))
                self.count -= 1
                done.set()

        self._workshop.start_soon(do)
        await done.wait()
        return result[0].unwrap()
