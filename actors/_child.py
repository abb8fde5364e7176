"""Common base of the two kinds of children of a supervisor: actors and groups of actors.

Rule 1: `desired_state` says what the child should be doing, `state` what it is doing. Only
        `run` may become `halt`, and anything may become `stop`; a stop is never taken back.
Rule 2: `finish` happens once; it wakes waiters and notifies watchers in the same step.
Rule 3: a halt is not an end. A halted child keeps its mailbox and its refs; the code that
        halted it launches it again or finishes it.
"""

from __future__ import annotations

import abc
import math
from typing import Literal, Protocol, TypeAlias

import attrs
import trio

from ._context import SystemContext
from ._errors import AskSelf, GaveUp
from ._group import Group
from ._handle import State, Watcher
from ._ref import Ref
from ._restart import Exit, RestartPolicy

DesiredState: TypeAlias = Literal["run", "halt", "stop"]


@attrs.frozen(eq=False)
class Ended:
    """Message to each watcher of `ref` (an actor or a group) when it has ended for good."""

    ref: Ref | Group
    reason: Exit


class ExitHandler(Protocol):
    """The part of a supervisor that its children use."""

    def child_exited(self, child: Child, exit_: Exit) -> None: ...
    def child_ended_for_good(self, child: Child, exit_: Exit) -> None: ...


class Child(abc.ABC):
    """State and behaviour that an actor and a group have in common."""

    __slots__ = (
        "_ended",
        "_waiters",
        "_watchers",
        "context",
        "declared",
        "desired_state",
        "has_started",
        "launches",
        "name",
        "policy",
        "reason",
        "recent_restarts",
        "state",
        "supervisor",
    )

    def __init__(
        self,
        name: str,
        policy: RestartPolicy,
        *,
        supervisor: ExitHandler | None,
        context: SystemContext,
    ) -> None:
        self.name = name
        self.policy = policy
        self.supervisor = supervisor
        self.context = context
        self.state: State = "starting"
        self.desired_state: DesiredState = "run"
        # True for the children in a group's spec: the group keeps listing them after their end.
        # Children started later are dropped, or ten thousand of them would pile up.
        self.declared = False
        # False during the very first start: until then no restart affects it. (The children of
        # a spec count as started from the beginning: they start together.)
        self.has_started = False
        self.launches = 0
        # The restarts that count against `policy`, where the child has its own intensity.
        self.recent_restarts: tuple[float, ...] = ()
        # Invariant: None until `finish`, then the final exit.
        self.reason: Exit | None = None
        self._ended: trio.Event | None = None
        # The tasks in `wait_stopped`. A parking lot, not an event: it has an exact count of
        # waiters, and a waiter that receives a GaveUp has thereby handled it.
        self._waiters: trio.lowlevel.ParkingLot | None = None
        self._watchers: dict[Watcher, None] | None = None

    @property
    def restarts(self) -> int:
        """The number of launches after the first, successful or not."""
        return max(0, self.launches - 1)

    @property
    def is_ending(self) -> bool:
        """True once a stop was requested or the child has ended."""
        return self.desired_state == "stop"

    @property
    @abc.abstractmethod
    def handle(self) -> Ref | Group:
        """The public handle of this child."""

    @abc.abstractmethod
    async def launch(self) -> Exit | None:
        """Begin an incarnation; return None once it runs, or the exit if it ended before.

        If cancelled, the start is cancelled too, and no task of it is left when this returns.
        """

    @abc.abstractmethod
    async def halt(self, *, grace_seconds: float = math.inf) -> None:
        """End the incarnation but not the child; return when none of its tasks runs.

        If this call is cancelled before it begins, it does nothing. After a later cancellation the
        caller must halt the child again, or stop it.
        """

    @abc.abstractmethod
    def request_stop(self, *, grace_seconds: float = math.inf) -> None:
        """Request the end of the child for good within `grace_seconds`.

        A repeat can only shorten it.
        """

    def clear_failure(self) -> None:  # noqa: B027 - only a group has a failure to clear
        """Forget the reason for which the child was given up, because it is launched again."""

    @abc.abstractmethod
    def runs_in(self, task: trio.lowlevel.Task) -> bool:
        """Return True if waiting for this child's end would wait for `task`."""

    def finish(self, exit_: Exit) -> None:
        """Set the final exit, wake waiters and notify watchers."""
        if self.reason is not None:
            return
        self.state = "stopped"
        self.desired_state = "stop"
        self.reason = exit_
        if self._ended is not None:
            self._ended.set()
        if self._waiters is not None:
            if isinstance(exit_, GaveUp) and len(self._waiters):
                exit_.handled = True
            self._waiters.unpark_all()
        watchers, self._watchers = self._watchers, None
        for watcher in watchers or ():
            watcher.notify_ended(self, Ended(self.handle, exit_), exit_)

    async def wait_ended(self) -> None:
        """Wait until the child has ended for good."""
        if self.reason is not None:
            await trio.lowlevel.checkpoint()
            return
        if self._ended is None:
            self._ended = trio.Event()
        await self._ended.wait()

    async def wait_stopped(self) -> Exit:
        """Wait for the end; return the exit, or raise `GaveUp` if the child was given up.

        Cancelling the wait changes nothing.
        """
        if self.reason is None:
            if self._waiters is None:
                self._waiters = trio.lowlevel.ParkingLot()
            await self._waiters.park()
        elif not isinstance(self.reason, GaveUp):
            # A known GaveUp is raised without another checkpoint: a task woken by the same
            # crash gets here just in time to handle it before it escalates.
            await trio.lowlevel.checkpoint()
        assert self.reason is not None
        if isinstance(self.reason, GaveUp):
            self.reason.handled = True
            raise self.reason.copy()
        return self.reason

    def refuse_own_task(self, verb: str, instead: str) -> None:
        """Raise `AskSelf` if the running task would wait for itself."""
        if self.runs_in(trio.lowlevel.current_task()):
            raise AskSelf(self.name, verb=verb, instead=instead)

    def add_watcher(self, watcher: Watcher) -> None:
        if self.reason is not None:
            watcher.notify_ended(self, Ended(self.handle, self.reason), self.reason)
            return
        if self._watchers is None:
            self._watchers = {}
        self._watchers[watcher] = None

    def remove_watcher(self, watcher: Watcher) -> None:
        if self._watchers is not None:
            self._watchers.pop(watcher, None)
