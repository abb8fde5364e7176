"""Nurseries for the tasks of Python agents, one agent at a time in each.

An agent that leaves a nursery open corrupts the task it runs in, and trio raises that in the
nursery around the task, so no two agents share one. To open and to close a nursery for each turn
costs more than the task of the agent, so an unused nursery is kept for the next turn. It is closed
after it was unused for `_KEEP_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import trio

# A nursery that is unused during a whole interval of this length is closed.
_KEEP_SECONDS: Final = 5.0

Work: TypeAlias = Callable[[], Awaitable[None]]
OnCorrupted: TypeAlias = Callable[[BaseException], None]


class AgentNursery:
    """A nursery for the task of one agent; its own task only holds it open."""

    __slots__ = (
        "_closed",
        "_nurseries",
        "cancel_reason",
        "nursery",
        "on_corrupted",
        "was_used",
    )

    def __init__(self, nurseries: AgentNurseries) -> None:
        self._nurseries = nurseries
        # None until its task has opened it, which is before the first work ends.
        self.nursery: trio.Nursery | None = None
        self._closed = trio.Event()
        # Why the work was cancelled; None while it was not.
        self.cancel_reason: str | None = None
        # Called with trio's error if the agent has corrupted its task; None while unused.
        self.on_corrupted: OnCorrupted | None = None
        self.was_used = True

    async def run(self, work: Work, name: str) -> None:
        """Open the nursery, start the work in it, and hold it open until `close`."""
        try:
            async with trio.open_nursery() as self.nursery:
                if self.cancel_reason is not None:
                    self.nursery.cancel_scope.cancel(reason=self.cancel_reason)
                self.nursery.start_soon(work, name=name)
                await self._closed.wait()
        except BaseException as error:
            self._nurseries.forget(self)
            if self.on_corrupted is None:
                raise  # no agent was running
            self.on_corrupted(error)

    def cancel(self, reason: str) -> None:
        """Cancel the work. No other agent gets this nursery."""
        self.cancel_reason = reason
        if self.nursery is not None:
            self.nursery.cancel_scope.cancel(reason=reason)

    def close(self) -> None:
        """End the task that holds the nursery open."""
        self._closed.set()


class AgentNurseries:
    """The unused nurseries, and the task that closes those that stay unused."""

    def __init__(self, start_soon: Callable[..., None]) -> None:
        self._start_soon = start_soon
        self._unused: list[AgentNursery] = []
        self._is_reaping = False

    def start_soon(self, work: Work, on_corrupted: OnCorrupted, *, name: str) -> AgentNursery:
        """Run the work in a nursery of its own; the work ends with `release` of that nursery.

        If the work returns without it, because its task is corrupted, `on_corrupted` is called.
        """
        if self._unused:
            nursery = self._unused.pop()
            nursery.on_corrupted = on_corrupted
            assert nursery.nursery is not None
            nursery.nursery.start_soon(work, name=name)
            return nursery
        nursery = AgentNursery(self)
        nursery.on_corrupted = on_corrupted
        self._start_soon(nursery.run, work, name)
        return nursery

    def release(self, nursery: AgentNursery) -> None:
        """Keep the nursery for the next agent; its task has nothing left to do but to return.

        The nursery of a cancelled agent ends by itself.
        """
        nursery.on_corrupted = None
        if nursery.cancel_reason is not None:
            return
        nursery.was_used = True
        self._unused.append(nursery)
        if not self._is_reaping:
            self._is_reaping = True
            self._start_soon(self._close_unused)

    def forget(self, nursery: AgentNursery) -> None:
        """Drop a nursery that has ended."""
        if nursery in self._unused:
            self._unused.remove(nursery)

    async def _close_unused(self) -> None:
        while self._unused:
            for nursery in self._unused:
                nursery.was_used = False
            await trio.sleep(_KEEP_SECONDS)
            for nursery in self._unused:
                if not nursery.was_used:
                    nursery.close()
            self._unused = [nursery for nursery in self._unused if nursery.was_used]
        self._is_reaping = False
