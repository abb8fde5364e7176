"""Restart of children: one task, for as long as there is a child to restart.

Rule 1: it works in rounds, and each round computes its scope again. An event during a round
        (another crash, a stop) does not change the round: it leads to another one.
Rule 2: the pause before a start ends at once on such an event or on cancellation.
Rule 3: a round that fails half way is followed by one that first halts the started children.
"""

from __future__ import annotations

import math
from typing import Protocol

import trio
from trio.lowlevel import checkpoint_if_cancelled, enable_ki_protection

from ._child import Child
from ._context import SystemContext
from ._restart import Exit, RestartKind, restart_scope
from ._spec import GroupSpec


class RestartTarget(Protocol):
    """The part of a supervisor that a restart uses."""

    name: str
    spec: GroupSpec
    context: SystemContext

    def restartable(self) -> list[tuple[str, RestartKind]]: ...
    def find(self, name: str) -> Child | None: ...
    async def halt_child(self, child: Child) -> None: ...
    def child_exited(self, child: Child, exit_: Exit) -> None: ...


class Recovery:
    """The restart of one child (one_for_one), or of all children that the strategy affects."""

    def __init__(
        self, supervisor: RestartTarget, recoveries: Recoveries, key: Child | None
    ) -> None:
        self.key = key
        self._supervisor = supervisor
        self._recoveries = recoveries
        # Invariant: the children that ended and must be restarted; empty means there is nothing
        # left to do. Changed by `add`, `discard`, and by a round that succeeded undisturbed.
        self._failed: dict[Child, None] = {}
        self._not_before = -math.inf
        self._changed = False
        self._scope = trio.CancelScope()
        self._pause = trio.CancelScope()
        # Set when its task no longer touches any child; after a cancel that takes a moment.
        self.ended = trio.Event()

    def add(self, child: Child, *, not_before: float) -> None:
        """Add a child that ended; start no child before the given instant."""
        self._failed[child] = None
        self._not_before = max(self._not_before, not_before)
        self._changed = True
        self._pause.cancel(reason="another child ended")

    def discard(self, child: Child) -> None:
        """Remove a child that has ended for good; cancel the recovery if no child is left."""
        self._failed.pop(child, None)
        if not self._failed:
            self.cancel()

    def cancel(self) -> None:
        """Stop restarting; the task ends soon after."""
        self._failed.clear()
        self._scope.cancel(reason="the restart was cancelled")
        self._recoveries.on_cancelled(self)

    @enable_ki_protection
    async def run(self) -> None:
        """Work in rounds until no child is left to restart, or until cancelled."""
        try:
            with self._scope:
                while self._failed:
                    await self._round()
        finally:
            self.ended.set()
            self._recoveries.on_ended(self)

    async def _round(self) -> None:
        self._changed = False
        scope = restart_scope(
            self._supervisor.spec.strategy, self._restartable(), [c.name for c in self._failed]
        )
        for name in scope.halt:
            await self._halt(name)
        if not self._changed:
            with trio.CancelScope() as self._pause:
                await trio.sleep_until(self._not_before)
        for name in scope.start:
            if self._changed:
                return
            await self._start(name)
        if not self._changed:
            self._failed.clear()

    def _restartable(self) -> list[tuple[str, RestartKind]]:
        if self.key is None:
            return self._supervisor.restartable()
        return [(self.key.name, self.key.policy.kind)]  # no list of ten thousand for one child

    async def _halt(self, name: str) -> None:
        child = self._supervisor.find(name)
        if child is None or child.reason is not None or not child.has_started:
            return  # ended, or a namesake that is being started
        await checkpoint_if_cancelled()
        # It goes down because of this restart. If the child that crashed is stopped meanwhile,
        # this one must still be restarted or, if it is temporary, finished.
        self._failed[child] = None
        await self._supervisor.halt_child(child)

    async def _start(self, name: str) -> None:
        child = self._supervisor.find(name)
        if child is None or child.state != "restarting" or not child.has_started:
            return  # ended, or a namesake
        exit_ = await child.launch()  # does nothing if this was cancelled meanwhile
        if exit_ is not None:
            self._supervisor.child_exited(child, exit_)


class Recoveries:
    """All restarts that are in progress in one group."""

    def __init__(self, supervisor: RestartTarget) -> None:
        self._supervisor = supervisor
        # By child in one_for_one, under None for the whole group.
        self._running: dict[Child | None, Recovery] = {}
        # Cancelled recoveries whose tasks are still cleaning up. Code that halts or stops the
        # children waits for these, or they would touch children that were started later.
        self._cancelled: set[Recovery] = set()

    def __bool__(self) -> bool:
        return bool(self._running)

    def schedule(self, child: Child, after_seconds: float) -> None:
        """Restart a child after a pause; start a recovery task unless one is running."""
        key = child if self._supervisor.spec.strategy == "one_for_one" else None
        recovery = self._running.get(key)
        if recovery is None:
            recovery = self._running[key] = Recovery(self._supervisor, self, key)
            self._supervisor.context.nursery.start_soon(
                recovery.run, name=f"{self._supervisor.name}: restart"
            )
        recovery.add(child, not_before=trio.current_time() + after_seconds)

    def discard(self, child: Child) -> None:
        """Stop restarting a child that has ended for good."""
        for recovery in (self._running.get(child), self._running.get(None)):
            if recovery is not None:
                recovery.discard(child)

    def cancel(self) -> None:
        """Cancel all recoveries."""
        for recovery in tuple(self._running.values()):
            recovery.cancel()

    async def wait_cancelled_ended(self) -> None:
        """Wait until the tasks of all cancelled recoveries have ended."""
        for recovery in tuple(self._cancelled):
            await recovery.ended.wait()

    def on_cancelled(self, recovery: Recovery) -> None:
        """Let another recovery begin, and remember this one until its task has ended."""
        self._drop(recovery)
        if not recovery.ended.is_set():
            self._cancelled.add(recovery)

    def on_ended(self, recovery: Recovery) -> None:
        """Forget a recovery whose task has ended."""
        self._cancelled.discard(recovery)
        self._drop(recovery)

    def _drop(self, recovery: Recovery) -> None:
        if self._running.get(recovery.key) is recovery:
            del self._running[recovery.key]
