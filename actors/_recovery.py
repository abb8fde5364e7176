"""Bringing back what broke: one task, for as long as there is something to bring back.

Rule 1: it goes in rounds, and a round works out afresh whom it reaches. News that arrives
        in a round (another crash, a stop) is never patched in: it leads to another round.
Rule 2: the pause before a start can be left at once, by news or by being called off.
Rule 3: a round that fails half way is followed by one that first halts what it had started.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio
from trio.lowlevel import checkpoint_if_cancelled, enable_ki_protection

from ._restart import RestartKind, reach

if TYPE_CHECKING:
    from ._child import Child
    from ._supervisor import Supervisor


class Recovery:
    """Brings back one child (one_for_one), or as much of a group as the strategy reaches."""

    def __init__(self, supervisor: Supervisor, key: Child | None) -> None:
        self.key = key
        self._supervisor = supervisor
        # Invariant: who ended and must come back; empty means there is nothing left to do.
        # Changed by `add`, `discard`, and by a round that succeeded without news.
        self._broken: dict[Child, None] = {}
        self._not_before = -math.inf
        self._news = False
        self._scope = trio.CancelScope()
        self._pause = trio.CancelScope()
        # Set when its task touches nobody any more, which after a call_off takes a moment.
        self.ended = trio.Event()

    def add(self, child: Child, *, not_before: float) -> None:
        """Another child broke; start nobody before the given instant."""
        self._broken[child] = None
        self._not_before = max(self._not_before, not_before)
        self._news = True
        self._pause.cancel(reason="another child ended")

    def discard(self, child: Child) -> None:
        """A child is over for good, so it is not ours to bring back any more."""
        self._broken.pop(child, None)
        if not self._broken:
            self.call_off()

    def call_off(self) -> None:
        self._broken.clear()
        self._scope.cancel(reason="the restart was called off")
        self._supervisor.called_off(self)

    @enable_ki_protection
    async def run(self) -> None:
        try:
            with self._scope:
                while self._broken:
                    await self._round()
        finally:
            self.ended.set()
            self._supervisor.recovered(self)

    async def _round(self) -> None:
        self._news = False
        whom = reach(self._supervisor.spec.strategy, self._roster(), [c.name for c in self._broken])
        for name in whom.halt:
            await self._halt(name)
        if not self._news:
            with trio.CancelScope() as self._pause:
                await trio.sleep_until(self._not_before)
        for name in whom.start:
            if self._news:
                return
            await self._start(name)
        if not self._news:
            self._broken.clear()

    def _roster(self) -> list[tuple[str, RestartKind]]:
        if self.key is None:
            return self._supervisor.roster()
        return [(self.key.name, self.key.policy.kind)]  # one of ten thousand needs no list of them

    async def _halt(self, name: str) -> None:
        child = self._supervisor.find(name)
        if child is None or child.reason is not None or not child.was_up:
            return  # over, or another one of the same name that is just being started
        await checkpoint_if_cancelled()
        # It goes down because of us. Should the one that crashed be stopped meanwhile, this one
        # must still come back or, if it is temporary, be over.
        self._broken[child] = None
        await self._supervisor.halt_child(child)

    async def _start(self, name: str) -> None:
        child = self._supervisor.find(name)
        if child is None or child.state != "restarting" or not child.was_up:
            return  # over, or another one of the same name
        exit_ = await child.launch()  # does nothing if this was called off meanwhile
        if exit_ is not None:
            self._supervisor.child_exited(child, exit_)
